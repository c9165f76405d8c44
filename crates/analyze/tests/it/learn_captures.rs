//! The captures of `pcaps/learn`: one WRITE of 16 bytes and its answer on InfiniBand, as RoCEv1, as RoCEv2 and as iWARP.
//!
//! They are made here, so that nothing is in them that is not told. `UROCE_UPDATE=1` writes them.

use std::path::Path;

use uroce_wire::icrc_of_local;

use crate::capture::{Covered, covered, ethernet, grh, ipv4_headers, pcapng, sealed};

const PAYLOAD: &[u8; 16] = b"sixteen bytes...";
const ADDRESS: u64 = 0x5580_0000_1000;
const KEY: u32 = 0x1234_5678;

/// A WRITE of InfiniBand: BTH, RETH, payload.
fn write() -> Covered {
    let mut behind = ADDRESS.to_be_bytes().to_vec();
    behind.extend(KEY.to_be_bytes());
    behind.extend((PAYLOAD.len() as u32).to_be_bytes());
    behind.extend(PAYLOAD);
    covered(0x0a, 100, &behind)
}

/// Its ACK.
fn acknowledge() -> Covered {
    let mut bytes = covered(0x11, 100, &[0x1f, 0, 0, 1]);
    (bytes[7], bytes[8]) = (0x11, 0);
    bytes
}

/// Local route header, packet, ICRC, and a VCRC of zero.
fn infiniband(from: u16, to: u16, covered: &[u8]) -> Vec<u8> {
    let words = ((8 + covered.len() + 4) / 4) as u16;
    let mut header = [0, 2, 0, 0, 0, 0, 0, 0];
    for (place, field) in header[2..].chunks_exact_mut(2).zip([to, words, from]) {
        place.copy_from_slice(&field.to_be_bytes());
    }
    let icrc = icrc_of_local(&header, covered);
    [&header[..], covered, &icrc.to_le_bytes(), &[0; 2]].concat()
}

/// Ethernet header, network headers, packet, ICRC.
fn roce(ethertype: u16, to_server: bool, headers: &[u8], covered: &[u8]) -> Vec<u8> {
    let mut frame = ethernet(ethertype, None, &sealed(headers, ethertype == 0x0800, covered));
    if !to_server {
        swap(&mut frame[..12]);
    }
    frame
}

/// Turns the two halves round.
fn swap(addresses: &mut [u8]) {
    let half = addresses.len() / 2;
    addresses.rotate_left(half);
}

fn roce_v1(to_server: bool, covered: &[u8]) -> Vec<u8> {
    let mut headers = grh(covered.len());
    if !to_server {
        swap(&mut headers[8..40]);
    }
    roce(0x8915, to_server, &headers, covered)
}

/// The checksum of IPv4 stays right when its addresses change places.
fn roce_v2(to_server: bool, covered: &[u8]) -> Vec<u8> {
    let mut headers = ipv4_headers(1, covered.len());
    if !to_server {
        swap(&mut headers[12..20]);
    }
    roce(0x0800, to_server, &headers, covered)
}

/// CRC-32C, as MPA has it.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// A frame of MPA around a DDP segment: length, segment, pad, CRC.
fn fpdu(segment: &[u8]) -> Vec<u8> {
    let mut frame = (segment.len() as u16).to_be_bytes().to_vec();
    frame.extend(segment);
    frame.resize(frame.len().next_multiple_of(4), 0);
    let crc = crc32c(&frame).to_le_bytes();
    [frame, crc.to_vec()].concat()
}

/// An RDMA Write: DDP tagged and last, RDMAP version 1, steering tag, tagged offset, payload.
fn rdma_write() -> Vec<u8> {
    let mut segment = vec![0xc1, 0x40];
    segment.extend(KEY.to_be_bytes());
    segment.extend(ADDRESS.to_be_bytes());
    segment.extend(PAYLOAD);
    fpdu(&segment)
}

/// One end of a TCP connection.
struct Tcp {
    to_server: bool,
    flags: u8,
    sequence: u32,
    acknowledged: u32,
}

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const PUSH_ACK: u8 = 0x18;

fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let words =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&b| b.into()));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

fn tcp(segment: &Tcp, payload: &[u8]) -> Vec<u8> {
    let (client, server) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let (ports, from, to) = if segment.to_server {
        ([40_000u16, 7174], client, server)
    } else {
        ([7174, 40_000], server, client)
    };
    let mut header = ports.map(u16::to_be_bytes).concat();
    header.extend(segment.sequence.to_be_bytes());
    header.extend(segment.acknowledged.to_be_bytes());
    header.extend([0x50, segment.flags, 0xff, 0xff, 0, 0, 0, 0]);
    let length = (header.len() + payload.len()) as u16;
    let pseudo = [&from[..], &to, &[0, 6], &length.to_be_bytes(), &header, payload].concat();
    let sum = ones_complement_sum(&pseudo);
    header[16..18].copy_from_slice(&sum.to_be_bytes());
    let mut ip = vec![0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 6, 0, 0];
    ip[2..4].copy_from_slice(&(20 + length).to_be_bytes());
    ip.extend(from.iter().chain(&to));
    let sum = ones_complement_sum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut frame = ethernet(0x0800, None, &[&ip[..], &header, payload].concat());
    if !segment.to_server {
        swap(&mut frame[..12]);
    }
    frame
}

/// Handshake of TCP, request and reply of MPA with CRC, one RDMA Write, the ACK of TCP.
fn iwarp() -> Vec<Vec<u8>> {
    let mpa = |key: &[u8; 16]| [&key[..], &[0x40, 1, 0, 0]].concat();
    let write = rdma_write();
    let behind = 1021 + write.len() as u32;
    let segment =
        |to_server, flags, sequence, acknowledged| Tcp { to_server, flags, sequence, acknowledged };
    vec![
        tcp(&segment(true, SYN, 1000, 0), &[]),
        tcp(&segment(false, SYN | ACK, 5000, 1001), &[]),
        tcp(&segment(true, ACK, 1001, 5001), &[]),
        tcp(&segment(true, PUSH_ACK, 1001, 5001), &mpa(b"MPA ID Req Frame")),
        tcp(&segment(false, PUSH_ACK, 5001, 1021), &mpa(b"MPA ID Rep Frame")),
        tcp(&segment(true, PUSH_ACK, 1021, 5021), &write),
        tcp(&segment(false, ACK, 5021, behind), &[]),
    ]
}

fn captures() -> [(&'static str, Vec<u8>); 4] {
    let (write, acknowledge) = (write(), acknowledge());
    [
        ("infiniband", pcapng(247, &[infiniband(1, 2, &write), infiniband(2, 1, &acknowledge)])),
        ("rocev1", pcapng(1, &[roce_v1(true, &write), roce_v1(false, &acknowledge)])),
        ("rocev2", pcapng(1, &[roce_v2(true, &write), roce_v2(false, &acknowledge)])),
        ("iwarp", pcapng(1, &iwarp())),
    ]
}

#[test]
fn the_captures_are_what_is_written_here() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pcaps/learn");
    for (name, bytes) in captures() {
        let path = folder.join(name).with_extension("pcapng");
        if std::env::var_os("UROCE_UPDATE").is_some() {
            std::fs::write(&path, &bytes).expect("it can be written");
        }
        assert_eq!(
            std::fs::read(&path).expect("a capture"),
            bytes,
            "{name}: UROCE_UPDATE=1 writes it"
        );
    }
}

#[test]
fn the_crc_is_that_of_the_standard() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
}
