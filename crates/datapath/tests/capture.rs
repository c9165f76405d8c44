//! A capture taken by a tap, read back.

use std::net::SocketAddr;
use std::path::PathBuf;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use uroce_datapath::{
    Datapath, Direction, LoopbackFabric, PcapError, PcapFile, PcapReplay, PcapTap, ReplayedFrame,
    Route,
};

/// A file that goes away with its owner.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("uroce-{}-{name}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn pair(addresses: [&str; 2], file: &PcapFile) -> [PcapTap; 2] {
    let fabric = LoopbackFabric::new();
    let [one, two] = addresses.map(|text| text.parse::<SocketAddr>().expect("address"));
    [(one, "uroce0"), (two, "uroce1")].map(|(addr, name)| {
        let inner = Box::new(fabric.attach(addr).expect("attach"));
        PcapTap::with_name(inner, file, name).expect("tap")
    })
}

fn send(from: &mut PcapTap, to: &mut PcapTap, payload: &[u8]) {
    let src = SocketAddr::new(from.local().ip(), from.source_port(0xC123));
    let route = Route { src, dst: to.local(), hop_limit: 64, traffic_class: 0x22 };
    from.tx_space().expect("room")[..payload.len()].copy_from_slice(payload);
    from.tx_commit(&route, payload.len(), &mut |_, packet| packet[0] = 0xcc);
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
        let scratch = Scratch::new(if addresses[0].starts_with('[') { "v6" } else { "v4" });
        let file = PcapFile::create(&scratch.0).expect("create");
        let [mut a, mut b] = pair(addresses, &file);
        let payloads: Vec<Vec<u8>> = [20, 1084, 4156].map(|len| vec![len as u8; len]).into();
        payloads.iter().for_each(|payload| send(&mut a, &mut b, payload));
        file.flush().expect("flush");

        let mut replay = PcapReplay::open(&scratch.0).expect("open");
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

#[test]
fn a_sleeping_or_dropped_device_leaves_a_whole_file() {
    let scratch = Scratch::new("sleep");
    let file = PcapFile::create(&scratch.0).expect("create");
    let [mut a, mut b] = pair(["10.0.0.1:4791", "10.0.0.2:4791"], &file);
    drop(file);
    let frames = || PcapReplay::open(&scratch.0).map_or(0, |replay| replay.flatten().count());
    send(&mut a, &mut b, &[1; 64]);
    assert_eq!(frames(), 0);
    assert!(!b.arm());
    assert_eq!(frames(), 2);
    send(&mut a, &mut b, &[1; 64]);
    drop((a, b));
    assert_eq!(frames(), 4);
}

#[test]
fn errors_name_the_file() {
    let missing = std::path::Path::new("/nonexistent/file.pcapng");
    assert!(matches!(PcapReplay::open(missing), Err(PcapError::Open { .. })));
    let error = PcapFile::create(missing).expect_err("no such folder");
    assert!(error.to_string().contains("/nonexistent/file.pcapng"), "{error}");

    let scratch = Scratch::new("text");
    for content in ["", "not a capture file, but text"] {
        std::fs::write(&scratch.0, content).expect("write");
        assert!(matches!(PcapReplay::open(&scratch.0), Err(PcapError::Damaged { .. })));
    }
}

#[test]
fn a_full_disk_stops_the_capture_and_not_the_traffic() {
    let Ok(file) = PcapFile::create("/dev/full") else {
        return;
    };
    let [mut a, mut b] = pair(["10.0.0.1:4791", "10.0.0.2:4791"], &file);
    for _ in 0..200 {
        send(&mut a, &mut b, &[1; 4096]);
    }
    assert!(matches!(file.flush(), Err(PcapError::Write(_))));
    assert_eq!(b.stats().rx_packets, 200);
}

#[test]
fn classic_pcap_files_are_read_too() {
    use pcap_file::pcap::{PcapPacket, PcapWriter};
    let scratch = Scratch::new("classic");
    let out = std::fs::File::create(&scratch.0).expect("create");
    let mut writer = PcapWriter::new(out).expect("header");
    let time = std::time::Duration::from_micros(1_500_000);
    writer.write_packet(&PcapPacket::new(time, 60, &[9; 60])).expect("packet");
    drop(writer);
    let frames: Vec<_> = PcapReplay::open(&scratch.0).expect("open").flatten().collect();
    let expected =
        ReplayedFrame { timestamp: time, interface: 0, direction: None, data: vec![9; 60] };
    assert_eq!(frames, [expected]);
}
