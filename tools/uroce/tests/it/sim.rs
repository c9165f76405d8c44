//! `uroce sim`, as a user runs it.

use crate::common::{code, run, text};

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
    let output = run(&format!("sim replay 5 --pcap {path} --json"));
    assert_eq!(code(&output), 0, "{}", text(&output));
    let recorded: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let output = run(&format!("dissect {path}"));
    std::fs::remove_file(&file).expect("it was written");
    assert_eq!(code(&output), 0, "{}", text(&output));
    let lines = String::from_utf8_lossy(&output.stdout).lines().count() as u64;
    assert_eq!(recorded["packets"], lines);
}

#[test]
fn what_cannot_be_run_is_refused() {
    for words in ["sim sweep --seeds 9..3", "sim replay 1", "sim run"] {
        let output = run(words);
        assert_eq!(code(&output), 2, "{words}: {}", text(&output));
    }
    let output = run("sim replay 1 --pcap /nonexistent/x.pcapng");
    assert_eq!(code(&output), 3, "{}", text(&output));
}
