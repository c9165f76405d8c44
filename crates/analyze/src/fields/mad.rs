//! Management datagrams: the common header, and agents.

use super::spec::{Spec, bytes, decimal, hex, ipv6, read_all, wide_hex};
use super::{Layer, cm, words};

/// Bytes of the header that every MAD has.
const HEADER: usize = 24;
/// Bytes of a MAD.
pub(super) const LEN: usize = 256;
/// Where the attribute of performance management begins.
const PM_DATA: usize = 64;

const PERFORMANCE: u8 = 4;
const COMMUNICATION: u8 = 7;

const MAD: &[Spec] = &[
    hex("infiniband.mad.baseversion", "Base version", (0, 0), 8),
    hex("infiniband.mad.mgmtclass", "Class", (1, 0), 8).says(words::management_class),
    hex("infiniband.mad.classversion", "Class version", (2, 0), 8),
    hex("infiniband.mad.method", "Method", (3, 0), 8).says(words::method),
    hex("infiniband.mad.status", "Status", (4, 0), 16),
    hex("infiniband.mad.classspecific", "Class specific", (6, 0), 16),
    hex("infiniband.mad.transactionid", "Transaction id", (8, 0), 64),
    hex("infiniband.mad.attributeid", "Attribute", (16, 0), 16),
    hex("infiniband.mad.attributemodifier", "Attribute modifier", (20, 0), 32),
];

const CLASS_PORT_INFO: &[Spec] = &[
    hex("infiniband.classportinfo.baseversion", "Base version", (0, 0), 8),
    hex("infiniband.classportinfo.classversion", "Class version", (1, 0), 8),
    hex("infiniband.classportinfo.capabilitymask", "Capability mask", (2, 0), 16),
    hex("infiniband.classportinfo.capabilitymask2", "Capability mask 2", (4, 0), 27),
    hex("infiniband.classportinfo.resptimevalue", "Response time", (7, 3), 5)
        .says(words::time_code),
    ipv6("infiniband.classportinfo.redirectgid", "Redirect GID", 8),
    hex("infiniband.classportinfo.redirecttc", "Redirect traffic class", (24, 0), 8),
    hex("infiniband.classportinfo.redirectsl", "Redirect service level", (25, 0), 4),
    wide_hex("infiniband.classportinfo.redirectfl", "Redirect flow label", (25, 4), 20, 6),
    hex("infiniband.classportinfo.redirectlid", "Redirect LID", (28, 0), 16),
    hex("infiniband.classportinfo.redirectpkey", "Redirect partition key", (30, 0), 16),
    hex("infiniband.classportinfo.redirectqp", "Redirect queue pair", (33, 0), 24),
    hex("infiniband.classportinfo.redirectqkey", "Redirect queue key", (36, 0), 32),
    ipv6("infiniband.classportinfo.trapgid", "Trap GID", 40),
    hex("infiniband.classportinfo.trapqp", "Trap queue pair", (65, 0), 24),
    hex("infiniband.classportinfo.trapqkey", "Trap queue key", (68, 0), 32),
];

const PORT_COUNTERS: &[Spec] = &[
    hex("infiniband.portcounters.portselect", "Port", (1, 0), 8),
    hex("infiniband.portcounters.counterselect", "Counters", (2, 0), 16),
    decimal("infiniband.portcounters.symbolerrorcounter", "Symbol errors", (4, 0), 16),
    decimal("infiniband.portcounters.linkdownedcounter", "Link downed", (7, 0), 8),
    decimal("infiniband.portcounters.portrcverrors", "Receive errors", (8, 0), 16),
    decimal("infiniband.portcounters.portxmitdiscards", "Transmit discards", (14, 0), 16),
    decimal("infiniband.portcounters.portxmitdata", "Transmit data in words", (24, 0), 32),
    decimal("infiniband.portcounters.portrcvdata", "Receive data in words", (28, 0), 32),
    decimal("infiniband.portcounters.portxmitpkts", "Transmit packets", (32, 0), 32),
    decimal("infiniband.portcounters.portrcvpkts", "Receive packets", (36, 0), 32),
];

/// The layers of the MAD that `data` begins with, which stands at `base` in the frame.
pub(super) fn layers(data: &[u8], base: usize) -> Vec<Layer> {
    let data = data.get(..LEN).unwrap_or(data);
    let attribute = data.get(16..18).map_or(0, |raw| u16::from_be_bytes([raw[0], raw[1]]));
    let class = data.get(1).copied().unwrap_or(0);
    let words = match class {
        COMMUNICATION => words::cm_attribute,
        PERFORMANCE => words::pm_attribute,
        _ => |_| None,
    };
    let name = words(attribute.into());
    let title = match &name {
        Some(name) => format!("Management datagram, {name}"),
        None => "Management datagram".to_owned(),
    };
    let header = data.get(..HEADER).unwrap_or(data);
    let fields = read_all(MAD, header, base);
    let range = base..base + header.len();
    let mut layers = vec![Layer { name: "infiniband.mad", title, fields, range }];
    layers.extend(body(class, attribute, data, base));
    layers
}

/// The attribute behind the header.
fn body(class: u8, attribute: u16, data: &[u8], base: usize) -> Option<Layer> {
    let behind = |at: usize| data.get(at..).filter(|rest| !rest.is_empty());
    let info = |at: usize, name, title: &str, specs| {
        let rest = behind(at)?;
        let (range, title) = (base + at..base + data.len(), title.to_owned());
        Some(Layer { name, title, fields: read_all(specs, rest, base + at), range })
    };
    const INFO: &str = "infiniband.classportinfo";
    match (class, attribute) {
        (COMMUNICATION, 0x01) => info(HEADER, INFO, "ClassPortInfo", CLASS_PORT_INFO),
        (PERFORMANCE, 0x01) => info(PM_DATA, INFO, "ClassPortInfo", CLASS_PORT_INFO),
        (PERFORMANCE, 0x12) => {
            info(PM_DATA, "infiniband.portcounters", "PortCounters", PORT_COUNTERS)
        }
        (COMMUNICATION, attribute) => cm::layer(attribute, behind(HEADER)?, base + HEADER),
        _ => info(HEADER, "infiniband.mad.data", "Data", DATA),
    }
}

const DATA: &[Spec] = &[bytes("infiniband.mad.data", "Data", 0, LEN - HEADER)];

/// All tables.
pub(super) const ALL: &[&[Spec]] = &[MAD, CLASS_PORT_INFO, PORT_COUNTERS, DATA];
