//! Two ends of a test that meet over TCP: how they find each other, and what each learns of the other.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Output};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::common::{code, ends, free_port, pcap, run, spawn, stderr, stdout};

/// What stands in this column of the row of a size.
fn cell(output: &Output, size: &str, column: usize) -> Option<String> {
    let text = stdout(output);
    let mut rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row.len() == 5 && row[0] == size)?;
    Some(row[column].to_owned())
}

#[test]
fn a_receiver_of_messages_prints_no_peak() {
    let [server, client] = ends("perf send bw", "perf send bw -s 1024 -n 200");
    assert_eq!(cell(&server, "1024", 2).as_deref(), Some("0.00"), "{}", stdout(&server));
    assert_ne!(cell(&client, "1024", 2).as_deref(), Some("0.00"), "{}", stdout(&client));
}

#[test]
fn datagrams_have_a_default_that_fits_and_are_refused_at_the_client_if_they_do_not() {
    for server in ends("perf send bw -c UD", "perf send bw -c UD -n 20") {
        assert_eq!(code(&server), 0, "{}{}", stdout(&server), stderr(&server));
        assert_eq!(cell(&server, "4096", 1).as_deref(), Some("20"), "{}", stdout(&server));
    }
    for long in ["-s 5000", "-m 1024 -s 2048"] {
        // No server is there to be asked.
        let client = run(&format!("perf send bw -c UD {long} -p {} 127.0.0.1", free_port()));
        assert_eq!(code(&client), 2, "{}", stderr(&client));
        assert!(stderr(&client).contains("does not fit the path MTU"), "{}", stderr(&client));
    }
}

/// A listener that takes nobody any more: the kernel drops what would connect.
fn deaf_listener() -> (Socket, u16, Vec<Socket>) {
    let tcp = || Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let (listener, any) = (tcp(), SocketAddr::from(([127, 0, 0, 1], 0)));
    listener.bind(&any.into()).and_then(|()| listener.listen(0)).expect("loopback");
    let address = listener.local_addr().expect("bound");
    let fill = || {
        let one = tcp();
        one.connect_timeout(&address, Duration::from_millis(200)).ok().map(|()| one)
    };
    let queued = std::iter::from_fn(fill).take(16).collect();
    let port = address.as_socket().expect("IPv4").port();
    (listener, port, queued)
}

#[test]
fn who_stops_a_program_that_connects_does_not_wait() {
    let (_listener, port, _queued) = deaf_listener();
    let capture = pcap("rc-send");
    let children = [
        format!("perf write bw -p {port} 127.0.0.1"),
        format!("pingpong rc -p {port} 127.0.0.1"),
        format!("conform 127.0.0.1:{port} --token t"),
        format!("replay {capture} --to 127.0.0.1:{port} --token t"),
    ]
    .map(|words| spawn(&words));
    std::thread::sleep(Duration::from_millis(1000));
    for child in &children {
        let done = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(done.is_ok_and(|status| status.success()));
    }
    for child in children {
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(code(&output), 1, "{}", stderr(&output));
        assert!(stderr(&output).contains("interrupted"), "{}", stderr(&output));
    }
}

#[test]
fn a_host_without_a_route_is_not_a_server_that_is_missing() {
    // TCP has no route to a broadcast address, on every machine.
    for words in ["pingpong rc", "perf write bw", "conform --token t"] {
        let output = run(&format!("{words} 255.255.255.255"));
        assert_eq!(code(&output), 3, "{words}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains("no route") && said.contains("doctor --peer"), "{words}: {said}");
        assert!(!said.contains("server first"), "{words}: {said}");
    }
}

#[test]
fn a_server_names_its_peer_by_the_address_of_the_nic() {
    let (tcp, roce) = (free_port(), free_port());
    let shared = format!("perf write bw -D 60 -p {tcp} --roce-port {roce}");
    let server = spawn(&format!("{shared} --address 127.0.0.1"));
    let mut client = spawn(&format!("{shared} --address 127.0.0.77 127.0.0.1"));
    let mut lines = BufReader::new(client.stdout.take().expect("piped")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.contains("remote address"))));
    client.kill().and_then(|()| client.wait()).expect("it runs");
    let output = server.wait_with_output().expect("it ends");
    assert_eq!(code(&output), 4, "{}{}", stdout(&output), stderr(&output));
    assert!(stderr(&output).contains("the peer 127.0.0.77 "), "{}", stderr(&output));
}

#[test]
fn a_connection_that_nobody_answers_may_have_another_kind_of_test_at_its_end() {
    let [_, client] = ends("pingpong uc -n 20", "pingpong rc -n 20");
    assert_eq!(code(&client), 4, "{}", stderr(&client));
    assert!(stderr(&client).contains("the same kind of pingpong"), "{}", stderr(&client));
}
