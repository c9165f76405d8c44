//! A transport packet: what lies behind the UDP header.

use core::fmt;

use crate::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, DropReason, Feth, Header, HeaderSet, ICRC_LEN, Ieth,
    ImmDt, Opcode, OpcodeInfo, Reth, XrcEth,
};

/// A packet whose headers fit its length. The ICRC has not been looked at.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// Base transport header.
    pub bth: Bth,
    /// What the opcode table says.
    pub info: &'static OpcodeInfo,
    bytes: &'a [u8],
}

/// Why bytes are not a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseError {
    /// Fewer bytes than a BTH and an ICRC.
    TooShort {
        /// Bytes there are.
        got: usize,
        /// Bytes there should be.
        need: usize,
    },
    /// BTH offset 0: the opcode is not defined.
    UnknownOpcode {
        /// The opcode.
        opcode: u8,
    },
    /// Headers, pad and ICRC do not fit.
    HeadersDoNotFit {
        /// Name of the opcode.
        name: &'static str,
        /// Bytes there are.
        got: usize,
        /// Bytes there should be at least.
        need: usize,
    },
    /// BTH offset 1: pad bytes on a packet that has no payload to pad.
    BadPad {
        /// The pad count.
        pad: u8,
    },
    /// BTH offset 1: the transport version is not 0.
    BadTransportVersion {
        /// The version.
        tver: u8,
    },
}

impl ParseError {
    /// The counter that this error goes to.
    pub fn drop_reason(&self) -> DropReason {
        match self {
            ParseError::TooShort { .. } => DropReason::TooShort,
            ParseError::UnknownOpcode { .. } => DropReason::UnknownOpcode,
            ParseError::HeadersDoNotFit { .. } => DropReason::BadLength,
            ParseError::BadPad { .. } => DropReason::BadPad,
            ParseError::BadTransportVersion { .. } => DropReason::BadTransportVersion,
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ParseError::TooShort { got, need } => {
                write!(f, "{got} bytes behind UDP, but BTH and ICRC take {need}")
            }
            ParseError::UnknownOpcode { opcode } => {
                write!(f, "BTH offset 0: {} is not defined", Opcode(opcode))
            }
            ParseError::HeadersDoNotFit { name, got, need } => {
                write!(f, "{name}: {got} bytes, but headers, pad and ICRC take {need}")
            }
            ParseError::BadPad { pad } => {
                write!(f, "BTH offset 1: {pad} pad bytes where there is no payload")
            }
            ParseError::BadTransportVersion { tver } => {
                write!(f, "BTH offset 1: transport version {tver}, only 0 exists")
            }
        }
    }
}

impl core::error::Error for ParseError {}

/// Parses packets that mostly are alike: of one length, with BTHs that differ in AckReq and PSN only.
///
/// What [`Packet::parse`], its slow twin, finds out of a packet holds for the next one like it.
#[derive(Debug, Clone, Copy, Default)]
pub struct PacketParser {
    last: Option<ParsedLast>,
}

/// What was found out of the packet that came last.
#[derive(Debug, Clone, Copy)]
struct ParsedLast {
    len: usize,
    /// The BTH before AckReq and PSN.
    head: [u8; Bth::HEAD_LEN],
    bth: Bth,
    info: &'static OpcodeInfo,
}

impl PacketParser {
    /// [`Packet::parse`].
    #[inline]
    pub fn parse<'a>(&mut self, bytes: &'a [u8]) -> Result<Packet<'a>, ParseError> {
        if let Some(ParsedLast { len, head, bth, info }) = &self.last
            && *len == bytes.len()
            && let Some((found, rest)) = bytes.split_first_chunk()
            && found == head
            && let Some(tail) = rest.first_chunk()
        {
            return Ok(Packet { bth: bth.with_tail(*tail), info, bytes });
        }
        self.parse_unlike(bytes)
    }

    #[inline(never)]
    fn parse_unlike<'a>(&mut self, bytes: &'a [u8]) -> Result<Packet<'a>, ParseError> {
        let packet = Packet::parse(bytes)?;
        if let Some(head) = bytes.first_chunk() {
            let Packet { bth, info, .. } = packet;
            self.last = Some(ParsedLast { len: bytes.len(), head: *head, bth, info });
        }
        Ok(packet)
    }
}

impl<'a> Packet<'a> {
    /// Checks 1 to 4 of docs/wire.md: length, opcode, headers with pad and ICRC, version.
    /// `bytes` is the UDP payload, ICRC included.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, ParseError> {
        const NEED: usize = Bth::LEN + ICRC_LEN;
        let got = bytes.len();
        let bth = match Bth::read(bytes) {
            Some(bth) if got >= NEED => bth,
            _ => return Err(ParseError::TooShort { got, need: NEED }),
        };
        // B1: the opcode is classified before anything is computed from it.
        let opcode = bth.opcode.0;
        let info = bth.opcode.info().ok_or(ParseError::UnknownOpcode { opcode })?;
        // B2: with the pad, which is at most 3, the sum cannot overflow.
        let need = info.header_len + usize::from(bth.pad) + ICRC_LEN;
        if got < need {
            return Err(ParseError::HeadersDoNotFit { name: info.name, got, need });
        }
        // R11: pad belongs to a payload; without one there is nothing to pad.
        if bth.pad != 0 && got == need {
            return Err(ParseError::BadPad { pad: bth.pad });
        }
        if bth.tver != 0 {
            return Err(ParseError::BadTransportVersion { tver: bth.tver });
        }
        Ok(Packet { bth, info, bytes })
    }

    /// The packet in `bytes` if it is as long as this one, and its BTH differs in AckReq, the seven reserved bits beside it and
    /// PSN only. What [`parse`](Self::parse) checks then holds for it, too.
    #[inline]
    pub fn parse_alike<'b>(&self, bytes: &'b [u8]) -> Option<Packet<'b>> {
        let (own, _) = self.bytes.split_first_chunk::<{ Bth::HEAD_LEN }>()?;
        let (head, rest) = bytes.split_first_chunk()?;
        let alike = own == head && self.bytes.len() == bytes.len();
        let tail = rest.first_chunk().filter(|_| alike)?;
        Some(Packet { bth: self.bth.with_tail(*tail), info: self.info, bytes })
    }

    /// The payload without pad.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        let tail = usize::from(self.bth.pad) + ICRC_LEN;
        let end = self.bytes.len().saturating_sub(tail);
        self.bytes.get(self.info.header_len..end).unwrap_or(&[])
    }

    /// Everything that the ICRC covers: BTH to pad.
    #[inline]
    pub fn covered(&self) -> &'a [u8] {
        &self.bytes[..self.bytes.len().saturating_sub(ICRC_LEN)]
    }

    /// The whole packet, ICRC included.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The ICRC as it stands in the packet.
    #[inline]
    pub fn icrc(&self) -> u32 {
        match self.bytes.last_chunk::<ICRC_LEN>() {
            Some(bytes) => u32::from_le_bytes(*bytes),
            None => 0,
        }
    }

    /// Reads header `H` if the opcode has `flag`; `before` are the headers in front of it.
    #[inline]
    fn header<H: Header>(&self, flag: HeaderSet, before: &[(HeaderSet, usize)]) -> Option<H> {
        if !self.info.headers.contains(flag) {
            return None;
        }
        let skip = |&(set, length): &(HeaderSet, usize)| {
            if self.info.headers.contains(set) { length } else { 0 }
        };
        let at = Bth::LEN + before.iter().map(skip).sum::<usize>();
        H::read(self.bytes.get(at..)?)
    }

    /// DETH, if the opcode has one.
    pub fn deth(&self) -> Option<Deth> {
        self.header(HeaderSet::DETH, &[])
    }

    /// XRCETH, if the opcode has one.
    pub fn xrceth(&self) -> Option<XrcEth> {
        self.header(HeaderSet::XRCETH, &[])
    }

    /// FETH, if the opcode has one.
    pub fn feth(&self) -> Option<Feth> {
        self.header(HeaderSet::FETH, &[(HeaderSet::XRCETH, XrcEth::LEN)])
    }

    /// RETH, if the opcode has one.
    #[inline]
    pub fn reth(&self) -> Option<Reth> {
        const BEFORE: [(HeaderSet, usize); 2] =
            [(HeaderSet::XRCETH, XrcEth::LEN), (HeaderSet::FETH, Feth::LEN)];
        self.header(HeaderSet::RETH, &BEFORE)
    }

    /// AETH, if the opcode has one.
    #[inline]
    pub fn aeth(&self) -> Option<Aeth> {
        self.header(HeaderSet::AETH, &[])
    }

    /// AtomicETH, if the opcode has one.
    pub fn atomic_eth(&self) -> Option<AtomicEth> {
        self.header(HeaderSet::ATOMIC_ETH, &[(HeaderSet::XRCETH, XrcEth::LEN)])
    }

    /// AtomicAckETH, if the opcode has one.
    pub fn atomic_ack_eth(&self) -> Option<AtomicAckEth> {
        self.header(HeaderSet::ATOMIC_ACK_ETH, &[(HeaderSet::AETH, Aeth::LEN)])
    }

    /// Immediate data, if the opcode has it.
    #[inline]
    pub fn immdt(&self) -> Option<u32> {
        const BEFORE: [(HeaderSet, usize); 3] = [
            (HeaderSet::XRCETH, XrcEth::LEN),
            (HeaderSet::DETH, Deth::LEN),
            (HeaderSet::RETH, Reth::LEN),
        ];
        self.header::<ImmDt>(HeaderSet::IMMDT, &BEFORE).map(|imm| imm.0)
    }

    /// The key that the packet invalidates, if its opcode does that.
    #[inline]
    pub fn ieth(&self) -> Option<u32> {
        let before = [(HeaderSet::XRCETH, XrcEth::LEN)];
        self.header::<Ieth>(HeaderSet::IETH, &before).map(|ieth| ieth.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Mostly packets like the one before, some with a byte changed, some of any bytes.
        #[test]
        fn the_parser_says_what_its_slow_twin_says(
            packets in prop::collection::vec((0u8..5, any::<u8>(), 0usize..40, 0usize..60), 1..60),
            any in prop::collection::vec(any::<u8>(), 60),
        ) {
            let mut parser = PacketParser::default();
            let mut bytes = [0u8; 60];
            for (kind, value, at, len) in packets {
                match kind {
                    0 => bytes.copy_from_slice(&any),
                    1 => bytes[at] = value,
                    // PSN and AckReq.
                    2 => bytes[8..12].copy_from_slice(&[value, at as u8, len as u8, value]),
                    3 => bytes[..2].copy_from_slice(&[value, 0x40]),
                    _ => {}
                }
                let len = if kind == 4 { len } else { 60 };
                let (found, expected) = (parser.parse(&bytes[..len]), Packet::parse(&bytes[..len]));
                prop_assert_eq!(found.is_ok(), expected.is_ok());
                match (found, expected) {
                    (Ok(found), Ok(expected)) => {
                        prop_assert_eq!(found.bth, expected.bth);
                        prop_assert_eq!(found.info, expected.info);
                        prop_assert_eq!(found.payload(), expected.payload());
                    }
                    (found, expected) => prop_assert_eq!(found.err(), expected.err()),
                }
            }
        }
    }
}
