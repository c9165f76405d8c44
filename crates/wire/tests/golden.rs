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
fn every_vector_has_a_right_icrc() {
    for (i, frame) in all().iter().enumerate() {
        let parsed = parse_ip(frame).unwrap();
        assert!(parsed.icrc_is_right(), "V{}", i + 1);
        Packet::parse(parsed.transport).unwrap();
    }
}

#[test]
fn the_hidden_identification_is_found_again() {
    let ids = [0x718c, 0x0478, 0, 0x712c, 0x839d, 0x7ff8, 0x8287, 0x77fb, 0x82d1, 0x8882];
    for (frame, id) in all().iter().zip(ids) {
        let parsed = parse_ip(frame).unwrap();
        let verdict = |guesses: &[u16]| match parsed.network {
            Network::V4 { flow, .. } | Network::V6 { flow, .. } => {
                recover(&flow, guesses, parsed.transport)
            }
            Network::Grh(_) => IcrcVerdict::Bad,
        };
        if matches!(parsed.network, Network::V6 { .. }) {
            assert_eq!(verdict(&[]), IcrcVerdict::Valid);
        } else {
            assert_eq!(verdict(&[]), IcrcVerdict::Solved(id));
            assert_eq!(verdict(&[0, id]), IcrcVerdict::Predicted(id));
        }
    }
}

fn line(frame: &[u8]) -> String {
    Packet::parse(parse_ip(frame).unwrap().transport).unwrap().to_string()
}

#[test]
fn packets_print_what_they_say() {
    assert_eq!(line(&bytes(V4)), "RC_ACKNOWLEDGE qpn 0x000011 psn 0xcb68e7 ack msn 1");
    assert_eq!(line(&bytes(V5)), "RC_SEND_ONLY qpn 0x00001d psn 0x6f4eb ack-req payload 16");
    assert_eq!(
        line(&bytes(V6)),
        "RC_READ_REQUEST qpn 0x000019 psn 0xcdc550 ack-req va 0x55a64dca2000 rkey 0x783 len 8192"
    );
    assert_eq!(
        line(&bytes(V8)),
        "RC_ATOMIC_ACKNOWLEDGE qpn 0x000021 psn 0x122e10 ack msn 1 original 0xfac8a1cf2f6717ab"
    );
    assert_eq!(
        line(&v10()),
        "UD_SEND_ONLY_IMM qpn 0x000020 psn 0x0 qkey 0x1234567 from 0x000030 imm 0x30 payload 100"
    );
    assert_eq!(line(&bytes(V1)), "CNP qpn 0x000118 psn 0x0 becn payload 16");
}

#[test]
fn one_bit_anywhere_outside_the_mask_breaks_the_icrc() {
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
fn ipv6_masks_traffic_class_flow_label_and_hop_limit() {
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

#[test]
fn built_headers_carry_the_same_bytes() {
    let frame = bytes(V5);
    let parsed = parse_ip(&frame).unwrap();
    let mut out = [0; 28];
    let ip = |last| std::net::Ipv4Addr::new(10, 77, 0, last);
    let length = parsed.transport.len() as u16;
    write_ipv4_udp((ip(12), 0xf1c4), (ip(11), 4791), 0x839d, 64, 0, length, &mut out).unwrap();
    assert_eq!(out[..], frame[..28]);
}
