//! The fields of a packet that rules look at, each read only when it is asked for.

use uroce_wire::{HeaderSet, Opcode, OpcodeInfo, Psn};

/// BTH.
const BTH_LEN: usize = 12;
/// BTH and DETH, in front of a MAD.
const MAD_AT: usize = 20;
/// The management class of connection management.
const CM_CLASS: u8 = 7;
/// The queue pair of general services.
const GSI: u32 = 1;

/// A packet from BTH to ICRC, which may be any bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketView<'a> {
    bytes: &'a [u8],
}

impl<'a> PacketView<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The opcode; `None` if there is no whole BTH.
    #[inline]
    pub(crate) fn opcode(&self) -> Option<u8> {
        self.bytes.first_chunk::<BTH_LEN>().map(|bth| bth[0])
    }

    /// What the opcode table says; `None` also if the headers do not fit the length.
    #[inline]
    pub(crate) fn info(&self) -> Option<&'static OpcodeInfo> {
        let info = Opcode(self.opcode()?).info()?;
        (self.bytes.len() >= info.header_len + uroce_wire::ICRC_LEN).then_some(info)
    }

    /// Destination queue pair number.
    #[inline]
    pub(crate) fn dest_qp(&self) -> Option<u32> {
        self.word(4).map(|word| word & 0xff_ffff)
    }

    /// Packet sequence number.
    #[inline]
    pub(crate) fn psn(&self) -> Option<Psn> {
        self.word(8).map(Psn::new)
    }

    /// Syndrome of the AETH.
    pub(crate) fn syndrome(&self) -> Option<u8> {
        self.aeth().map(|word| (word >> 24) as u8)
    }

    /// Message sequence number of the AETH.
    pub(crate) fn msn(&self) -> Option<u32> {
        self.aeth().map(|word| word & 0xff_ffff)
    }

    /// The AETH is always the first header behind the BTH.
    fn aeth(&self) -> Option<u32> {
        let info = self.info()?;
        info.headers.contains(HeaderSet::AETH).then(|| self.word(BTH_LEN)).flatten()
    }

    /// Bytes of BTH and extension headers; of an unknown opcode those of the BTH.
    pub(crate) fn header_len(&self) -> usize {
        let known = self.info().map_or(BTH_LEN, |info| info.header_len);
        known.min(self.bytes.len())
    }

    /// Where the ICRC begins.
    pub(crate) fn icrc_at(&self) -> usize {
        self.bytes.len().saturating_sub(uroce_wire::ICRC_LEN).max(self.header_len())
    }

    /// Bytes of payload without pad.
    pub(crate) fn payload_len(&self) -> usize {
        let pad = self.bytes.get(1).map_or(0, |flags| usize::from(flags >> 4 & 3));
        (self.icrc_at() - self.header_len()).saturating_sub(pad)
    }

    /// True if it goes to the queue pair of general services.
    pub(crate) fn is_management(&self) -> bool {
        self.dest_qp() == Some(GSI)
    }

    /// Attribute id, if it is a message of connection management.
    pub(crate) fn cm_attribute(&self) -> Option<u16> {
        let is_datagram = self.opcode() == Some(Opcode::UD_SEND_ONLY.0) && self.is_management();
        let mad = self.bytes.get(MAD_AT..).filter(|_| is_datagram)?;
        let is_cm = mad.get(1) == Some(&CM_CLASS);
        let id = mad.get(16..18).filter(|_| is_cm)?;
        Some(u16::from_be_bytes([id[0], id[1]]))
    }

    /// The MAD behind the datagram headers, if it is a message of connection management.
    pub(crate) fn cm_message(&self) -> Option<(u16, &'a [u8])> {
        Some((self.cm_attribute()?, self.bytes.get(MAD_AT + 24..)?))
    }

    #[inline]
    fn word(&self, at: usize) -> Option<u32> {
        let bytes = self.bytes.get(at..)?.first_chunk::<4>()?;
        Some(u32::from_be_bytes(*bytes))
    }
}
