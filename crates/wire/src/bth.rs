//! Base transport header.

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Header, Opcode, Psn, Qpn};

/// Base transport header, 12 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bth {
    /// What the packet is.
    pub opcode: Opcode,
    /// Solicited event (R42).
    pub solicited: bool,
    /// MigReq; we send 1, as hardware does, and ignore it on receive (R12).
    pub migreq: bool,
    /// Pad bytes behind the payload, 0 to 3.
    pub pad: u8,
    /// Transport version; only 0 exists (R2).
    pub tver: u8,
    /// Partition key.
    pub pkey: u16,
    /// Forward congestion mark.
    pub fecn: bool,
    /// Backward congestion mark; set in a CNP (R102).
    pub becn: bool,
    /// Reserved bits beside the congestion marks (R1).
    pub reserved6: u8,
    /// Destination queue pair.
    pub dest_qpn: Qpn,
    /// The sender asks for an acknowledgement (R44).
    pub ack_req: bool,
    /// Reserved bits beside AckReq (R1).
    pub reserved7: u8,
    /// Packet sequence number.
    pub psn: Psn,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawBth {
    opcode: u8,
    flags: u8,
    pkey: U16,
    /// Congestion marks, reserved bits, QPN.
    qpn: U32,
    /// AckReq, reserved bits, PSN.
    psn: U32,
}

impl Bth {
    /// A header as we send it: MigReq 1, default P_Key, everything else 0 (docs/wire.md).
    pub const fn new(opcode: Opcode, dest_qpn: Qpn, psn: Psn) -> Bth {
        Bth {
            opcode,
            solicited: false,
            migreq: true,
            pad: 0,
            tver: 0,
            pkey: 0xffff,
            fecn: false,
            becn: false,
            reserved6: 0,
            dest_qpn,
            ack_req: false,
            reserved7: 0,
            psn,
        }
    }
}

impl Header for Bth {
    const LEN: usize = 12;
    const NAME: &'static str = "BTH";

    #[inline]
    fn read(bytes: &[u8]) -> Option<Bth> {
        let (raw, _) = RawBth::ref_from_prefix(bytes).ok()?;
        let (qpn, psn) = (raw.qpn.get(), raw.psn.get());
        Some(Bth {
            opcode: Opcode(raw.opcode),
            solicited: raw.flags & 0x80 != 0,
            migreq: raw.flags & 0x40 != 0,
            pad: (raw.flags >> 4) & 3,
            tver: raw.flags & 0x0f,
            pkey: raw.pkey.get(),
            fecn: qpn & 0x8000_0000 != 0,
            becn: qpn & 0x4000_0000 != 0,
            reserved6: (qpn >> 24) as u8 & 0x3f,
            dest_qpn: Qpn::new(qpn),
            ack_req: psn & 0x8000_0000 != 0,
            reserved7: (psn >> 24) as u8 & 0x7f,
            psn: Psn::new(psn),
        })
    }

    #[inline]
    fn write(&self, out: &mut [u8]) -> Option<()> {
        let marks = u32::from(self.fecn) << 31 | u32::from(self.becn) << 30;
        let raw = RawBth {
            opcode: self.opcode.0,
            flags: u8::from(self.solicited) << 7
                | u8::from(self.migreq) << 6
                | (self.pad & 3) << 4
                | (self.tver & 0x0f),
            pkey: self.pkey.into(),
            qpn: (marks | u32::from(self.reserved6 & 0x3f) << 24 | self.dest_qpn.get()).into(),
            psn: (u32::from(self.ack_req) << 31
                | u32::from(self.reserved7 & 0x7f) << 24
                | self.psn.get())
            .into(),
        };
        raw.write_to_prefix(out).ok()
    }
}
