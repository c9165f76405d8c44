//! Messages between two Linux 6.1 kernels (rping over rxe), from our own capture: byte for byte.

use std::net::IpAddr;

use uroce_cm::message::*;
use uroce_cm::*;
use uroce_wire::{Deth, Gid, Header, Packet, Psn, Qpn, parse_ip};

const ACTIVE: [u8; 4] = [10, 77, 0, 12];
const PASSIVE: [u8; 4] = [10, 77, 0, 11];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.bytes().filter_map(|b| (b as char).to_digit(16)).map(|d| d as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// A whole frame: a REQ that nobody listened for.
fn req_frame() -> Vec<u8> {
    let mut frame = bytes(
        "4500013482e740004011a2210a4d000c0a4d000b d87212b701200000 6400ffff0000000180000000
         8001000000000001 010702030000000000000002d740598c0010000000000000
         8c5940d7 00000000 0000000001061c06 505400fffe000012 00000000 00000000
         000023 01 000000 01 000000 a0 981939 a7 ffff 37 f0 ffff ffff
         00000000000000000000ffff0a4d000c 00000000000000000000ffff0a4d000b 5bc110 00 00 40 00 98",
    );
    frame.extend([0; 44]);
    frame.extend(bytes(
        "0040b295 000000000000000000000000 0a4d000c 000000000000000000000000 0a4d000b",
    ));
    frame.extend([0; 56]);
    frame.extend(bytes("2171c952"));
    frame
}

fn gid(ip: [u8; 4]) -> Gid {
    Gid::from_ip(IpAddr::from(ip))
}

fn req() -> Req {
    let header = IpCm {
        source_port: 45717,
        source: IpAddr::from(ACTIVE),
        destination: IpAddr::from(PASSIVE),
    };
    Req {
        local_comm_id: CommId(0x8c59_40d7),
        vendor_id: 0,
        vendor_options: 0,
        service_id: ServiceId::new(PortSpace::Tcp, 7174),
        local_ca_guid: 0x5054_00ff_fe00_0012,
        local_qkey: 0,
        local_qpn: Qpn::new(0x23),
        responder_resources: 1,
        local_eecn: 0,
        initiator_depth: 1,
        remote_eecn: 0,
        remote_response_timeout: 20,
        transport: TransportService::RC,
        flow_control: false,
        starting_psn: Psn::new(0x98_1939),
        local_response_timeout: 20,
        retry_count: 7,
        pkey: 0xffff,
        path_mtu: 3,
        rdc_exists: false,
        rnr_retry_count: 7,
        max_cm_retries: 15,
        srq: false,
        extended_transport: 0,
        primary: Path {
            local_lid: 0xffff,
            remote_lid: 0xffff,
            local_gid: gid(ACTIVE),
            remote_gid: gid(PASSIVE),
            flow_label: 0x5bc11,
            hop_limit: 64,
            ack_timeout: 19,
            ..Path::default()
        },
        alternate: Path::default(),
        sap_supported: false,
        private_data: PrivateData::new(&header.write()).expect("it fits"),
    }
}

#[test]
fn r101_a_req_as_the_kernel_sends_it() {
    let frame = req_frame();
    let parsed = parse_ip(&frame).expect("a frame");
    assert!(parsed.icrc_is_right());
    let packet = Packet::parse(parsed.transport).expect("a packet");
    let deth = Deth::read(&parsed.transport[12..]).expect("a DETH");
    assert_eq!((packet.bth.dest_qpn, deth.src_qpn, deth.qkey), (Qpn::GSI, Qpn::GSI, GSI_QKEY));
    let payload = packet.payload();
    assert_eq!(payload.len(), MAD_LEN);
    let mad = Mad { tid: 0x2_d740_598c, message: req().into() };
    assert_eq!(Mad::parse(payload), Ok(mad));
    assert_eq!(mad.emit(), payload);
}

#[test]
fn the_ip_header_of_the_req() {
    let private = req().private_data;
    let (header, rest) = IpCm::split(private.bytes()).expect("there is room");
    let header = header.expect("a header");
    assert_eq!((header.source_port, header.source), (45717, IpAddr::from(ACTIVE)));
    assert_eq!((header.destination, rest), (IpAddr::from(PASSIVE), &[0; 56][..]));
    // Kernels derive the flow label from the two ports.
    assert_eq!((45717 * 31 + 7174) & 0xf_ffff, 0x5bc11);
}

/// The bytes behind the MAD header, filled up with zeros.
fn mad(attribute: u16, tid: u64, body: &str) -> Vec<u8> {
    let mut mad = bytes("010702030000000000000000000000000000000000000000");
    mad[8..16].copy_from_slice(&tid.to_be_bytes());
    mad[16..18].copy_from_slice(&attribute.to_be_bytes());
    mad.extend(bytes(body));
    mad.resize(MAD_LEN, 0);
    mad
}

fn check(golden: &[u8], message: impl Into<Message>, tid: u64) {
    let wanted = Mad { tid, message: message.into() };
    assert_eq!(Mad::parse(golden), Ok(wanted));
    assert_eq!(wanted.emit(), golden);
}

const CALLER: CommId = CommId(0x8d59_40d7);
const CALLED: CommId = CommId(0xbb6a_455c);

#[test]
fn the_rej_of_that_req() {
    let golden = mad(0x12, 0x2_d740_598c, "00000000 8c5940d7 00 00 0008");
    let rej = Rej {
        local_comm_id: CommId::NONE,
        remote_comm_id: CommId(0x8c59_40d7),
        message: RejectedMessage::REQ,
        info_len: 0,
        reason: RejReason::INVALID_SERVICE_ID,
        info: [0; 72],
        private_data: PrivateData::default(),
    };
    check(&golden, rej, 0x2_d740_598c);
}

#[test]
fn rep_rtu_dreq_drep() {
    let tid = 0x2_d740_598d;
    let golden = mad(
        0x13,
        tid,
        "bb6a455c 8d5940d7 00000000 00001d 00 000000 00 06f4eb 00 01 01 78 e0 505400fffe000011",
    );
    let rep = Rep {
        local_comm_id: CALLED,
        remote_comm_id: CALLER,
        local_qkey: 0,
        local_qpn: Qpn::new(0x1d),
        vendor_id: 0,
        vendor_options: 0,
        local_eecn: 0,
        starting_psn: Psn::new(0x06_f4eb),
        responder_resources: 1,
        initiator_depth: 1,
        target_ack_delay: 15,
        failover_accepted: 0,
        flow_control: false,
        rnr_retry_count: 7,
        srq: false,
        local_ca_guid: 0x5054_00ff_fe00_0011,
        private_data: PrivateData::default(),
    };
    check(&golden, rep, tid);

    let (local_comm_id, remote_comm_id) = (CALLER, CALLED);
    let private_data = PrivateData::default();
    let rtu = Rtu { local_comm_id, remote_comm_id, private_data };
    check(&mad(0x14, tid, "8d5940d7 bb6a455c"), rtu, tid);

    let (private_data, remote_qpn) = (PrivateData::default(), Qpn::new(0x1d));
    let dreq = Dreq { local_comm_id, remote_comm_id, remote_qpn, private_data };
    check(&mad(0x15, tid, "8d5940d7 bb6a455c 00001d"), dreq, tid);

    let private_data = PrivateData::default();
    let drep = Drep { local_comm_id: CALLED, remote_comm_id: CALLER, private_data };
    check(&mad(0x16, tid, "bb6a455c 8d5940d7"), drep, tid);
}

#[test]
fn a_dreq_of_the_called_side_has_a_tid_of_its_own() {
    let dreq = Dreq {
        local_comm_id: CommId(0xb16a_455c),
        remote_comm_id: CommId(0x8a59_40d7),
        remote_qpn: Qpn::new(0x29),
        private_data: PrivateData::default(),
    };
    let tid = 0x2_5c45_6ab1;
    check(&mad(0x15, tid, "b16a455c 8a5940d7 000029"), dreq, tid);
}

#[test]
fn sidr_without_and_with_a_service() {
    let service_id = ServiceId::new(PortSpace::Udp, 7174);
    let mut header = bytes("0040c9c1");
    header.resize(36, 0);
    let request = SidrReq {
        request_id: 0x8559_40d7,
        pkey: 0xffff,
        service_id,
        private_data: PrivateData::new(&header).expect("it fits"),
    };
    check(&mad(0x17, 1, "855940d7 ffff 0000 0000000001111c06 0040c9c1"), request, 1);

    let nobody = SidrRep {
        request_id: 0x8559_40d7,
        status: SidrStatus::INVALID_SERVICE_ID,
        info_len: 0,
        vendor_id: 0,
        qpn: Qpn::new(0),
        service_id,
        qkey: 0,
        info: [0; 72],
        private_data: PrivateData::default(),
    };
    check(&mad(0x18, 1, "855940d7 01 00 0000 000000 00 0000000001111c06"), nobody, 1);

    let found = SidrRep {
        request_id: 0x8159_40d7,
        status: SidrStatus::VALID,
        qpn: Qpn::new(0x20),
        qkey: 0x0123_4567,
        ..nobody
    };
    check(&mad(0x18, 2, "815940d7 00 00 0000 000020 00 0000000001111c06 01234567"), found, 2);
}
