//! A capture taken by a tap, read back.

use std::io::{PipeReader, Read};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_statistics::InterfaceStatisticsOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use tempfile::TempDir;
use uroce_datapath::{
    Datapath, Direction, Fate, FaultCounters, FaultDatapath, IpId, LoopbackFabric, PcapError,
    PcapFile, PcapReplay, PcapTap, PcapWriter, ReplayedFrame, Route, RxPacket,
};
use uroce_wire::DropReason;

fn pair(addresses: [&str; 2], file: &PcapFile) -> [PcapTap; 2] {
    let fabric = LoopbackFabric::new();
    let [one, two] = addresses.map(|text| text.parse::<SocketAddr>().expect("address"));
    [(one, "uroce0"), (two, "uroce1")].map(|(addr, name)| {
        let inner = Box::new(fabric.attach(addr).expect("attach"));
        PcapTap::with_name(inner, file, name).expect("tap")
    })
}

/// A capture into a pipe, whose reader has not begun.
fn into_pipe() -> (PipeReader, PcapFile) {
    let (reader, pipe) = std::io::pipe().expect("a pipe");
    let file = PcapFile::create(format!("/proc/self/fd/{}", pipe.as_raw_fd())).expect("create");
    (reader, file)
}

/// The reader begins, in a thread of its own.
fn read_to_end(mut reader: PipeReader) -> JoinHandle<std::io::Result<Vec<u8>>> {
    std::thread::spawn(move || {
        let mut capture = Vec::new();
        reader.read_to_end(&mut capture).map(|_| capture)
    })
}

fn send(from: &mut PcapTap, to: &mut PcapTap, payload: &[u8]) {
    send_with_opcode(from, to, payload, 0xcc);
}

fn send_with_opcode(from: &mut PcapTap, to: &mut PcapTap, payload: &[u8], opcode: u8) {
    let src = SocketAddr::new(from.local().ip(), from.source_port(0xC123));
    let route = Route { src, dst: to.local(), hop_limit: 64, traffic_class: 0x22 };
    from.tx_space().expect("room")[..payload.len()].copy_from_slice(payload);
    from.tx_commit(&route, payload.len(), &mut |_, packet| packet[0] = opcode);
    from.flush().expect("flush");
    assert_eq!(to.recv(64, &mut |_| ()).expect("recv"), 1);
}

fn check(frame: &ReplayedFrame, payload: &[u8]) {
    let sliced = SlicedPacket::from_ethernet(&frame.data).expect("frame");
    match sliced.net {
        Some(NetSlice::Ipv4(ip)) => {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            assert_eq!(usize::from(header.total_len), 28 + payload.len());
            assert_eq!((header.identification, header.dont_fragment), (0, true));
        }
        Some(NetSlice::Ipv6(ip)) => {
            assert_eq!(usize::from(ip.header().payload_length()), 8 + payload.len());
        }
        other => panic!("no IP: {other:?}"),
    }
    let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("no UDP") };
    assert_eq!((udp.source_port(), udp.destination_port()), (0xC123, 4791));
    assert_eq!(usize::from(udp.length()), 8 + payload.len());
    assert_eq!((udp.payload()[0], &udp.payload()[1..]), (0xcc, &payload[1..]));
}

#[test]
fn both_sides_of_every_packet_are_recorded_sealed_and_in_order() {
    for addresses in [["10.0.0.1:4791", "10.0.0.2:4791"], ["[fd00::1]:4791", "[fd00::2]:4791"]] {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join(if addresses[0].starts_with('[') { "v6" } else { "v4" });
        let file = PcapFile::create(&path).expect("create");
        let [mut a, mut b] = pair(addresses, &file);
        let payloads: Vec<Vec<u8>> = [20, 1084, 4156].map(|len| vec![len as u8; len]).into();
        payloads.iter().for_each(|payload| send(&mut a, &mut b, payload));
        file.flush().expect("flush");

        let mut replay = PcapReplay::open(&path).expect("open");
        let frames: Vec<_> = replay.by_ref().map(|frame| frame.expect("frame")).collect();
        assert_eq!(frames.len(), 6);
        assert_eq!(replay.interface_name(0), Some("uroce0"));
        assert_eq!(replay.interface_name(1), Some("uroce1"));
        for (pair, payload) in frames.chunks(2).zip(&payloads) {
            pair.iter().for_each(|frame| check(frame, payload));
            assert_eq!(pair[0].data, pair[1].data);
            let seen = pair.iter().map(|frame| (frame.interface, frame.direction));
            let expected = [(0, Some(Direction::Outbound)), (1, Some(Direction::Inbound))];
            assert!(seen.eq(expected));
        }
        assert!(frames.is_sorted_by_key(|frame| frame.timestamp));
        let age = std::time::SystemTime::UNIX_EPOCH + frames[0].timestamp;
        assert!(age.elapsed().expect("past").as_secs() < 60);
    }
}

/// What the file has, once that is `count` frames; at most 10 s later.
fn frames_once(path: &Path, count: usize) -> Vec<ReplayedFrame> {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let frames = frames_in(path);
        if frames.len() >= count || Instant::now() > end {
            return frames;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The frames of the file, which ends with a whole block.
fn frames_in(path: &Path) -> Vec<ReplayedFrame> {
    let Ok(replay) = PcapReplay::open(path) else { return Vec::new() };
    replay.map(|frame| frame.expect("a whole block")).collect()
}

#[test]
fn records_reach_the_file_by_themselves() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("soon");
    let file = PcapFile::create(&path).expect("create");
    let [mut a, mut b] = pair(["10.0.0.1:4791", "10.0.0.2:4791"], &file);
    for round in 1..4 {
        send(&mut a, &mut b, &[1; 64]);
        assert_eq!(frames_once(&path, 2 * round).len(), 2 * round, "without a flush");
    }
    send(&mut a, &mut b, &[1; 64]);
    drop((a, b, file));
    assert_eq!(frames_in(&path).len(), 8, "the last owner has gone");
}

#[test]
fn a_burst_is_whole_and_in_order() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("burst");
    let file = PcapFile::create(&path).expect("create");
    let [mut a, mut b] = pair(["10.0.0.1:4791", "10.0.0.2:4791"], &file);
    for number in 0..1000u16 {
        let [high, low] = number.to_be_bytes();
        send(&mut a, &mut b, &[[0, high, low, 0].as_slice(), &[7; 4100]].concat());
    }
    file.flush().expect("written");
    let numbers = frames_in(&path).into_iter().map(|frame| [frame.data[43], frame.data[44]]);
    let expected = (0..1000u16).flat_map(|number| [number.to_be_bytes(); 2]);
    assert!(numbers.eq(expected));
}

/// Hands over the packet that a test gives it.
struct Given(Vec<u8>, IpId);

impl Given {
    const SRC: &str = "10.0.0.1:50000";
    const DST: &str = "10.0.0.2:4791";

    /// A packet whose ICRC was made with that identification.
    fn sealed(id: u16, hidden: bool) -> Self {
        let mut packet =
            [[0x04, 0x40, 0xff, 0xff, 0, 0, 0, 0x11, 0x80, 0, 0, 5].as_slice(), &[9; 40]].concat();
        let [src, dst] =
            [Self::SRC, Self::DST].map(|text| text.parse::<SocketAddr>().expect("address"));
        let flow = uroce_wire::Flow {
            src: src.ip(),
            dst: dst.ip(),
            src_port: src.port(),
            dst_port: dst.port(),
        };
        packet.extend(uroce_wire::icrc(&flow, id, &packet).to_le_bytes());
        Self(packet, if hidden { IpId::Hidden(0) } else { IpId::Known(id) })
    }

    fn record(&self, writer: &PcapWriter, fate: Fate) {
        let [src, dst] = [Self::SRC, Self::DST].map(|text| text.parse().expect("address"));
        let (payload, ip_id) = (&self.0[..], self.1);
        let packet = RxPacket {
            src,
            dst,
            traffic_class: 0,
            hop_limit: 64,
            ip_id,
            icrc_checked: false,
            following: None,
            fate: None,
            payload,
        };
        writer.received(&packet, fate);
    }
}

#[test]
fn a_hidden_identification_is_recorded_as_the_icrc_has_it() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("id");
    let file = PcapFile::create(&path).expect("create");
    let writer = file.interface("x").expect("interface");
    let ids = [0, 7, 8, 9, 0xffff, 0, 0x1234];
    ids.iter().for_each(|id| Given::sealed(*id, true).record(&writer, Fate::Taken));
    Given::sealed(0x4321, false).record(&writer, Fate::Taken);
    let mut damaged = Given::sealed(3, true);
    damaged.0[20] ^= 1;
    damaged.record(&writer, Fate::Dropped(DropReason::BadIcrc));
    file.flush().expect("written");
    let frames = frames_in(&path);
    let recorded: Vec<u16> =
        frames.iter().map(|frame| u16::from_be_bytes([frame.data[18], frame.data[19]])).collect();
    assert_eq!(recorded, [&ids[..], &[0x4321, 0]].concat());
    for frame in &frames[..8] {
        let parsed = uroce_wire::parse_ethernet(&frame.data).expect("a frame");
        assert!(parsed.icrc_is_right() && frame.comments.is_empty());
    }
    let comments = &frames[8].comments;
    assert_eq!(comments[0], "drop reason bad_icrc");
    assert!(comments[1].contains("no IPv4 identification"), "{comments:?}");
}

#[test]
fn comments_tell_what_became_of_a_packet() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("comments");
    let file = PcapFile::create(&path).expect("create");
    let [mut a, b] = pair(["10.0.0.1:4791", "10.0.0.2:4791"], &file);
    let plan: uroce_fault::Plan = "none: rx -> drop".parse().expect("a rule");
    let mut b = FaultDatapath::new(b, &plan, 7, FaultCounters::new(&plan).into());
    a.tx_comment("retransmission: sequence NAK");
    for _ in 0..2 {
        let route = Route { src: a.local(), dst: b.local(), hop_limit: 64, traffic_class: 0 };
        a.tx_space().expect("room")[..20].fill(1);
        a.tx_commit(&route, 20, &mut |_, _| {});
    }
    a.flush().expect("flush");
    b.recv(64, &mut |_| panic!("all are dropped")).expect("recv");
    file.flush().expect("written");
    let comments: Vec<_> = frames_in(&path).into_iter().map(|frame| frame.comments).collect();
    const DROPPED: &str = "fault: dropped by rule \"none\"";
    let expected: [&[&str]; 4] = [&["retransmission: sequence NAK"], &[], &[DROPPED], &[DROPPED]];
    assert_eq!(comments, expected);
}

#[test]
fn two_captures_of_one_name_are_two_files() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("taken.pcapng");
    let first = PcapFile::create(&path).expect("create");
    let second = PcapFile::create(&path).expect("beside it");
    assert_eq!(first.path(), path);
    let name = second.path().to_str().expect("text");
    assert!(name.ends_with(&format!("taken.{}.pcapng", std::process::id())), "{name}");
    for (file, name) in [(&first, "first"), (&second, "second")] {
        file.interface(name).expect("interface").frame(Direction::Inbound, &[0; 60], &[]);
        file.flush().expect("written");
        let mut replay = PcapReplay::open(file.path()).expect("a capture");
        assert_eq!(replay.by_ref().flatten().count(), 1);
        assert_eq!(replay.interface_name(0), Some(name));
    }
    drop((first, second));
    // Another test may be starting a program: until that runs, it holds whatever file is open here.
    let replaced = (0..100).any(|_| {
        let third = PcapFile::create(&path).expect("replaced");
        std::thread::sleep(Duration::from_millis(10));
        third.path() == path
    });
    assert!(replaced, "a file that no capture writes is replaced");
}

#[test]
fn a_capture_of_another_program_is_kept_if_asked() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("kept.pcapng");
    let create = || PcapFile::create_beside(&path).expect("create");
    assert_eq!(create().path(), path, "there was none");
    let second = create();
    assert_ne!(second.path(), path);
    assert!(frames_in(&path).is_empty() && PcapReplay::open(&path).is_ok());
    PcapFile::make_room(&path).expect("no capture writes to it");
    assert_eq!(create().path(), path, "it is empty");
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("%p.pcapng");
    let file = PcapFile::create(&path).expect("create");
    assert!(!file.path().to_string_lossy().contains("%p"));
}

#[test]
fn errors_name_the_file() {
    let missing = std::path::Path::new("/nonexistent/file.pcapng");
    assert!(matches!(PcapReplay::open(missing), Err(PcapError::Open { .. })));
    let error = PcapFile::create(missing).expect_err("no such folder");
    assert!(error.to_string().contains("/nonexistent/file.pcapng"), "{error}");

    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("text");
    for content in ["", "not a capture file, but text"] {
        std::fs::write(&path, content).expect("write");
        assert!(matches!(PcapReplay::open(&path), Err(PcapError::Damaged { .. })));
    }
}

#[test]
fn a37_a_capture_that_cannot_be_written_says_so_twice_and_counts() {
    let (reader, file) = into_pipe();
    let [mut a, mut b] = pair(["10.0.0.1:4791", "10.0.0.2:4791"], &file);
    drop(reader);
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || {
        for _ in 0..2000 {
            send(&mut a, &mut b, &[1; 4096]);
            assert!(!b.arm());
            let _ = file.flush();
        }
        assert!(matches!(file.flush(), Err(PcapError::Write(_))));
        assert_eq!((b.stats().rx_packets, file.lost()), (2000, 4000));
        drop((a, b, file));
    });
    let lines = log.0.load(Ordering::Relaxed);
    assert!((1..=2).contains(&lines), "{lines} lines");
}

/// Packets in a capture, and those that it says are missing before them.
fn count(capture: &[u8]) -> (u64, u64) {
    let mut reader = PcapNgReader::new(capture).expect("a section");
    let (mut packets, mut lost) = (0, 0);
    while let Some(block) = reader.next_block() {
        let Block::EnhancedPacket(packet) = block.expect("a whole block") else { continue };
        packets += 1;
        lost += packet.options.iter().find_map(drop_count).unwrap_or(0);
    }
    (packets, lost)
}

fn drop_count(option: &EnhancedPacketOption<'_>) -> Option<u64> {
    match option {
        EnhancedPacketOption::DropCount(count) => Some(*count),
        _ => None,
    }
}

#[test]
fn a_file_that_takes_nothing_holds_traffic_up_for_a_moment_only() {
    let (reader, file) = into_pipe();
    let [mut a, mut b] = pair(["10.0.0.1:4791", "10.0.0.2:4791"], &file);
    let begun = Instant::now();
    // A NAK that ends a queue pair is urgent.
    let mut nak = [0; 20];
    nak[12] = 0x61;
    while file.lost() < 1000 {
        assert!(begun.elapsed() < Duration::from_secs(20), "what waits has no limit");
        send(&mut a, &mut b, &[1; 4096]);
        send_with_opcode(&mut a, &mut b, &nak, 0x11);
    }
    let lost = file.lost();
    let rest = read_to_end(reader);
    file.flush().expect("the reader reads again");
    send(&mut a, &mut b, &[1; 4096]);
    let sent = 2 * a.stats().tx_packets;
    drop((a, b, file));
    let capture = rest.join().expect("no panic").expect("read");
    assert_eq!(count(&capture), (sent - lost, lost));
    assert_eq!(told_at_the_end(&capture), (sent, lost));
}

/// Packets that the statistics of all interfaces tell of, and those of them that are not in the capture.
fn told_at_the_end(capture: &[u8]) -> (u64, u64) {
    let mut reader = PcapNgReader::new(capture).expect("a section");
    let (mut packets, mut lost) = (0, 0);
    while let Some(block) = reader.next_block() {
        let Block::InterfaceStatistics(statistics) = block.expect("a whole block") else {
            continue;
        };
        for option in &statistics.options {
            match option {
                InterfaceStatisticsOption::IsbIfRecv(count) => packets += count,
                InterfaceStatisticsOption::IsbIfDrop(count) => lost += count,
                _ => {}
            }
        }
    }
    (packets, lost)
}

#[test]
fn a_capture_that_ends_in_a_gap_tells_of_it() {
    let (reader, file) = into_pipe();
    let [mut a, mut b] = pair(["10.0.0.1:4791", "10.0.0.2:4791"], &file);
    let begun = Instant::now();
    while file.lost() < 100 {
        assert!(begun.elapsed() < Duration::from_secs(20), "what waits has no limit");
        send(&mut a, &mut b, &[1; 4096]);
    }
    let (sent, lost) = (2 * a.stats().tx_packets, file.lost());
    let rest = read_to_end(reader);
    drop((a, b, file));
    let capture = rest.join().expect("no panic").expect("read");
    assert_eq!(count(&capture), (sent - lost, 0));
    assert_eq!(told_at_the_end(&capture), (sent, lost));
}

/// Counts the lines of the log.
#[derive(Clone, Default)]
struct Log(Arc<AtomicU64>);

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn classic_pcap_files_are_read_too() {
    use pcap_file::pcap::{PcapPacket, PcapWriter};
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("classic");
    let out = std::fs::File::create(&path).expect("create");
    let mut writer = PcapWriter::new(out).expect("header");
    let time = std::time::Duration::from_micros(1_500_000);
    writer.write_packet(&PcapPacket::new(time, 60, &[9; 60])).expect("packet");
    drop(writer);
    let frames: Vec<_> = PcapReplay::open(&path).expect("open").flatten().collect();
    let expected = ReplayedFrame { timestamp: time, data: vec![9; 60], ..ReplayedFrame::default() };
    assert_eq!(frames, [expected]);
}

#[test]
fn simple_packet_blocks_are_frames_of_the_first_interface() {
    use pcap_file::DataLink;
    use pcap_file::pcapng::PcapNgWriter;
    use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;
    use pcap_file::pcapng::blocks::simple_packet::SimplePacketBlock;
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("simple");
    let out = std::fs::File::create(&path).expect("create");
    let mut writer = PcapNgWriter::new(out).expect("header");
    let interface = InterfaceDescriptionBlock::new(DataLink::ETHERNET, 64);
    writer.write_pcapng_block(interface).expect("interface");
    for length in [61u32, 100] {
        let data = vec![8; length.min(64) as usize];
        let block = SimplePacketBlock { original_len: length, data: data.into() };
        writer.write_pcapng_block(block).expect("packet");
    }
    drop(writer);
    let frames = frames_in(&path);
    assert_eq!(frames.len(), 2);
    assert_eq!((&frames[0].data[..], &frames[1].data[..]), (&[8; 61][..], &[8; 64][..]));
}

#[test]
fn a_frame_check_sequence_is_not_part_of_the_frame() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("fcs");
    // Little-endian, microseconds, version 2.4; Ethernet with 2 words of FCS behind each frame.
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    bytes.extend((2u32 << 28 | 1 << 26 | 1).to_le_bytes());
    for (captured, original) in [(64u32, 64u32), (50, 64), (62, 64)] {
        bytes.extend([0; 8]);
        bytes.extend(captured.to_le_bytes());
        bytes.extend(original.to_le_bytes());
        bytes.extend(vec![5; captured as usize]);
    }
    std::fs::write(&path, bytes).expect("write");
    let lengths: Vec<_> = frames_in(&path).iter().map(|frame| frame.data.len()).collect();
    assert_eq!(lengths, [60, 50, 60]);
}
