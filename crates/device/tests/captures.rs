//! What is in the capture of a device, whatever becomes of the device.

mod common;

use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Node, assert_ok, collect, pattern, rc_pair};
use tempfile::TempDir;
use uroce_device::datapath::{Direction, LoopbackFabric, PcapFile, PcapReplay, ReplayedFrame};
use uroce_device::memory::Rkey;
use uroce_device::transport::{SendOp, WcStatus};
use uroce_device::wire::Packet;
use uroce_device::{DatapathChoice, DeviceConfig, Faults};

const PORT: u16 = 24_797;

/// What makes this binary the process whose capture is looked at: how it ends.
const END: &str = "UROCE_TEST_END";
/// The file of that process.
const FILE: &str = "UROCE_TEST_FILE";

fn pair_on(
    choice: &DatapathChoice,
    hosts: [u8; 2],
    file: &PcapFile,
    rules: Option<&str>,
) -> [Node; 2] {
    hosts.map(|last| {
        Node::open(DeviceConfig {
            port: PORT,
            datapath: choice.clone(),
            pcap: Some(file.clone()),
            faults: rules.map(|rules| {
                let plan = rules.parse().expect("rules");
                Faults::new(plan, Some(last.into())).expect("a seed is given")
            }),
            progress_thread: false,
            seed: Some([last; 32]),
            ..DeviceConfig::new([127, 0, 0, last].into())
        })
    })
}

/// SENDs, WRITEs and READs in both directions, of several packets each.
fn exchange(a: &Node, b: &Node) {
    let (qa, qb) = rc_pair(a, b);
    let (from, to) = (a.buffer(200_000), b.buffer(200_000));
    from.write(0, &pattern(100_000, 6));
    b.recv(qb, 1, &[to.sge(0, 100_000)]);
    a.send(qa, 2, SendOp::Send, &[from.sge(0, 100_000)]);
    let (va, rkey) = (to.addr(), to.mr.rkey);
    a.send(qa, 3, SendOp::Read { va, rkey }, &[from.sge(100_000, 100_000)]);
    assert_ok(&collect(&[(a, 2), (b, 1)]).concat());
    assert_eq!(from.bytes(100_000, 100_000), pattern(100_000, 6));
}

/// The frames of the file, which ends with a whole block.
fn frames_in(path: &Path) -> Vec<ReplayedFrame> {
    let replay = PcapReplay::open(path).expect("a capture");
    replay.map(|frame| frame.expect("a whole block")).collect()
}

/// The ICRC of an IPv4 frame by the book, bit by bit, without any code of the product.
fn icrc_is_right(frame: &[u8]) -> bool {
    let (covered, icrc) = frame[14..].split_at(frame.len() - 14 - 4);
    let mut stream = [&[0xff; 8], covered].concat();
    for masked in [1, 8, 10, 11, 26, 27, 28 + 4] {
        stream[8 + masked] = 0xff;
    }
    let crc = stream.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ ((crc & 1) * 0xedb8_8320))
    });
    (!crc).to_le_bytes() == icrc
}

fn assert_all_right(choice: &DatapathChoice, hosts: [u8; 2]) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join(choice.name());
    let file = PcapFile::create(&path).expect("writable");
    let [a, b] = pair_on(choice, hosts, &file, None);
    exchange(&a, &b);
    file.flush().expect("written");
    let frames = frames_in(&path);
    for direction in [Direction::Inbound, Direction::Outbound] {
        let of = frames.iter().filter(|frame| frame.direction == Some(direction));
        let (right, wrong): (Vec<_>, Vec<_>) = of.partition(|frame| icrc_is_right(&frame.data));
        let name = choice.name();
        assert!(right.len() > 40 && wrong.is_empty(), "{name} {direction:?}: {}", wrong.len());
    }
}

#[test]
fn every_icrc_in_a_capture_of_udp_is_right() {
    assert_all_right(&DatapathChoice::Udp, [61, 62]);
}

#[test]
fn every_icrc_in_a_capture_of_uring_is_right() {
    if let Err(error) = uroce_device::udp::probe::uring() {
        assert!(std::env::var_os("CI").is_none(), "{error}");
        println!("skipped: {error}");
        return;
    }
    assert_all_right(&DatapathChoice::Uring, [63, 64]);
}

#[test]
fn every_icrc_in_a_capture_of_the_switch_is_right() {
    assert_all_right(&DatapathChoice::Loopback(LoopbackFabric::new()), [65, 66]);
}

/// What is dropped on purpose is there, and what is sent again says why.
#[test]
fn a_capture_explains_drops_and_retransmissions() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("loss");
    let file = PcapFile::create(&path).expect("writable");
    let [a, b] = pair_on(&DatapathChoice::Udp, [67, 68], &file, Some("rx drop 10%"));
    exchange(&a, &b);
    let retransmitted = a.counter("retransmitted_pkts") + b.counter("retransmitted_pkts");
    let sent = a.counter("sent_pkts") + b.counter("sent_pkts");
    file.flush().expect("written");
    let frames = frames_in(&path);
    let said = |text: &str| {
        let says = |frame: &&ReplayedFrame| frame.comments.iter().any(|c| c.starts_with(text));
        frames.iter().filter(says).count() as u64
    };
    assert!(said("fault: dropped by rule 1") > 0 && said("drop reason ") > 0);
    assert_eq!(said("retransmission: "), retransmitted);
    let (sent_frames, received): (Vec<_>, Vec<_>) =
        frames.iter().partition(|frame| frame.direction == Some(Direction::Outbound));
    assert_eq!(sent_frames.len() as u64, sent, "what was sent");
    assert!(received.len() as u64 <= sent && received.len() as u64 + 64 > sent, "and arrived");
    let reasons: HashSet<_> = frames.iter().flat_map(|frame| &frame.comments).collect();
    assert!(
        reasons.iter().any(|reason| reason.starts_with("retransmission: sequence NAK")
            || reason.starts_with("retransmission: implied NAK")),
        "{reasons:?}"
    );
}

/// Runs this binary once more: it exchanges packets and ends in the way asked for, with everything open.
fn run(end: &str, file: &Path) -> std::process::Child {
    let program = std::env::current_exe().expect("a path");
    let arguments = ["--exact", "a_process_ends_as_it_is_told", "--nocapture"];
    let mut command = Command::new(program);
    command.args(arguments).env(END, end).env(FILE, file).spawn().expect("a process")
}

#[test]
fn a_process_ends_as_it_is_told() {
    let (Some(end), Some(file)) = (std::env::var_os(END), std::env::var_os(FILE)) else {
        return;
    };
    let file = PcapFile::create(Path::new(&file)).expect("writable");
    let choice = DatapathChoice::Loopback(LoopbackFabric::new());
    let [a, b] = pair_on(&choice, [71, 72], &file, None);
    exchange(&a, &b);
    match end.to_str() {
        Some("exit") => std::process::exit(0),
        Some("nak") => {
            let (qa, _qb) = rc_pair(&a, &b);
            let (from, to) = (a.buffer(64), b.buffer(64));
            let write = SendOp::Write { va: to.addr(), rkey: Rkey(to.mr.rkey.0 ^ 0x100) };
            a.send(qa, 9, write, &[from.sge(0, 64)]);
            let wc = &collect(&[(&a, 1), (&b, 0)])[0][0];
            assert_eq!(wc.status, WcStatus::RemAccessErr);
            std::process::abort();
        }
        _ => loop {
            exchange(&a, &b);
        },
    }
}

#[test]
fn a_program_that_exits_without_closing_leaves_a_complete_capture() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("exit");
    let status = run("exit", &path).wait().expect("it ends");
    assert!(status.success());
    let frames = frames_in(&path);
    let to_far = frames.iter().filter(|frame| frame.interface == 0).count();
    let last = Packet::parse(&frames.last().expect("frames").data[42..]).expect("a packet");
    assert!(
        to_far > 50 && last.info.name == "RC_READ_RESPONSE_LAST",
        "{to_far} {}",
        last.info.name
    );
}

#[test]
fn the_nak_that_ends_a_queue_pair_is_in_the_file_before_the_program_knows() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("nak");
    let status = run("nak", &path).wait().expect("it ends");
    assert_eq!(status.signal(), Some(6), "it aborts");
    let frames = frames_in(&path);
    let lines: Vec<String> = frames
        .iter()
        .rev()
        .take(4)
        .map(|frame| Packet::parse(&frame.data[42..]).expect("a packet").to_string())
        .collect();
    let naks = lines.iter().filter(|line| line.contains("nak remote access")).count();
    assert_eq!(naks, 2, "sent and received: {lines:#?}");
}

#[test]
fn the_file_of_a_killed_process_ends_at_a_block() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("kill");
    let mut child = run("kill", &path);
    let end = Instant::now() + Duration::from_secs(30);
    while std::fs::metadata(&path).map_or(0, |file| file.len()) < 1_000_000 {
        assert!(Instant::now() < end, "it records");
        std::thread::sleep(Duration::from_millis(5));
    }
    stop(&child);
    child.kill().expect("it lives");
    child.wait().expect("it ends");
    assert!(frames_in(&path).len() > 100);
}

/// Stops all threads of a process. A write that has begun goes on to its end, other than at a kill.
fn stop(child: &std::process::Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("ours");
    let tasks = format!("/proc/{}/task", child.id());
    let runs = |task: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(task.expect("procfs").path().join("stat"));
        stat.is_ok_and(|stat| !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')))
    };
    let end = Instant::now() + Duration::from_secs(30);
    while std::fs::read_dir(&tasks).expect("procfs").any(runs) {
        assert!(Instant::now() < end, "it stops");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A request that is lost once is answered in place of the peer, is sent again, and all of it is told.
#[test]
fn a_capture_shows_what_each_rule_did_to_which_packet() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("rules");
    let file = PcapFile::create(&path).expect("writable");
    let rules =
        "lost: tx op=send part=first -> drop skip=1 count=1; late: rx op=ack -> delay=1ms count=1";
    let choice = DatapathChoice::Loopback(LoopbackFabric::new());
    let [a, b] = pair_on(&choice, [73, 74], &file, Some(rules));
    let (qa, qb) = rc_pair(&a, &b);
    let (from, to) = (a.buffer(20_000), b.buffer(20_000));
    for id in 0..3 {
        b.recv(qb, id, &[to.sge(0, 20_000)]);
        a.send(qa, id, SendOp::Send, &[from.sge(0, 20_000)]);
        assert_ok(&collect(&[(&a, 1), (&b, 1)]).concat());
    }
    let counters = a.device.fault_counters().expect("it has faults").rules();
    let applied: Vec<_> = counters.iter().map(|rule| (rule.name.as_str(), rule.applied)).collect();
    assert_eq!(applied, [("lost", 1), ("late", 1)]);
    let shown = a
        .device
        .resources()
        .into_iter()
        .find_map(|line| line.get("fault_lost_applied").map(str::to_owned));
    assert_eq!(shown.as_deref(), Some("1"), "`uroce stat` tells it");
    file.flush().expect("written");
    let frames = frames_in(&path);
    let with = |text: &str| {
        let says = |frame: &&ReplayedFrame| frame.comments.iter().any(|c| c.contains(text));
        frames.iter().filter(says).cloned().collect::<Vec<_>>()
    };
    let (lost, late) = (with("dropped by rule \"lost\""), with("delayed by 1ms by rule \"late\""));
    assert_eq!((lost.len(), late.len()), (1, 1));
    assert_eq!(lost[0].direction, Some(Direction::Outbound));
    assert_eq!(late[0].direction, Some(Direction::Inbound));
    assert!(!with("retransmission: ").is_empty() && icrc_is_right(&lost[0].data));
}
