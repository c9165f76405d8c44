//! The built program, as a user runs it.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Output};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::common::{code, free_port, interrupt, run, spawn, stderr, stdout, uroce};

#[test]
fn a_wrong_command_line_is_told_as_json_too() {
    for words in ["foo --json", "pingpong rc --bogus --json", "--json pingpong rc -s abc 127.0.0.1"]
    {
        let output = run(words);
        assert_eq!(code(&output), 2, "{words}");
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
        assert_eq!(told["exit"], 2, "{words}");
        assert!(told["error"].as_str().is_some_and(|error| !error.is_empty()), "{words}: {told}");
        assert!(stderr(&output).contains("error:"), "{words}");
    }
    let help = run("perf --json --help");
    assert!(code(&help) == 0 && stdout(&help).contains("Usage"), "{}", stdout(&help));
}

fn assert_ok(output: &Output) {
    assert_eq!(code(output), 0, "{}{}", stdout(output), stderr(output));
}

/// Both ends of a test, which meet on ports of their own; server first.
fn both_ends(words: &str) -> [Output; 2] {
    ends_on(words, "127.0.0.2")
}

/// The same with the client on this address.
fn ends_on(words: &str, client: &str) -> [Output; 2] {
    let (tcp, roce) = (free_port(), free_port());
    let shared = format!("{words} -p {tcp} --roce-port {roce}");
    let server = spawn(&format!("{shared} --address 127.0.0.1"));
    let client = run(&format!("{shared} --address {client} 127.0.0.1"));
    [server.wait_with_output().expect("it ends"), client]
}

/// The program, killed if the test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_command_has_help() {
    for command in [
        "",
        "demo",
        "devices",
        "devinfo",
        "gids",
        "pingpong",
        "rping",
        "perf",
        "res",
        "stat",
        "completions",
    ] {
        let output = run(&format!("{command} --help"));
        assert_ok(&output);
        let text = stdout(&output);
        assert!(text.contains("Usage: uroce"), "{command}: {text}");
    }
}

#[test]
fn wrong_usage_is_exit_code_2_and_says_what_to_do() {
    for words in [
        "",
        "frobnicate",
        "perf write",
        "perf write bw --no-such-flag",
        "perf write bw -n 4",
        "perf write bw -c UD",
        "perf read lat -c UC",
        "perf write bw -R",
        "perf write bw -m 1000",
        "perf write bw --local host",
        "perf write bw --local=host",
        "perf write bw --local=fabric --datapath udp",
        "completions bash --json",
        "run --json -- true",
        "pingpong ud -s 5000 127.0.0.1",
        "pingpong rc -m 100",
        "demo --a 127.0.0.1 --b 127.0.0.1",
        "devices --log shout",
        "rping",
        "rping -s -c",
        "rping -c",
        "rping -s -S 22",
        "rping -c -a 127.0.0.1 -S 65536",
        "devices --datapath token-ring",
        "res tunnel",
        "stat --pid x",
        "pingpong rc --datapath loopback",
        "perf write bw --datapath loopback",
    ] {
        let output = run(words);
        assert_eq!(code(&output), 2, "{words}: {}", stderr(&output));
        assert!(!output.stderr.is_empty(), "{words}");
    }
}

#[test]
fn what_the_machine_lacks_is_exit_code_3() {
    for words in [
        "perf write bw --local -m 4096 -d no_such_device",
        "devinfo -d no_such_device",
        "demo --a 198.51.100.1",
        "demo --pcap /no/such/folder/x.pcapng",
    ] {
        let output = run(words);
        assert_eq!(code(&output), 3, "{words}: {}", stderr(&output));
        assert!(stderr(&output).starts_with("error: "), "{}", stderr(&output));
    }
}

#[test]
fn a_missing_server_is_exit_code_4_and_soon() {
    let start = Instant::now();
    let output = run(&format!("perf write bw -p {} 127.0.0.1", free_port()));
    assert_eq!(code(&output), 4);
    assert!(stderr(&output).contains("start the server first"), "{}", stderr(&output));
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn two_processes_measure_on_one_address() {
    for words in ["perf write bw -n 100 -s 65536", "perf send lat -n 100", "pingpong ud -n 100"] {
        for output in ends_on(words, "127.0.0.1") {
            assert_ok(&output);
        }
    }
}

#[test]
fn a_busy_roce_port_is_named() {
    let taken = UdpSocket::bind("127.0.0.9:0").expect("free");
    let port = taken.local_addr().expect("bound").port();
    let second =
        run(&format!("perf write bw -p {} --address 127.0.0.9 --roce-port {port}", free_port()));
    assert_eq!(code(&second), 3, "{}", stderr(&second));
    assert!(stderr(&second).contains("--roce-port"), "{}", stderr(&second));
}

#[test]
fn demo_passes() {
    let output = run(&format!("demo --quick --roce-port {}", free_port()));
    assert_ok(&output);
    let text = stdout(&output);
    for operation in ["SEND", "RDMA WRITE", "RDMA READ", "FETCH AND ADD", "IBV_WC_REM_ACCESS_ERR"] {
        assert!(text.contains(operation), "{operation}: {text}");
    }
    assert!(!text.contains("FAILED"), "{text}");
}

#[test]
fn devices_in_text_and_json() {
    let output = run("devices");
    assert_ok(&output);
    assert!(stdout(&output).contains("127.0.0.1"));
    let output = run("gids --json");
    assert_ok(&output);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["version"], 1);
    let output = run("devinfo -v -d 127.0.0.1");
    assert_ok(&output);
    assert!(stdout(&output).contains("PORT_ACTIVE (4)"), "{}", stdout(&output));
}

#[test]
fn local_runs_print_rows() {
    for test in [
        "write bw",
        "read bw",
        "send bw",
        "atomic bw",
        "write lat",
        "read lat",
        "send lat",
        "atomic lat",
    ] {
        let output = run(&format!("perf {test} --local -n 50 --verify"));
        assert_ok(&output);
        let text = stdout(&output);
        let row = text.lines().filter(|line| line.split_whitespace().nth(1) == Some("50"));
        assert_eq!(row.count(), 1, "{test}: {text}");
        assert!(stderr(&output).contains("verified"), "{test}: {}", stderr(&output));
    }
}

#[test]
fn local_runs_with_the_other_flags() {
    for flags in [
        "write bw -q 3 -b -n 50",
        "write bw -l 8 -n 50",
        "write bw -s 100 -I 128 -Q 10 -n 50",
        "send bw -c UD -s 1024 -n 50",
        "send bw -e -n 50",
        "send bw --use-srq -n 50",
        "send bw -q 2 -b -n 50",
        "send lat -c UC -n 50 -H",
        "write lat -c UC -n 50 --percentiles",
        "read bw -o 4 -m 256 -n 50",
        "write bw -a -n 5",
        "send bw -a -b -n 5",
        "atomic bw -A CMP_AND_SWAP -n 50",
    ] {
        let output = run(&format!("perf {flags} --local"));
        assert_ok(&output);
    }
}

#[test]
fn timed_runs_end() {
    for test in ["write bw", "send bw", "write lat", "send lat", "read lat"] {
        let start = Instant::now();
        let output = run(&format!("perf {test} -D 1 --local"));
        assert_ok(&output);
        assert!(start.elapsed() < Duration::from_secs(8), "{test}");
    }
}

#[test]
fn json_has_a_version_and_figures() {
    let output = run("perf send lat --local -n 20 --json --verify");
    assert_ok(&output);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    assert_eq!((&json["version"], &json["verified"]), (&1.into(), &true.into()));
    assert!(json["results"][0]["t_typical"].as_f64().is_some_and(|us| us > 0.0), "{json}");
    assert!(json["usage"]["cpu_seconds"].as_f64().is_some_and(|cpu| cpu > 0.0), "{json}");
    assert!(json["counters"]["datapath_tx_packets"].as_u64().is_some_and(|n| n >= 20), "{json}");
}

#[test]
fn two_processes_measure_over_udp() {
    for test in ["perf write bw -n 50 --verify", "perf send lat -n 50 --verify"] {
        let [server, client] = both_ends(test);
        assert_ok(&server);
        assert_ok(&client);
        assert!(stderr(&client).contains("verified"), "{}", stderr(&client));
    }
}

#[test]
fn devices_with_different_numbers_of_engines_measure_together() {
    for test in [
        "write bw -q 6 -n 50 --verify",
        "read bw -q 5 -n 50 --verify",
        "send bw -q 4 -n 50 --verify",
        "send bw -q 4 -n 50 -e",
        "write bw -q 4 -n 50 -b",
        "atomic bw -q 3 -n 50",
        "send lat -n 20",
    ] {
        let (tcp, roce) = (free_port(), free_port());
        let shared = format!("perf {test} -p {tcp} --roce-port {roce}");
        let server = spawn(&format!("{shared} --engines 3 --address 127.0.0.1"));
        let client = run(&format!("{shared} --engines 2 --address 127.0.0.2 127.0.0.1"));
        let server = server.wait_with_output().expect("it ends");
        assert_ok(&server);
        assert_ok(&client);
        if test.ends_with("--verify") {
            assert!(stderr(&client).contains("verified"), "{test}: {}", stderr(&client));
        }
    }
}

#[test]
fn engines_that_there_cannot_be_are_refused_with_a_remedy() {
    let switch = run("perf write bw --local --engines 2");
    assert_eq!(code(&switch), 3, "{}", stderr(&switch));
    assert!(
        stderr(&switch).contains("use `udp`, `uring`, `packet` or `xdp`"),
        "{}",
        stderr(&switch)
    );
    let shared = run("perf send bw --local=udp --engines 2 -q 2 --use-srq --roce-port 24803");
    assert_eq!(code(&shared), 2, "{}", stderr(&shared));
    let variable = uroce("devices").env("UROCE_ENGINES", "many").output().expect("built");
    assert_eq!(code(&variable), 2, "{}", stderr(&variable));
    assert!(stderr(&variable).contains("UROCE_ENGINES"), "{}", stderr(&variable));
}

#[test]
fn the_port_of_the_environment_is_read_where_no_option_names_one() {
    let devices = |words: &str| {
        let found = uroce(words).env("UROCE_ROCE_PORT", "0").output().expect("built");
        (code(&found), stderr(&found))
    };
    let (status, said) = devices("devices");
    assert!(status == 2 && said.contains("UROCE_ROCE_PORT is 0"), "{status} {said}");
    let (status, said) = devices("devices --roce-port 4796");
    assert_eq!(status, 0, "an option goes first: {said}");
}

/// The first packets of WRITEs of 16 KiB, as the client's capture has them.
fn ladder_of_writes(words: &str, variable: Option<&str>) -> String {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("writes.pcapng").display().to_string();
    let (tcp, roce) = (free_port(), free_port());
    let shared = format!("perf write bw -n 5 -s 16384 -p {tcp} --roce-port {roce}");
    let server = spawn(&format!("{shared} --address 127.0.0.1"));
    let client = format!("{shared} {words} --pcap {file} --address 127.0.0.2 127.0.0.1");
    let set = variable.map(|value| ("UROCE_SPLIT_WRITES", value));
    assert_ok(&uroce(&client).envs(set).output().expect("built"));
    assert_ok(&server.wait_with_output().expect("it ends"));
    stdout(&run(&format!("ladder {file} --roce-port {roce} --no-fold --limit 4")))
}

#[test]
fn short_writes_are_split_unless_an_option_or_the_environment_says_otherwise() {
    let split = ladder_of_writes("", None);
    assert!(split.contains("WRITE Only") && !split.contains("WRITE First"), "{split}");
    for (words, variable) in [("--no-split-writes", None), ("", Some("0"))] {
        let whole = ladder_of_writes(words, variable);
        assert!(whole.contains("WRITE First") && !whole.contains("WRITE Only"), "{whole}");
    }
    let wrong = uroce("devices").env("UROCE_SPLIT_WRITES", "no").output().expect("built");
    assert_eq!(code(&wrong), 2);
    assert!(stderr(&wrong).contains("UROCE_SPLIT_WRITES is no, not 0 or 1"), "{}", stderr(&wrong));
}

#[test]
fn pingpong_of_every_kind() {
    for kind in ["rc -c", "uc -c", "ud -c", "srq", "rc -e -t"] {
        let [server, client] = both_ends(&format!("pingpong {kind} -n 50"));
        assert_ok(&server);
        assert_ok(&client);
        for end in [&server, &client] {
            let text = stdout(end);
            assert!(text.contains("remote address: LID 0x0000, QPN 0x"), "{kind}: {text}");
            assert!(text.contains("50 iters in "), "{kind}: {text}");
        }
    }
}

#[test]
fn ctrl_c_prints_what_was_measured() {
    let child = spawn("perf write bw --local -D 60");
    std::thread::sleep(Duration::from_millis(1500));
    interrupt(&child);
    let output = child.wait_with_output().expect("it ends");
    assert_ok(&output);
    assert!(stdout(&output).lines().any(|line| line.starts_with(" 65536 ")), "{}", stdout(&output));
}

#[test]
fn a_peer_that_dies_ends_the_run_with_exit_code_4_and_partial_results() {
    let (tcp, roce) = (free_port(), free_port());
    let shared = format!("perf write bw -D 60 -p {tcp} --roce-port {roce}");
    let mut server = Running(spawn(&format!("{shared} --address 127.0.0.1")));
    let client = spawn(&format!("{shared} --address 127.0.0.2 127.0.0.1"));
    let mut lines = BufReader::new(server.0.stdout.take().expect("piped")).lines();
    let connected = lines.any(|line| line.is_ok_and(|line| line.contains("remote address")));
    assert!(connected);
    std::thread::sleep(Duration::from_millis(700));
    server.0.kill().expect("it runs");
    let output = client.wait_with_output().expect("it ends");
    assert_eq!(code(&output), 4, "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).lines().any(|line| line.starts_with(" 65536 ")), "{}", stdout(&output));
}

#[test]
fn completions_for_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&format!("completions {shell}"));
        assert_ok(&output);
        assert!(stdout(&output).contains("pingpong"));
    }
}

#[test]
fn the_datapath_is_what_was_asked_for_and_is_shown() {
    for (words, shown) in [
        ("demo --quick --roce-port 24801 --a 127.0.0.71 --b 127.0.0.72 --datapath udp", "over udp"),
        ("demo --quick --datapath loopback", "over loopback"),
        ("devinfo -v -d 127.0.0.1 --datapath udp", "udp: named by whoever opened the device"),
        ("devinfo -v -d 127.0.0.1", "datapath_choice:"),
    ] {
        let output = run(words);
        assert_ok(&output);
        assert!(stdout(&output).contains(shown), "{words}: {}", stdout(&output));
    }
    let output = run("perf write bw --local --datapath udp -n 20 --roce-port 24802");
    assert_ok(&output);
}

#[test]
fn a_variable_with_a_datapath_that_does_not_exist_is_wrong_usage() {
    let output = uroce("devices").env("UROCE_DATAPATH", "token-ring").output().expect("built");
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("UROCE_DATAPATH"), "{}", stderr(&output));
}

/// Both ends of an rping on addresses and a UDP port of their own; server first.
fn rping(server: &str, client: &str) -> [Output; 2] {
    let roce = free_port();
    let running = spawn(&format!("rping -s -a 127.0.0.1 --roce-port {roce} {server}"));
    let client = format!("rping -c -a 127.0.0.1 --roce-port {roce} {client}");
    // The server listens on no TCP port that could be seen: call until it answers.
    let deadline = Instant::now() + Duration::from_secs(20);
    let called = loop {
        let called = run(&client);
        let refused = code(&called) == 4 && stderr(&called).contains("refused");
        if !refused || Instant::now() > deadline {
            break called;
        }
    };
    [running.wait_with_output().expect("it ends"), called]
}

#[test]
fn rping_between_two_of_us() {
    let [server, client] = rping("-v", "-C 3 -v -V -S 100");
    assert_ok(&client);
    assert_ok(&server);
    let lines: Vec<_> = stdout(&client).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[2].starts_with("ping data: rdma-ping-2: CDEFGH"), "{}", lines[2]);
    assert_eq!(lines[2].len(), "ping data: ".len() + 99);
    assert_eq!(stdout(&server).lines().count(), 3);
    assert!(stdout(&server).starts_with("server ping data: rdma-ping-0: ABC"));
}

#[test]
fn rping_of_the_largest_size_tells_programs_what_happened() {
    let [server, client] = rping("--json", "-C 5 -V -S 65535 --json");
    assert_ok(&client);
    assert_ok(&server);
    for (output, role) in [(&server, "server"), (&client, "client")] {
        let text = stdout(output);
        assert!(text.contains(&format!("\"role\": \"{role}\"")), "{text}");
        assert!(text.contains("\"pings\": 5"), "{text}");
    }
}

#[test]
fn rping_through_loss_recovers() {
    let [server, client] = rping("--fault drop=2%", "-C 20 -V -S 4096 --fault drop=2%");
    assert_ok(&client);
    assert_ok(&server);
}

/// The server waits for a message with nothing outstanding, so only a keepalive tells.
#[test]
fn u_c17_rping_notices_that_its_peer_was_killed() {
    let roce = free_port();
    let server = format!("rping -s -a 127.0.0.1 -p 7176 --roce-port {roce}");
    let mut server = Running(spawn(&server));
    first_line(&mut server.0);
    let client = format!("rping -c -a 127.0.0.1 -p 7176 --roce-port {roce} -v");
    let mut client = Running(spawn(&client));
    let mut ping = String::new();
    let stdout = client.0.stdout.as_mut().expect("it is piped");
    BufReader::new(stdout).read_line(&mut ping).expect("text");
    assert!(ping.starts_with("ping data"), "{ping}");
    client.0.kill().expect("it runs");
    let ended = server.0.wait().expect("a status");
    assert_eq!(ended.code(), Some(4), "the peer went away");
}

#[test]
fn rping_without_a_server_says_so() {
    let roce = free_port();
    let nobody = spawn(&format!("rping -s -a 127.0.0.1 -p 7175 --roce-port {roce}"));
    let mut nobody = Running(nobody);
    let line = first_line(&mut nobody.0);
    assert!(line.contains("waiting for a client on 127.0.0.1:7175"), "{line}");
    let output = run(&format!("rping -c -a 127.0.0.1 -C 1 --roce-port {roce}"));
    assert_eq!(code(&output), 4);
    let text = stderr(&output);
    assert!(text.contains("nobody listens on this port") && text.contains("help:"), "{text}");
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    let stderr = child.stderr.as_mut().expect("it is piped");
    BufReader::new(stderr).read_line(&mut line).expect("text");
    line
}
