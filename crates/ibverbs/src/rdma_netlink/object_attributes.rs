//! How the objects of a report are told by netlink.

use std::net::{IpAddr, SocketAddr};

use uroce_device::{DeviceReport, Resource, ResourceKind};

use super::attribute::{self as attr, Attributes};
use super::device::PORT;

/// `struct __kernel_sockaddr_storage`.
const SOCKADDR_STORAGE: usize = 128;

/// The process that has an object, and its place among those that have the device.
#[derive(Debug)]
pub struct HoldingProcess<'a> {
    pub context: u32,
    pub report: &'a DeviceReport,
}

/// By which number an object is known, in a report and by netlink.
#[derive(Debug)]
pub struct Number {
    pub name: &'static str,
    pub attribute: u16,
}

/// The number of objects of a kind, and the attribute of a table of them.
pub fn table(kind: Option<ResourceKind>) -> (Number, u16) {
    let (name, attribute, table) = match kind {
        Some(ResourceKind::Qp) => ("lqpn", attr::RES_LQPN, attr::RES_QP),
        Some(ResourceKind::Cq) => ("cqn", attr::RES_CQN, attr::RES_CQ),
        Some(ResourceKind::Mr) => ("mrn", attr::RES_MRN, attr::RES_MR),
        Some(ResourceKind::Pd) => ("pdn", attr::RES_PDN, attr::RES_PD),
        Some(ResourceKind::Srq) => ("srqn", attr::RES_SRQN, attr::RES_SRQ),
        Some(ResourceKind::CmId) => ("cm-idn", attr::RES_CM_IDN, attr::RES_CM_ID),
        _ => ("", attr::RES_CTXN, attr::RES_CTX),
    };
    (Number { name, attribute }, table)
}

/// A process has one context for each device, whatever its programs made of it.
pub fn context(owner: &HoldingProcess<'_>) -> Attributes {
    let about = Attributes::default().word(attr::RES_CTXN, owner.context);
    about.word(attr::RES_PID, owner.report.pid)
}

pub fn object(owner: &HoldingProcess<'_>, object: &Resource) -> Attributes {
    let about = ObjectAttributes { object, attributes: Attributes::default() };
    let about = match object.kind() {
        ResourceKind::Qp => queue_pair(about),
        ResourceKind::Cq => {
            let about = about.word("cqe", attr::RES_CQE).long("users", attr::RES_USECNT);
            about.word("cqn", attr::RES_CQN).context(owner)
        }
        ResourceKind::Mr => {
            let about = about.word("rkey", attr::RES_RKEY).word("lkey", attr::RES_LKEY);
            let about = about.long("iova", attr::RES_IOVA).long("mrlen", attr::RES_MRLEN);
            about.word("mrn", attr::RES_MRN).word("pdn", attr::RES_PDN)
        }
        ResourceKind::Pd => {
            let about = about.long("users", attr::RES_USECNT).word("pdn", attr::RES_PDN);
            about.context(owner)
        }
        ResourceKind::Srq => {
            let about = about.word("srqn", attr::RES_SRQN).code("type", attr::RES_TYPE, &SRQ_TYPES);
            about.word("pdn", attr::RES_PDN).word("cqn", attr::RES_CQN)
        }
        _ => connection(about, owner),
    };
    about.attributes.word(attr::RES_PID, owner.report.pid)
}

fn queue_pair(about: ObjectAttributes<'_>) -> ObjectAttributes<'_> {
    let mut about = about;
    about.attributes = about.attributes.word(attr::PORT_INDEX, PORT);
    about
        .word("lqpn", attr::RES_LQPN)
        .word("rqpn", attr::RES_RQPN)
        .word("rq-psn", attr::RES_RQ_PSN)
        .word("sq-psn", attr::RES_SQ_PSN)
        .code("path-mig-state", attr::RES_PATH_MIG_STATE, &MIGRATION_STATES)
        .code("type", attr::RES_TYPE, &QP_TYPES)
        .code("state", attr::RES_STATE, &QP_STATES)
        .word("pdn", attr::RES_PDN)
}

fn connection<'a>(about: ObjectAttributes<'a>, owner: &HoldingProcess<'_>) -> ObjectAttributes<'a> {
    let own = owner.report.resources.first().and_then(|device| device.get("address"));
    let port = about.object.get("src-port").and_then(|port| port.parse().ok()).unwrap_or(0);
    let space = about.object.get("ps").and_then(|space| code_of(space, &PORT_SPACES));
    let space = space.unwrap_or(TCP);
    let qp_type = if space == UDP { UD } else { RC };
    let mut about = about.word("lqpn", attr::RES_LQPN);
    about.attributes = about
        .attributes
        .word(attr::PORT_INDEX, PORT)
        .byte(attr::RES_TYPE, qp_type)
        .word(attr::RES_PS, space.into());
    let about = about.code("state", attr::RES_STATE, &CM_STATES);
    let about = about.address(own, port, attr::RES_SRC_ADDR);
    let peer = about.object.get("dst-addr");
    about.address(peer, 0, attr::RES_DST_ADDR).word("cm-idn", attr::RES_CM_IDN)
}

/// Words of a report with the numbers that the kernel has for them.
type Codes<N> = [(&'static str, N)];

/// `enum ib_qp_type`.
const RC: u8 = 2;
const UD: u8 = 4;
const QP_TYPES: [(&str, u8); 5] =
    [("RC", RC), ("UC", 3), ("UD", UD), ("XRC_INI", 9), ("XRC_TGT", 10)];
/// `enum ib_qp_state`.
const QP_STATES: [(&str, u8); 7] =
    [("RESET", 0), ("INIT", 1), ("RTR", 2), ("RTS", 3), ("SQD", 4), ("SQE", 5), ("ERR", 6)];
/// `enum ib_mig_state`.
const MIGRATION_STATES: [(&str, u8); 3] = [("MIGRATED", 0), ("REARM", 1), ("ARMED", 2)];
/// `enum ib_srq_type`.
const SRQ_TYPES: [(&str, u8); 2] = [("BASIC", 0), ("XRC", 1)];
/// `enum rdma_ucm_port_space`.
const TCP: u16 = 0x106;
const UDP: u16 = 0x111;
const PORT_SPACES: [(&str, u16); 4] = [("IPOIB", 0x2), ("TCP", TCP), ("UDP", UDP), ("IB", 0x13f)];
/// `enum rdma_cm_state`, by what a connection here is in at that point.
const CM_STATES: [(&str, u8); 9] = [
    ("LISTEN", 8),
    ("REQ_SENT", 5),
    ("REQ_RCVD", 5),
    ("REP_SENT", 5),
    ("REP_RCVD", 5),
    ("ESTABLISHED", 5),
    ("DREQ_SENT", 6),
    ("TIMEWAIT", 6),
    ("CLOSED", 10),
];

fn code_of<N: Copy>(word: &str, codes: &Codes<N>) -> Option<N> {
    codes.iter().find(|(known, _)| *known == word).map(|(_, code)| *code)
}

/// Attributes made of the values of an object. What the report does not have is left out.
struct ObjectAttributes<'a> {
    object: &'a Resource,
    attributes: Attributes,
}

impl ObjectAttributes<'_> {
    /// A number, decimal or behind `0x`.
    fn number(&self, name: &str) -> Option<u64> {
        let text = self.object.get(name)?;
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }

    fn word(mut self, name: &str, kind: u16) -> Self {
        if let Some(value) = self.number(name).and_then(|value| u32::try_from(value).ok()) {
            self.attributes = self.attributes.word(kind, value);
        }
        self
    }

    fn long(mut self, name: &str, kind: u16) -> Self {
        if let Some(value) = self.number(name) {
            self.attributes = self.attributes.long(kind, value);
        }
        self
    }

    fn code(mut self, name: &str, kind: u16, codes: &Codes<u8>) -> Self {
        if let Some(code) = self.object.get(name).and_then(|word| code_of(word, codes)) {
            self.attributes = self.attributes.byte(kind, code);
        }
        self
    }

    fn context(mut self, owner: &HoldingProcess<'_>) -> Self {
        self.attributes = self.attributes.word(attr::RES_CTXN, owner.context);
        self
    }

    fn address(mut self, text: Option<&str>, port: u16, kind: u16) -> Self {
        if let Some(ip) = text.and_then(|text| text.parse::<IpAddr>().ok()) {
            self.attributes = self.attributes.bytes(kind, &storage((ip, port).into()));
        }
        self
    }
}

/// A socket address as C has it.
fn storage(address: SocketAddr) -> [u8; SOCKADDR_STORAGE] {
    let mut bytes = [0; SOCKADDR_STORAGE];
    let (family, ip, at) = match address.ip() {
        IpAddr::V4(v4) => (libc::AF_INET, v4.octets().to_vec(), 4),
        IpAddr::V6(v6) => (libc::AF_INET6, v6.octets().to_vec(), 8),
    };
    bytes[..2].copy_from_slice(&(family as libc::sa_family_t).to_ne_bytes());
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    bytes[at..at + ip.len()].copy_from_slice(&ip);
    bytes
}
