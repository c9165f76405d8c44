//! Messages of connection management.

use uroce_cm::ServiceId;

use super::spec::{Spec, bytes, decimal, hex, ipv4, ipv6, read_all};
use super::{Layer, words};

/// The path of a REQ that begins at byte `$at` of the message.
macro_rules! path {
    ($prefix:literal, $words:literal, $at:expr) => {
        &[
            decimal(concat!($prefix, "locallid"), concat!($words, " local LID"), ($at, 0), 16),
            decimal(
                concat!($prefix, "remotelid"),
                concat!($words, " remote LID"),
                ($at + 2, 0),
                16,
            ),
            ipv6(concat!($prefix, "localgid"), concat!($words, " local GID"), $at + 4),
            ipv6(concat!($prefix, "remotegid"), concat!($words, " remote GID"), $at + 20),
            hex(concat!($prefix, "flowlabel"), concat!($words, " flow label"), ($at + 36, 0), 20),
            hex(concat!($prefix, "pktrate"), concat!($words, " packet rate"), ($at + 39, 2), 6),
            hex(concat!($prefix, "tfcclass"), concat!($words, " traffic class"), ($at + 40, 0), 8),
            hex(concat!($prefix, "hoplim"), concat!($words, " hop limit"), ($at + 41, 0), 8),
            hex(concat!($prefix, "sl"), concat!($words, " service level"), ($at + 42, 0), 4),
            hex(
                concat!($prefix, "subnetlocal"),
                concat!($words, " subnet local"),
                ($at + 42, 4),
                1,
            ),
            hex(
                concat!($prefix, "localacktout"),
                concat!($words, " ACK timeout"),
                ($at + 43, 0),
                5,
            )
            .says(words::time_code),
        ]
    };
}

const PRIMARY: &[Spec] = path!("infiniband.cm.req.prim_", "Primary path:", 52);
const ALTERNATE: &[Spec] = path!("infiniband.cm.req.alt_", "Alternate path:", 96);

const SERVICE_ID: &[Spec] = &[
    bytes("infiniband.cm.req.serviceid.prefix", "Prefix", 8, 5),
    hex("infiniband.cm.req.serviceid.protocol", "Protocol", (13, 0), 8).says(words::protocol),
    hex("infiniband.cm.req.serviceid.dport", "Port", (14, 0), 16).says(words::decimal_number),
];

const REQ: &[Spec] = &[
    hex("infiniband.cm.req", "Local communication id", (0, 0), 32),
    hex("infiniband.cm.req.serviceid", "Service id", (8, 0), 64)
        .says(words::service_id)
        .with(SERVICE_ID),
    hex("infiniband.cm.req.localcaguid", "Local CA GUID", (16, 0), 64),
    hex("infiniband.cm.req.localqkey", "Local queue key", (28, 0), 32),
    hex("infiniband.cm.req.localqpn", "Local queue pair", (32, 0), 24),
    hex("infiniband.cm.req.responderres", "Responder resources", (35, 0), 8),
    hex("infiniband.cm.req.localeecn", "Local end-to-end context", (36, 0), 24),
    hex("infiniband.cm.req.initdepth", "Initiator depth", (39, 0), 8),
    hex("infiniband.cm.req.remoteeecn", "Remote end-to-end context", (40, 0), 24),
    hex("infiniband.cm.req.remoteresptout", "Remote response timeout", (43, 0), 5)
        .says(words::time_code),
    hex("infiniband.cm.req.transpsvctype", "Transport", (43, 5), 2).says(words::transport),
    hex("infiniband.cm.req.e2eflowctrl", "End-to-end flow control", (43, 7), 1),
    hex("infiniband.cm.req.startpsn", "Starting PSN", (44, 0), 24),
    hex("infiniband.cm.req.localresptout", "Local response timeout", (47, 0), 5)
        .says(words::time_code),
    hex("infiniband.cm.req.retrcount", "Retry count", (47, 5), 3),
    hex("infiniband.cm.req.pkey", "Partition key", (48, 0), 16),
    hex("infiniband.cm.req.pppmtu", "Path MTU", (50, 0), 4).says(words::mtu),
    hex("infiniband.cm.req.rdcexist", "RDC exists", (50, 4), 1),
    hex("infiniband.cm.req.rnrretrcount", "RNR retry count", (50, 5), 3),
    hex("infiniband.cm.req.maxcmretr", "CM retries", (51, 0), 4),
    hex("infiniband.cm.req.srq", "Shared receive queue", (51, 4), 1),
    hex("infiniband.cm.req.ext_transport", "Extended transport", (51, 5), 3),
];

/// Where the private data of a REQ begins.
const REQ_PRIVATE: usize = 140;
/// Where that of a SIDR_REQ begins.
const SIDR_REQ_PRIVATE: usize = 16;

const REQ_DATA: &[Spec] = &[bytes("infiniband.cm.req.private", "Private data", REQ_PRIVATE, 92)];

const SIDR_REQ: &[Spec] = &[
    hex("uroce.cm.sidr_req.requestid", "Request id", (0, 0), 32),
    hex("uroce.cm.sidr_req.pkey", "Partition key", (4, 0), 16),
    hex("uroce.cm.sidr_req.serviceid", "Service id", (8, 0), 64).says(words::service_id),
];

const SIDR_REQ_DATA: &[Spec] =
    &[bytes("uroce.cm.sidr_req.private", "Private data", SIDR_REQ_PRIVATE, 216)];

/// The header of rdma_cm in front of the private data.
const IP_CM: &[Spec] = &[
    hex("infiniband.cm.req.ip_cm.majv", "Major version", (0, 0), 4),
    hex("infiniband.cm.req.ip_cm.minv", "Minor version", (0, 4), 4),
    hex("infiniband.cm.req.ip_cm.ipv", "IP version", (1, 0), 4),
    hex("infiniband.cm.req.ip_cm.sport", "Source port", (2, 0), 16).says(words::decimal_number),
];

const IP_CM_V4: &[Spec] = &[
    ipv4("infiniband.cm.req.ip_cm.sip4", "Source", 16),
    ipv4("infiniband.cm.req.ip_cm.dip4", "Destination", 32),
];

const IP_CM_V6: &[Spec] = &[
    ipv6("infiniband.cm.req.ip_cm.sip6", "Source", 4),
    ipv6("infiniband.cm.req.ip_cm.dip6", "Destination", 20),
];

const IP_CM_REQ: &[Spec] = &[bytes("infiniband.cm.req.ip_cm.private", "Private data", 36, 56)];
const IP_CM_SIDR: &[Spec] = &[bytes("uroce.cm.sidr_req.private", "Private data", 36, 180)];

const MRA: &[Spec] = &[
    hex("uroce.cm.mra.localcommid", "Local communication id", (0, 0), 32),
    hex("uroce.cm.mra.remotecommid", "Remote communication id", (4, 0), 32),
    hex("uroce.cm.mra.msg", "Message that came", (8, 0), 2).says(words::rejected),
    hex("uroce.cm.mra.svctimeout", "Service timeout", (9, 0), 5).says(words::time_code),
    bytes("uroce.cm.mra.private", "Private data", 10, 222),
];

const REJ: &[Spec] = &[
    hex("infiniband.cm.rej.localcommid", "Local communication id", (0, 0), 32),
    hex("infiniband.cm.rej.remotecommid", "Remote communication id", (4, 0), 32),
    hex("infiniband.cm.rej.msgrej", "Message that is refused", (8, 0), 2).says(words::rejected),
    hex("infiniband.cm.rej.rejinfolen", "Length of the information", (9, 0), 7),
    hex("infiniband.cm.rej.reason", "Reason", (10, 0), 16).says(words::rej_reason),
    bytes("infiniband.cm.rej.ari", "Information", 12, 72),
    bytes("infiniband.cm.rej.private", "Private data", 84, 148),
];

const REP: &[Spec] = &[
    hex("infiniband.cm.rep", "Local communication id", (0, 0), 32),
    hex("infiniband.cm.rep.remotecommid", "Remote communication id", (4, 0), 32),
    hex("infiniband.cm.rep.localqkey", "Local queue key", (8, 0), 32),
    hex("infiniband.cm.rep.localqpn", "Local queue pair", (12, 0), 24),
    hex("infiniband.cm.rep.localeecn", "Local end-to-end context", (16, 0), 24),
    hex("infiniband.cm.rep.startpsn", "Starting PSN", (20, 0), 24),
    hex("infiniband.cm.rep.respres", "Responder resources", (24, 0), 8),
    hex("infiniband.cm.rep.initdepth", "Initiator depth", (25, 0), 8),
    hex("infiniband.cm.rep.tgtackdelay", "Target ACK delay", (26, 0), 5).says(words::time_code),
    hex("infiniband.cm.rep.failoveracc", "Failover accepted", (26, 5), 2),
    hex("infiniband.cm.rep.e2eflowctrl", "End-to-end flow control", (26, 7), 1),
    hex("infiniband.cm.rep.rnrretrcount", "RNR retry count", (27, 0), 3),
    hex("infiniband.cm.rep.srq", "Shared receive queue", (27, 3), 1),
    hex("infiniband.cm.rep.localcaguid", "Local CA GUID", (28, 0), 64),
    bytes("infiniband.cm.rep.private", "Private data", 36, 196),
];

const RTU: &[Spec] = &[
    hex("infiniband.cm.rtu.localcommid", "Local communication id", (0, 0), 32),
    hex("infiniband.cm.rtu.remotecommid", "Remote communication id", (4, 0), 32),
    bytes("infiniband.cm.rtu.private", "Private data", 8, 224),
];

const DREQ: &[Spec] = &[
    hex("infiniband.cm.dreq.localcommid", "Local communication id", (0, 0), 32),
    hex("infiniband.cm.dreq.remotecommid", "Remote communication id", (4, 0), 32),
    hex("infiniband.cm.req.remoteqpneecn", "Remote queue pair", (8, 0), 24),
    bytes("infiniband.cm.dreq.private", "Private data", 12, 220),
];

const DREP: &[Spec] = &[
    hex("infiniband.cm.drsp.localcommid", "Local communication id", (0, 0), 32),
    hex("infiniband.cm.drsp.remotecommid", "Remote communication id", (4, 0), 32),
    bytes("infiniband.cm.drsp.private", "Private data", 8, 224),
];

const SIDR_REP: &[Spec] = &[
    hex("uroce.cm.sidr_rep.requestid", "Request id", (0, 0), 32),
    hex("uroce.cm.sidr_rep.status", "Status", (4, 0), 8).says(words::sidr_status),
    hex("uroce.cm.sidr_rep.infolen", "Length of the information", (5, 0), 8),
    hex("uroce.cm.sidr_rep.qpn", "Queue pair", (8, 0), 24),
    hex("uroce.cm.sidr_rep.serviceid", "Service id", (12, 0), 64).says(words::service_id),
    hex("uroce.cm.sidr_rep.qkey", "Queue key", (20, 0), 32),
    bytes("uroce.cm.sidr_rep.info", "Information", 24, 72),
    bytes("uroce.cm.sidr_rep.private", "Private data", 96, 136),
];

const LAP: &[Spec] = &[
    hex("uroce.cm.lap.localcommid", "Local communication id", (0, 0), 32),
    hex("uroce.cm.lap.remotecommid", "Remote communication id", (4, 0), 32),
    hex("uroce.cm.lap.remoteqpn", "Remote queue pair", (12, 0), 24),
    hex("uroce.cm.lap.remoteresptout", "Remote response timeout", (15, 0), 5)
        .says(words::time_code),
    decimal("uroce.cm.lap.alt_locallid", "Alternate path: local LID", (20, 0), 16),
    decimal("uroce.cm.lap.alt_remotelid", "Alternate path: remote LID", (22, 0), 16),
    ipv6("uroce.cm.lap.alt_localgid", "Alternate path: local GID", 24),
    ipv6("uroce.cm.lap.alt_remotegid", "Alternate path: remote GID", 40),
    hex("uroce.cm.lap.alt_flowlabel", "Alternate path: flow label", (56, 0), 20),
    hex("uroce.cm.lap.alt_tfcclass", "Alternate path: traffic class", (59, 0), 8),
    hex("uroce.cm.lap.alt_hoplim", "Alternate path: hop limit", (60, 0), 8),
    hex("uroce.cm.lap.alt_pktrate", "Alternate path: packet rate", (61, 2), 6),
    hex("uroce.cm.lap.alt_sl", "Alternate path: service level", (62, 0), 4),
    hex("uroce.cm.lap.alt_localacktout", "Alternate path: ACK timeout", (63, 0), 5)
        .says(words::time_code),
    bytes("uroce.cm.lap.private", "Private data", 64, 168),
];

const APR: &[Spec] = &[
    hex("uroce.cm.apr.localcommid", "Local communication id", (0, 0), 32),
    hex("uroce.cm.apr.remotecommid", "Remote communication id", (4, 0), 32),
    hex("uroce.cm.apr.infolen", "Length of the information", (8, 0), 8),
    hex("uroce.cm.apr.status", "Status", (9, 0), 8).says(words::apr_status),
    bytes("uroce.cm.apr.info", "Information", 12, 72),
    bytes("uroce.cm.apr.private", "Private data", 84, 148),
];

/// The layer of the message with this attribute; `None` for one that is not known. `body` is what
/// is behind the header of the MAD, and stands at `base` in the frame.
pub(super) fn layer(attribute: u16, body: &[u8], base: usize) -> Option<Layer> {
    let tables: &[&[Spec]] = match attribute {
        0x10 => &[REQ, PRIMARY, ALTERNATE],
        0x11 => &[MRA],
        0x12 => &[REJ],
        0x13 => &[REP],
        0x14 => &[RTU],
        0x15 => &[DREQ],
        0x16 => &[DREP],
        0x17 => &[SIDR_REQ],
        0x18 => &[SIDR_REP],
        0x19 => &[LAP],
        0x1a => &[APR],
        _ => return None,
    };
    let mut fields: Vec<_> = tables.iter().flat_map(|table| read_all(table, body, base)).collect();
    fields.extend(private_data(attribute, body, base));
    let title = words::cm_attribute(attribute.into()).unwrap_or_default();
    let range = base..base + body.len();
    Some(Layer {
        name: "infiniband.cm",
        title: format!("Connection management, {title}"),
        fields,
        range,
    })
}

/// The private data of the messages in which it may begin with a header of rdma_cm.
fn private_data(attribute: u16, body: &[u8], base: usize) -> Vec<super::Field> {
    let (service_at, at, plain, behind) = match attribute {
        0x10 => (8, REQ_PRIVATE, REQ_DATA, IP_CM_REQ),
        0x17 => (8, SIDR_REQ_PRIVATE, SIDR_REQ_DATA, IP_CM_SIDR),
        _ => return Vec::new(),
    };
    let service = body.get(service_at..).and_then(|rest| rest.first_chunk());
    let is_ip =
        service.is_some_and(|raw| ServiceId(u64::from_be_bytes(*raw)).port_space().is_some());
    let Some(private) = body.get(at..).filter(|_| is_ip) else {
        return read_all(plain, body, base);
    };
    let addresses =
        if private.get(1).is_some_and(|byte| byte >> 4 == 4) { IP_CM_V4 } else { IP_CM_V6 };
    let tables = [IP_CM, addresses, behind];
    tables.iter().flat_map(|table| read_all(table, private, base + at)).collect()
}

/// All tables.
pub(super) const ALL: &[&[Spec]] = &[
    REQ,
    PRIMARY,
    ALTERNATE,
    REQ_DATA,
    SIDR_REQ,
    SIDR_REQ_DATA,
    IP_CM,
    IP_CM_V4,
    IP_CM_V6,
    IP_CM_REQ,
    IP_CM_SIDR,
    MRA,
    REJ,
    REP,
    RTU,
    DREQ,
    DREP,
    SIDR_REP,
    LAP,
    APR,
];
