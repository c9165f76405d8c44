//! Frames from the wire: a ConnectX-4, published test frames, and two kernel rxe guests.
//! Each starts at the IP header and ends with the ICRC.

use uroce_wire::*;

const V1: &str = "45c2003c718c4000401191610a0011010a001201000012b7002800008100ffff\
                  40000118000000000000000000000000000000000000000082fd002a";
const V2: &str = "45010040047840004011b4d5c0a80007c0a80007c00012b7002caca22460ffff\
                  000000d300cf17104630818be28935d90e9a95505401be885e50000078f353f3";
const V3: &str = "6e21face002c11ff20220000000000000000000000001023\
                  20230000000000000000000000001024c00012b7002ce7c52460ffff\
                  000000d300cf17104630818be28935d90e9a95505401be885e5000003e5b743b";
const V4: &str = "45000030712c40004011b4e00a4d000b0a4d000cc12112b7001c00001100ffff\
                  0000001100cb68e71f000001f6d09506";
const V5: &str = "4500003c839d40004011a2630a4d000c0a4d000bf1c412b7002800000400ffff\
                  0000001d8006f4eb000056409cd74090000015e3000007d00413df69";
const V6: &str = "4500003c7ff840004011a6080a4d000c0a4d000bc30712b7002800000c00ffff\
                  0000001980cdc550000055a64dca2000000007830000200066b43966";
const V7: &str = "45000048828740004011a36d0a4d000c0a4d000bc37b12b7003400001400ffff\
                  0000001b80122e100000555aff7a3000000009d700000000000000010000000000000000cfe4a944";
const V8: &str = "4500003877fb40004011ae090a4d000b0a4d000cc37b12b7002400001200ffff\
                  0000002100122e101f000001fac8a1cf2f6717abfcdff4e8";
const V9: &str = "4500004882d140004011a3230a4d000c0a4d000bc3b812b7003400001300ffff\
                  0000001c80c9a3ca000055dfecbe300000000ad000000000000000000000000000000000bbb1aee0";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.bytes().filter_map(|b| (b as char).to_digit(16)).map(|d| d as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn v10() -> Vec<u8> {
    let mut all = bytes(
        "4500009c8882400040119d1e0a4d000c0a4d000bd56612b7008800006500ffff\
         0000002000000000012345670000003000000030",
    );
    all.extend([0; 100]);
    all.extend(bytes("55832118"));
    all
}

fn all() -> Vec<Vec<u8>> {
    let mut all: Vec<_> = [V1, V2, V3, V4, V5, V6, V7, V8, V9].map(bytes).to_vec();
    all.push(v10());
    all
}

#[test]
fn e10_every_vector_has_a_right_icrc() {
    for (i, frame) in all().iter().enumerate() {
        let parsed = parse_ip(frame).unwrap();
        assert!(parsed.icrc_is_right(), "V{}", i + 1);
        Packet::parse(parsed.transport).unwrap();
    }
}

#[test]
fn e11_the_hidden_identification_is_found_again() {
    let ids = [0x718c, 0x0478, 0, 0x712c, 0x839d, 0x7ff8, 0x8287, 0x77fb, 0x82d1, 0x8882];
    for (frame, id) in all().iter().zip(ids) {
        let parsed = parse_ip(frame).unwrap();
        let flow = parsed.flow().unwrap();
        if parsed.ip.ip_id().is_none() {
            assert_eq!(recover(&flow, &[], parsed.transport), IcrcVerdict::Valid);
            continue;
        }
        assert_eq!(parsed.ip.ip_id(), Some(id));
        assert_eq!(recover(&flow, &[], parsed.transport), IcrcVerdict::Solved(id));
        assert_eq!(recover(&flow, &[0, id], parsed.transport), IcrcVerdict::Predicted(id));
        assert!(verify(&flow, id, parsed.transport));
        assert!(!verify(&flow, id ^ 1, parsed.transport));
    }
}

fn line(frame: &[u8]) -> String {
    let parsed = parse_ip(frame).unwrap();
    let packet = Packet::parse(parsed.transport).unwrap();
    pretty::line(&packet, Some(verify_frame_icrc(&parsed))).to_string()
}

#[test]
fn packets_print_what_they_say() {
    let lines = [
        "CNP qpn 0x000118 psn 0x0 becn icrc ok",
        "UC_SEND_ONLY qpn 0x0000d3 psn 0xcf1710 payload 18 icrc ok",
        "UC_SEND_ONLY qpn 0x0000d3 psn 0xcf1710 payload 18 icrc ok",
        "RC_ACKNOWLEDGE qpn 0x000011 psn 0xcb68e7 ack msn 1 icrc ok",
        "RC_SEND_ONLY qpn 0x00001d psn 0x6f4eb payload 16 ackreq icrc ok",
        "RC_READ_REQUEST qpn 0x000019 psn 0xcdc550 va 0x55a64dca2000 rkey 0x783 len 8192 ackreq icrc ok",
        "RC_FETCH_ADD qpn 0x00001b psn 0x122e10 va 0x555aff7a3000 rkey 0x9d7 add 0x1 ackreq icrc ok",
        "RC_ATOMIC_ACKNOWLEDGE qpn 0x000021 psn 0x122e10 ack msn 1 original 0xfac8a1cf2f6717ab icrc ok",
        "RC_COMPARE_SWAP qpn 0x00001c psn 0xc9a3ca va 0x55dfecbe3000 rkey 0xad0 compare 0x0 swap 0x0 ackreq icrc ok",
        "UD_SEND_ONLY_IMM qpn 0x000020 psn 0x0 from 0x000030 qkey 0x1234567 imm 0x30 payload 100 icrc ok",
    ];
    for (frame, wanted) in all().iter().zip(lines) {
        assert_eq!(line(frame), wanted);
    }
    let mut damaged = bytes(V4);
    damaged[40] ^= 1;
    assert!(line(&damaged).ends_with("ack credits 32768 msn 1 icrc 0x0695d0f6 bad"));
}

#[test]
fn r102_our_cnp_is_the_one_of_a_connectx_4_but_for_migreq() {
    let frame = bytes(V1);
    let transport = parse_ip(&frame).unwrap().transport;
    let mut out = [0xa5; CNP_LEN + 1];
    assert_eq!(write_cnp(&mut out, Qpn::new(0x118)), Some(CNP_LEN));
    // We set MigReq on everything (docs/wire.md); it did not.
    out[1] &= !0x40;
    assert_eq!(out[..CNP_LEN], transport[..CNP_LEN]);
    assert_eq!(out[CNP_LEN], 0xa5);
    assert_eq!(write_cnp(&mut out[..CNP_LEN - 1], Qpn::new(0x118)), None);
}

#[test]
fn e10_one_bit_anywhere_outside_the_mask_breaks_the_icrc() {
    let frame = bytes(V5);
    // ToS, TTL, IP and UDP checksum, congestion bits of the BTH.
    let masked = [1, 8, 10, 11, 26, 27, 32];
    let udp_payload = 28;
    for bit in 0..frame.len() * 8 {
        let mut bad = frame.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let Ok(parsed) = parse_ip(&bad) else {
            assert!(bit / 8 < udp_payload, "only IP and UDP headers can stop the parser");
            continue;
        };
        assert_eq!(parsed.icrc_is_right(), masked.contains(&(bit / 8)), "bit {bit}");
    }
}

#[test]
fn e10_ipv6_masks_traffic_class_flow_label_and_hop_limit() {
    let frame = bytes(V3);
    for byte in [1, 2, 3, 7] {
        let mut changed = frame.clone();
        changed[byte] ^= 0xff;
        assert!(parse_ip(&changed).unwrap().icrc_is_right(), "byte {byte}");
    }
    let mut changed = frame;
    changed[39] ^= 1;
    assert!(!parse_ip(&changed).unwrap().icrc_is_right());
}

/// Writes the headers of a parsed frame again, with the UDP checksum that was there.
fn rebuilt(frame: &[u8]) -> Vec<u8> {
    let parsed = parse_ip(frame).unwrap();
    let (ports, length) = (parsed.udp.unwrap(), parsed.transport.len());
    let mut out = vec![0; 48];
    let end = match parsed.ip {
        Network::V4(ip) => write_ipv4_udp(&mut out, &ip, ports, length),
        Network::V6(ip) => write_ipv6_udp(&mut out, &ip, ports, length),
        Network::Grh(_) => None,
    };
    out.truncate(end.unwrap());
    let checksum = out.len() - 2..out.len();
    out[checksum.clone()].copy_from_slice(&frame[checksum]);
    out.extend_from_slice(parsed.transport);
    out
}

#[test]
fn built_headers_carry_the_same_bytes() {
    for frame in all() {
        assert_eq!(rebuilt(&frame), frame);
    }
}

/// The captured frames through the functions that a datapath uses, against the slow twin.
#[test]
fn e10_fast_and_slow_icrc_agree_with_the_wire() {
    for frame in all() {
        let parsed = parse_ip(&frame).unwrap();
        let packet = Packet::parse(parsed.transport).unwrap();
        let (flow, id) = (parsed.flow().unwrap(), parsed.ip.ip_id().unwrap_or(0));
        assert_eq!(icrc(&flow, id, packet.covered()), packet.icrc());
        assert_eq!(icrc_bitwise(&flow, id, packet.covered()), packet.icrc());
    }
}

/// The DF bit is under the ICRC: a sender that clears it is judged by its own header.
#[test]
fn a_sender_without_df_is_judged_by_its_own_header() {
    let mut frame = bytes(V5);
    frame[6] = 0;
    assert!(!parse_ip(&frame).unwrap().icrc_is_right());
    let mut stream = vec![0xff; 8];
    stream.extend_from_slice(&frame[..56]);
    for masked in [1, 8, 10, 11, 26, 27, 32] {
        stream[8 + masked] = 0xff;
    }
    frame[56..].copy_from_slice(&crc32(&stream).to_le_bytes());
    assert!(parse_ip(&frame).unwrap().icrc_is_right());
}

/// CRC-32 one bit at a time, written without the crate under test.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| match crc & 1 {
            1 => (crc >> 1) ^ 0xedb8_8320,
            _ => crc >> 1,
        })
    })
}

/// The register after IP, UDP, BTH and AETH of V4 (docs/wire.md).
#[test]
fn worked_example_of_the_icrc() {
    let masked = bytes(
        "ffffffffffffffff45ff0030712c4000ff11ffff0a4d000b0a4d000cc12112b7001cffff\
         1100ffffff00001100cb68e71f000001",
    );
    let states = [8, 28, 36, 48, 52].map(|end| !crc32(&masked[..end]));
    assert_eq!(states, [0xdebb_20e3, 0x0b95_7977, 0x7d3b_f16e, 0x521f_773a, 0xf96a_2f09]);
    assert_eq!(crc32(&masked).to_le_bytes(), [0xf6, 0xd0, 0x95, 0x06]);
}
