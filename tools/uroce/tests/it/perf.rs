//! What `uroce perf` says of bytes that were wrong, of messages that were lost, and of the times it measured.

use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{code, stderr, stdout, text, uroce};

/// The first messages of this operation arrive with a wrong byte, as often as they are sent.
fn damage(operation: &str, messages: &str) -> String {
    format!("tx op={operation} msg={messages} -> corrupt=payload@1.0, fix-icrc")
}

fn faulty(words: &str, rules: &str) -> Output {
    let mut command = uroce(&format!("perf {words} --local"));
    command.args(["--fault", rules]).output().expect("it runs")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(output)))
}

#[test]
fn a_wrong_byte_of_any_size_is_told() {
    for (words, operation) in [
        ("send bw -a -n 5", "send"),
        ("send bw -b -a -n 5", "send"),
        ("write bw -a -n 5", "write"),
        ("write bw -b -a -n 5", "write"),
        ("read bw -a -n 5", "read-resp"),
        ("send lat -a -n 5", "send"),
    ] {
        assert_wrong(words, &damage(operation, "1"), 1);
    }
    // Of the messages that overwrite each other the last one of the first size; its other byte is a counter.
    let last = "tx op=write msg=5 -> corrupt=payload@0.0, fix-icrc";
    assert_wrong("write lat -a -n 5", last, 0);
}

fn assert_wrong(words: &str, rules: &str, offset: u32) {
    let output = faulty(&format!("{words} --verify --json"), rules);
    assert_eq!(code(&output), 1, "{words}: {}", text(&output));
    assert_eq!(json(&output)["verified"], false, "{words}");
    let told = stderr(&output);
    assert!(told.contains(&format!("wrong byte at offset {offset} of a")), "{words}: {told}");
    assert!(!told.contains("verified:"), "{words}: {told}");
}

#[test]
fn each_message_of_send_is_looked_at() {
    for words in
        ["send bw -s 4096 -n 100", "send bw -s 4096 -n 100 -c UD", "send bw -s 100 -n 1000"]
    {
        let output = faulty(&format!("{words} --verify"), &damage("send", "1..3"));
        assert_eq!(code(&output), 1, "{words}: {}", text(&output));
        let told = stderr(&output);
        assert!(told.contains("wrong byte at offset 1 of a message"), "{words}: {told}");
        assert!(told.contains("3 of 1"), "{words}: {told}");
    }
}

#[test]
fn bytes_that_are_right_are_told_as_what_was_looked_at() {
    for (words, told) in [
        ("send bw -a -b -n 5", "verified: the bytes that arrived are those"),
        ("send bw -s 100 -n 1000 -l 8 -I 128", "verified: the bytes that arrived are those"),
        ("send bw -s 100 -n 1000 -q 3", "verified: the bytes that arrived are those"),
        ("send bw -c UD -s 1024 -n 100 -q 2", "verified: the bytes that arrived are those"),
        ("write bw -a -n 5", "those that were overwritten before are not checked"),
        ("write bw -a -b -n 5 -q 2", "those that were overwritten before are not checked"),
        ("read bw -a -b -n 5", "those that were overwritten before are not checked"),
        ("write lat -a -n 5", "those that were overwritten before are not checked"),
        ("atomic bw -n 50", "verified: the last atomic at each place"),
    ] {
        let output = uroce(&format!("perf {words} --local --verify")).output().expect("it runs");
        assert_eq!(code(&output), 0, "{words}: {}", text(&output));
        assert!(stderr(&output).contains(told), "{words}: {}", stderr(&output));
    }
}

#[test]
fn a_datagram_that_was_lost_is_no_wrong_byte() {
    let output = faulty("send bw -c UD -s 1000 -n 100 --verify", "rx op=send -> drop every=7");
    assert_eq!(code(&output), 0, "{}", text(&output));
    assert!(stderr(&output).contains("verified:"), "{}", stderr(&output));
    assert!(stderr(&output).contains("of 100 messages came"), "{}", stderr(&output));
}

#[test]
fn lost_datagrams_do_not_stop_a_test_both_ways() {
    for connection in ["UD", "UC"] {
        let start = Instant::now();
        let words = format!("send bw -c {connection} -b -n 1000 -s 1024 --json");
        let output = faulty(&words, "rx op=send -> drop every=50");
        assert_eq!(code(&output), 0, "{connection}: {}", text(&output));
        let told = stderr(&output);
        assert!(told.contains("of 1000 messages came"), "{connection}: {told}");
        assert!(told.contains("does not repeat lost packets"), "{connection}: {told}");
        assert_eq!(json(&output)["results"][0]["n_iterations"], 1000, "{}", stdout(&output));
        assert!(start.elapsed() < Duration::from_secs(15), "{connection}");
    }
}

#[test]
fn the_rate_of_a_latency_test_is_that_of_its_times() {
    for (words, samples) in
        [("read lat -n 5", 1.0), ("write lat -n 5", 2.0), ("send lat -D 3 -f 1", 2.0)]
    {
        let output = uroce(&format!("perf {words} --local --json")).output().expect("it runs");
        assert_eq!(code(&output), 0, "{words}: {}", text(&output));
        let row = &json(&output)["results"][0];
        let figure = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{words}: {row}"));
        let rate = 1e6 / (figure("t_avg") * samples);
        let ratio = figure("tps_average") / rate;
        assert!((ratio - 1.0).abs() < 0.01, "{words}: {row}");
    }
}

#[test]
fn the_json_of_a_latency_test_has_what_its_text_has() {
    let words = "perf send lat --local -n 20 --json";
    let row = |more: &str| {
        let output = uroce(&format!("{words} {more}")).output().expect("it runs");
        json(&output)["results"][0].clone()
    };
    let row_with = row("-U --percentiles");
    assert_eq!(row_with["samples"].as_array().map(Vec::len), Some(19), "{row_with}");
    for name in ["t_75", "t_95"] {
        assert!(row_with[name].as_f64().is_some_and(|us| us > 0.0), "{name}: {row_with}");
    }
    let sorted = row("-H")["samples"].as_array().expect("a list").clone();
    assert!(sorted.is_sorted_by_key(|us| us.as_f64()), "{sorted:?}");
    assert!(row("").get("samples").is_none());
}
