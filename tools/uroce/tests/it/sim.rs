//! `uroce sim`, as a user runs it.

use std::process::Stdio;

use crate::common::{code, interrupt, run, spawn, text, uroce, wait_until_it_catches_signals};

#[test]
fn the_simulation_of_a_seed_is_told() {
    let output = run("sim run --seed 3");
    assert_eq!(code(&output), 0, "{}", text(&output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("seed 3: "), "{said}");
    assert!(said.contains("every invariant holds"), "{said}");
}

#[test]
fn a_sweep_adds_up_its_seeds() {
    let both: serde_json::Value = json("sim sweep --seeds 4..6 --jobs 2 --json");
    let alone: Vec<_> = [4, 5].map(|seed| json(&format!("sim run --seed {seed} --json"))).into();
    let packets = |value: &serde_json::Value| value["packets"].as_u64().expect("a number");
    assert_eq!(both["seeds"], 2);
    assert_eq!(packets(&both), alone.iter().map(packets).sum::<u64>());
    assert!(both["violation"].is_null());
}

fn json(words: &str) -> serde_json::Value {
    let output = run(words);
    assert_eq!(code(&output), 0, "{}", text(&output));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

#[test]
fn a_replay_is_a_capture_that_can_be_analyzed() {
    let name = format!("uroce-sim-{}.pcapng", std::process::id());
    let file = std::env::temp_dir().join(name);
    let path = file.to_str().expect("a plain name");
    // Among them are some in which the host that forges packets is answered.
    for seed in 0..16 {
        let recorded = json(&format!("sim replay {seed} --pcap {path} --json"));
        let output = run(&format!("dissect {path}"));
        assert_eq!(code(&output), 0, "seed {seed}: {}", text(&output));
        let lines = String::from_utf8_lossy(&output.stdout).lines().count() as u64;
        assert_eq!(recorded["packets"], lines, "seed {seed}");
    }
    std::fs::remove_file(&file).expect("it was written");
}

/// A workflow sets them for all of its commands. A name with `%p` is another one for each process.
#[test]
fn what_the_environment_has_is_for_other_commands() {
    let file = |id| std::env::temp_dir().join(format!("uroce-sim-env-{id}.pcapng"));
    for (words, records) in
        [("run --seed 3", false), ("sweep --seeds 3..4", false), ("replay 3", true)]
    {
        let mut command = uroce(&format!("sim {words}"));
        command.env("UROCE_PCAP", file("%p".to_owned())).env("UROCE_FAULT", "any drop 1%");
        command.env("UROCE_ENGINES", "2").env("UROCE_ROCE_PORT", "5000");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("the program was built");
        let file = file(child.id().to_string());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(code(&output), 0, "{words}: {}", text(&output));
        assert_eq!(std::fs::remove_file(&file).is_ok(), records, "{words}");
    }
}

#[test]
fn a_sweep_ends_at_the_last_seed_that_there_is() {
    let last = u64::MAX;
    let both = json(&format!("sim sweep --seeds {}..{last} --jobs 4 --json", last - 2));
    assert_eq!(both["seeds"], 2);
}

#[test]
fn an_interrupted_sweep_tells_how_to_go_on() {
    let child = spawn("sim sweep --seeds 5..1000000 --jobs 2");
    wait_until_it_catches_signals(child.id());
    interrupt(&child);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(code(&output), 1, "{}", text(&output));
    let said = text(&output);
    let line = said.lines().find(|line| line.contains(" packets in ")).expect("a summary");
    let seeds: u64 = line.split(' ').next().and_then(|word| word.parse().ok()).expect("a number");
    assert!(said.contains(&format!("--seeds {}..1000000` goes on", 5 + seeds)), "{said}");
}

#[test]
fn what_cannot_be_run_is_refused() {
    for words in [
        "sim sweep --seeds 9..3",
        "sim sweep --seeds 0..1 --jobs 0",
        "sim replay 1",
        "sim run",
        "sim run --seed 1 --pcap x.pcapng",
        "sim run --seed 1 --engines 4",
        "sim run --seed 1 --fault drop",
    ] {
        let output = run(words);
        assert_eq!(code(&output), 2, "{words}: {}", text(&output));
    }
    let output = run("sim replay 1 --pcap /nonexistent/x.pcapng");
    assert_eq!(code(&output), 3, "{}", text(&output));
}
