//! Traffic that is not ours passes the interface as if there was no program; and the program ends
//! with the process that opened it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use uroce_xdp::{XdpConfig, XdpDatapath, XdpMode};

use crate::lab;
use crate::lab::Lab;

const MODES: [XdpMode; 2] = [XdpMode::Generic, XdpMode::Native];

/// `bytes` over TCP from host 0 to host 1 and back.
fn tcp_round_trip(lab: &Lab, to: SocketAddr, bytes: usize) {
    let listener = lab.inside(&lab.host(1), move || TcpListener::bind(to).expect("listen"));
    let echo = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("accept");
        let mut all = vec![0; bytes];
        stream.read_exact(&mut all).expect("read");
        stream.write_all(&all).expect("write");
    });
    lab.inside(&lab.host(0), move || {
        let sent: Vec<u8> = (0..bytes).map(|n| (n % 251) as u8).collect();
        let mut stream = TcpStream::connect(to).expect("connect");
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("timeout");
        stream.write_all(&sent).expect("write");
        let mut back = vec![0; bytes];
        stream.read_exact(&mut back).expect("read");
        assert_eq!(back, sent);
    });
    echo.join().expect("echo");
}

/// An echo request from host 0, and its answer.
fn ping(lab: &Lab, to: IpAddr) {
    const BODY: &[u8] = b"echo this please";
    let (domain, protocol) = match to {
        IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
        IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
    };
    let mut request = vec![if to.is_ipv4() { 8 } else { 128 }, 0, 0, 0, 0x12, 0x34, 0, 1];
    request.extend_from_slice(BODY);
    if to.is_ipv4() {
        // For IPv6 the kernel does it.
        let pairs =
            request.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
        let sum: u32 = pairs.sum();
        let checksum = !(((sum & 0xffff) + (sum >> 16)) as u16);
        request[2..4].copy_from_slice(&checksum.to_be_bytes());
    }
    lab.inside(&lab.host(0), move || {
        let mut socket = Socket::new(domain, Type::RAW, Some(protocol)).expect("raw socket");
        socket.set_read_timeout(Some(Duration::from_secs(2))).expect("timeout");
        socket.send_to(&request, &SocketAddr::new(to, 0).into()).expect("send");
        // Neighbour discovery is heard too.
        let heard = (0..20).any(|_| {
            let mut answer = [0; 256];
            let length = socket.read(&mut answer).expect("an answer");
            let at = if to.is_ipv4() { 20 } else { 0 };
            matches!(answer[at], 0 | 129) && answer[..length].ends_with(BODY)
        });
        assert!(heard, "{to}");
    });
}

#[test]
fn tcp_ping_and_other_udp_ports_pass_untouched() {
    if lab::cannot_run() {
        return;
    }
    for mode in MODES {
        let lab = Lab::new();
        let _ends = [lab.open(0, lab::v4(0), mode), lab.open(1, lab::v4(1), mode)];
        for address in [lab::v4(1), lab::v6(1)] {
            // The RoCE port number means nothing to TCP; big writes come as super-packets.
            tcp_round_trip(&lab, (address, 4791).into(), 1_000_000);
            let at: SocketAddr = (address, 4790).into();
            let receiver = lab.inside(&lab.host(1), move || UdpSocket::bind(at).expect("bind"));
            receiver.set_read_timeout(Some(Duration::from_secs(2))).expect("timeout");
            let from: SocketAddr = (if at.is_ipv4() { lab::v4(0) } else { lab::v6(0) }, 0).into();
            let sender = lab.inside(&lab.host(0), move || UdpSocket::bind(from).expect("bind"));
            // One that fits, one in fragments.
            for size in [100, 20_000] {
                sender.send_to(&vec![size as u8; size], at).expect("send");
                let mut buffer = vec![0; 65_536];
                assert_eq!(receiver.recv(&mut buffer).expect("receive"), size, "{}", mode.name());
            }
        }
        ping(&lab, lab::v4(1));
        ping(&lab, lab::v6(1));
    }
}

#[test]
fn the_kernel_says_nothing_about_packets_that_pass_us_by() {
    if lab::cannot_run() {
        return;
    }
    let lab = Lab::new();
    let _ours = lab.open(1, lab::v4(1), XdpMode::Generic);
    let sender = lab.inside(&lab.host(0), || UdpSocket::bind("10.77.0.1:0").expect("bind"));
    sender.connect("10.77.0.2:4791").expect("connect");
    // Fragments are not ours; the kernel puts them together and finds our silent socket.
    for _ in 0..3 {
        sender.send(&[0; 20_000]).expect("no ICMP message came back");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(sender.take_error().expect("option").map(|error| error.kind()), None);
}

#[test]
fn the_program_is_gone_after_drop() {
    if lab::cannot_run() {
        return;
    }
    for mode in MODES {
        let lab = Lab::new();
        assert!(!lab.has_program(0));
        let ours = lab.open(0, lab::v4(0), mode);
        assert!(lab.has_program(0), "{}", mode.name());
        drop(ours);
        assert!(lab.loses_program(0), "{}", mode.name());
        // And everything can be taken again at once.
        drop(lab.open(0, lab::v4(0), mode));
    }
}

/// A daemon that a program has left behind, say.
#[test]
fn v6_the_interface_is_free_again_although_a_child_lives_on() {
    if lab::cannot_run() {
        return;
    }
    for mode in MODES {
        let lab = Lab::new();
        let ours = lab.open(0, lab::v4(0), mode);
        // SAFETY: the child calls nothing but pause(2), which it may.
        let child = unsafe { libc::fork() };
        if child == 0 {
            loop {
                // SAFETY: it takes no arguments.
                unsafe { libc::pause() };
            }
        }
        drop(ours);
        let gone = lab.loses_program(0);
        let config = XdpConfig { mode, ..XdpConfig::new((lab::v4(0), 4791).into()) };
        let again = lab.open_soon(0, &config).map(drop);
        // SAFETY: a child of ours, which nobody has waited for.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        assert!(gone, "{}", mode.name());
        again.expect("everything can be taken again");
    }
}

/// Set in the child of the test below: the namespace and the mode.
const HOLD: &str = "UROCE_XDP_HOLD";

/// The child: takes the interface and waits for its end.
fn hold(lab: &str) {
    let config = XdpConfig { mode: XdpMode::Generic, ..XdpConfig::new((lab::v4(0), 4791).into()) };
    let datapath = XdpDatapath::open(&config).unwrap_or_else(|error| panic!("{lab}: {error}"));
    println!("\nholding");
    std::thread::sleep(Duration::from_secs(60));
    drop(datapath);
}

#[test]
fn the_program_is_gone_after_sigkill() {
    if let Ok(lab) = std::env::var(HOLD) {
        return hold(&lab);
    }
    if lab::cannot_run() {
        return;
    }
    let lab = Lab::new();
    let program = std::env::current_exe().expect("this program");
    let words = [program.to_str().expect("a path"), "foreign::the_program_is_gone_after_sigkill"];
    let mut command = lab.command(0, &words);
    command.args(["--exact", "--nocapture"]).env(HOLD, lab.host(0)).stdout(Stdio::piped());
    let mut child = command.spawn().expect("child");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let held = lines.map_while(Result::ok).any(|line| line == "holding");
    assert!(held && lab.has_program(0));
    // `ip netns exec` became the program itself, so this is SIGKILL for the owner.
    child.kill().expect("kill");
    child.wait().expect("wait");
    assert!(lab.loses_program(0));
    drop(lab.open(0, lab::v4(0), XdpMode::Generic));
}
