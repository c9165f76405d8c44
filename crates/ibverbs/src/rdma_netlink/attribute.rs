//! Attributes of messages: `enum rdma_nldev_attr`, and how they are written.

use netlink_packet_core::{DefaultNla, Emitable};

pub const DEV_INDEX: u16 = 1;
pub const DEV_NAME: u16 = 2;
pub const PORT_INDEX: u16 = 3;
pub const CAP_FLAGS: u16 = 4;
pub const FW_VERSION: u16 = 5;
pub const NODE_GUID: u16 = 6;
pub const SYS_IMAGE_GUID: u16 = 7;
pub const PORT_STATE: u16 = 12;
pub const PORT_PHYS_STATE: u16 = 13;
pub const DEV_NODE_TYPE: u16 = 14;
pub const RES_SUMMARY: u16 = 15;
pub const RES_SUMMARY_ENTRY: u16 = 16;
pub const RES_SUMMARY_ENTRY_NAME: u16 = 17;
pub const RES_SUMMARY_ENTRY_CURR: u16 = 18;
pub const RES_QP: u16 = 19;
pub const RES_LQPN: u16 = 21;
pub const RES_RQPN: u16 = 22;
pub const RES_RQ_PSN: u16 = 23;
pub const RES_SQ_PSN: u16 = 24;
pub const RES_PATH_MIG_STATE: u16 = 25;
pub const RES_TYPE: u16 = 26;
pub const RES_STATE: u16 = 27;
pub const RES_PID: u16 = 28;
pub const RES_CM_ID: u16 = 30;
pub const RES_PS: u16 = 32;
pub const RES_SRC_ADDR: u16 = 33;
pub const RES_DST_ADDR: u16 = 34;
pub const RES_CQ: u16 = 35;
pub const RES_CQE: u16 = 37;
pub const RES_USECNT: u16 = 38;
pub const RES_MR: u16 = 40;
pub const RES_RKEY: u16 = 42;
pub const RES_LKEY: u16 = 43;
pub const RES_IOVA: u16 = 44;
pub const RES_MRLEN: u16 = 45;
pub const RES_PD: u16 = 46;
pub const NDEV_INDEX: u16 = 50;
pub const NDEV_NAME: u16 = 51;
pub const RES_PDN: u16 = 60;
pub const RES_CQN: u16 = 61;
pub const RES_MRN: u16 = 62;
pub const RES_CM_IDN: u16 = 63;
pub const RES_CTXN: u16 = 64;
pub const SYS_NETNS_MODE: u16 = 66;
pub const DEV_PROTOCOL: u16 = 67;
pub const STAT_MODE: u16 = 74;
pub const STAT_RES: u16 = 75;
pub const STAT_HWCOUNTERS: u16 = 80;
pub const STAT_HWCOUNTER_ENTRY: u16 = 81;
pub const STAT_HWCOUNTER_ENTRY_NAME: u16 = 82;
pub const STAT_HWCOUNTER_ENTRY_VALUE: u16 = 83;
pub const DEV_DIM: u16 = 84;
pub const RES_CTX: u16 = 86;
pub const RES_SRQ: u16 = 88;
pub const RES_SRQN: u16 = 90;
pub const SYS_COPY_ON_FORK: u16 = 93;

/// Attributes behind each other, as they are sent.
#[derive(Debug, Clone, Default)]
pub struct Attributes(pub Vec<u8>);

impl Attributes {
    fn with(mut self, kind: u16, value: Vec<u8>) -> Self {
        // The length of an attribute has 16 bits. None of ours is near that.
        debug_assert!(value.len() < usize::from(u16::MAX) - 4);
        let attribute = DefaultNla::new(kind, value);
        let at = self.0.len();
        self.0.resize(at + attribute.buffer_len(), 0);
        attribute.emit(&mut self.0[at..]);
        self
    }

    pub fn byte(self, kind: u16, value: u8) -> Self {
        self.with(kind, vec![value])
    }

    pub fn word(self, kind: u16, value: u32) -> Self {
        self.with(kind, value.to_ne_bytes().to_vec())
    }

    pub fn long(self, kind: u16, value: u64) -> Self {
        self.with(kind, value.to_ne_bytes().to_vec())
    }

    /// A string with the 0 at its end.
    pub fn text(self, kind: u16, value: &str) -> Self {
        self.with(kind, [value.as_bytes(), &[0]].concat())
    }

    pub fn bytes(self, kind: u16, value: &[u8]) -> Self {
        self.with(kind, value.to_vec())
    }

    /// Attributes inside one. As in nldev of the kernel, no flag says so.
    pub fn nested(self, kind: u16, inside: Attributes) -> Self {
        self.with(kind, inside.0)
    }

    /// All of another one behind these.
    pub fn and(mut self, more: Attributes) -> Self {
        self.0.extend(more.0);
        self
    }
}
