//! A request as a program sends it.

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer, NlasIterator};
use uroce_device::ResourceKind;

use super::NETLINK_HEADER_LEN;

/// `RDMA_NL_NLDEV`: the part of RDMA netlink that is about devices.
const NLDEV: u16 = 5;
/// The number of that part lies above so many bits of a message's type.
const PART_SHIFT: u32 = 10;

/// `enum rdma_nldev_command`, as far as it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NldevCommand {
    Device,
    Port,
    System,
    /// How many objects of each kind there are.
    Summary,
    /// `None`: contexts.
    Objects(Option<ResourceKind>),
    Statistic,
}

/// One request.
#[derive(Debug)]
pub struct NldevRequest<'a> {
    pub header: &'a [u8],
    pub kind: u16,
    pub flags: u16,
    pub sequence: u32,
    attributes: &'a [u8],
}

impl<'a> NldevRequest<'a> {
    /// The first request in `bytes`, and what is behind it. `None`: there is none that is whole.
    pub fn read(bytes: &'a [u8]) -> Option<(NldevRequest<'a>, &'a [u8])> {
        let message = NetlinkBuffer::new_checked(bytes).ok()?;
        let length = usize::try_from(message.length()).ok()?;
        let (header, _) = bytes.split_at_checked(NETLINK_HEADER_LEN)?;
        let request = NldevRequest {
            header,
            kind: message.message_type(),
            flags: message.flags(),
            sequence: message.sequence_number(),
            attributes: bytes.get(NETLINK_HEADER_LEN..length)?,
        };
        let behind = length.checked_next_multiple_of(4)?;
        Some((request, bytes.get(behind..).unwrap_or_default()))
    }

    /// It asks for something: messages of netlink itself do not.
    pub fn is_asked(&self) -> bool {
        self.flags & NLM_F_REQUEST != 0 && self.kind >= 1 << PART_SHIFT
    }

    pub fn is_dump(&self) -> bool {
        self.flags & NLM_F_DUMP == NLM_F_DUMP
    }

    pub fn operation(&self) -> u16 {
        self.kind & ((1 << PART_SHIFT) - 1)
    }

    pub fn command(&self) -> Option<NldevCommand> {
        if self.kind >> PART_SHIFT != NLDEV {
            return None;
        }
        let command = match self.operation() {
            1 => NldevCommand::Device,
            5 => NldevCommand::Port,
            6 => NldevCommand::System,
            9 => NldevCommand::Summary,
            10 => NldevCommand::Objects(Some(ResourceKind::Qp)),
            11 => NldevCommand::Objects(Some(ResourceKind::CmId)),
            12 => NldevCommand::Objects(Some(ResourceKind::Cq)),
            13 => NldevCommand::Objects(Some(ResourceKind::Mr)),
            14 => NldevCommand::Objects(Some(ResourceKind::Pd)),
            17 => NldevCommand::Statistic,
            22 => NldevCommand::Objects(None),
            23 => NldevCommand::Objects(Some(ResourceKind::Srq)),
            _ => return None,
        };
        Some(command)
    }

    /// The number in this attribute. `None`: it is not there, or has no room for a number.
    pub fn number(&self, attribute: u16) -> Option<u32> {
        let mut all = NlasIterator::new(self.attributes).map_while(Result::ok);
        let found = all.find(|found| found.kind() == attribute)?;
        Some(u32::from_ne_bytes(*found.value().first_chunk()?))
    }
}
