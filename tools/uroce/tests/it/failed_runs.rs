//! What a program learns by `--json` of a run that failed when some of it was done.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use crate::common::{code, ends, free_port, spawn, stderr, stdout};

/// The client's JSON, when its server was killed in the middle of the run.
fn killed_server(words: &str) -> serde_json::Value {
    let shared = format!("{words} -p {} --roce-port {}", free_port(), free_port());
    let mut server = spawn(&format!("{shared} --address 127.0.0.1"));
    let client = spawn(&format!("{shared} --json --address 127.0.0.2 127.0.0.1"));
    let mut lines = BufReader::new(server.stdout.take().expect("piped")).lines();
    let connected = lines.any(|line| line.is_ok_and(|line| line.contains("remote address")));
    std::thread::sleep(Duration::from_millis(700));
    server.kill().and_then(|()| server.wait()).expect("it runs");
    let output = client.wait_with_output().expect("it ends");
    assert!(connected && code(&output) == 4, "{}{}", stdout(&output), stderr(&output));
    serde_json::from_slice(&output.stdout).expect("one object")
}

#[test]
fn a_report_of_a_run_that_failed_has_its_reason() {
    for words in ["perf write bw -D 60", "pingpong rc -n 100000000"] {
        let report = killed_server(words);
        assert_eq!((&report["partial"], &report["exit"]), (&true.into(), &4.into()), "{report}");
        let told = report["error"].as_str().is_some_and(|error| error.contains("127.0.0.1"));
        assert!(told && report.get("help").is_some(), "{report}");
    }
}

#[test]
fn the_times_of_exchanges_are_told_to_programs_that_ask_for_them() {
    let words = "pingpong rc -n 50 --json";
    let [server, client] = ends(&format!("{words} --ts"), words);
    let report = |output| serde_json::from_slice::<serde_json::Value>(output).expect("one object");
    let (with, without) = (report(&server.stdout), report(&client.stdout));
    for name in ["t_min", "t_typical", "t_99", "t_max"] {
        assert!(with[name].as_f64().is_some_and(|time| time > 0.0), "{name}: {with}");
        assert!(without.get(name).is_none(), "{name}: {without}");
    }
    assert!(with.get("error").is_none(), "{with}");
}
