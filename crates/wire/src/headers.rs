//! The transport headers, from the BTH to those of single operations, and what all headers have in common.

use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Opcode, Psn, Qpn, Syndrome};

/// A header of fixed length.
pub trait Header: Sized + Copy {
    /// Its length in bytes.
    const LEN: usize;
    /// Its name.
    const NAME: &'static str;
    /// Reads it from the first [`Header::LEN`] bytes; `None` if there are fewer.
    fn read(bytes: &[u8]) -> Option<Self>;
    /// Writes it to the first [`Header::LEN`] bytes; `None`, writing nothing, if there are fewer.
    fn write(&self, out: &mut [u8]) -> Option<()>;
}

/// Writes headers one behind the other.
#[derive(Debug)]
pub struct HeaderWriter<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl<'a> HeaderWriter<'a> {
    /// A writer that starts at the first byte of `out`.
    #[inline]
    pub fn new(out: &'a mut [u8]) -> Self {
        HeaderWriter { out, at: 0 }
    }

    /// Adds a header; `None`, adding nothing, if it does not fit.
    #[inline]
    pub fn put<H: Header>(&mut self, header: &H) -> Option<()> {
        header.write(self.out.get_mut(self.at..)?)?;
        self.at += H::LEN;
        Some(())
    }

    /// Bytes written so far.
    #[inline]
    pub fn len(&self) -> usize {
        self.at
    }

    /// True if nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.at == 0
    }
}

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
    /// Bytes before AckReq and PSN.
    pub(crate) const HEAD_LEN: usize = 8;

    /// The same with other bytes behind the first [`HEAD_LEN`](Self::HEAD_LEN): AckReq, reserved bits and PSN.
    #[inline]
    pub(crate) fn with_tail(self, tail: [u8; 4]) -> Bth {
        let psn = u32::from_be_bytes(tail);
        Bth {
            ack_req: psn & 0x8000_0000 != 0,
            reserved7: (psn >> 24) as u8 & 0x7f,
            psn: Psn::new(psn),
            ..self
        }
    }

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

/// Datagram extended transport header, 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Deth {
    /// Queue key (R7).
    pub qkey: u32,
    /// Sending queue pair.
    pub src_qpn: Qpn,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDeth {
    qkey: U32,
    src_qpn: U32,
}

impl Header for Deth {
    const LEN: usize = 8;
    const NAME: &'static str = "DETH";

    #[inline]
    fn read(bytes: &[u8]) -> Option<Deth> {
        let (raw, _) = RawDeth::ref_from_prefix(bytes).ok()?;
        Some(Deth { qkey: raw.qkey.get(), src_qpn: Qpn::new(raw.src_qpn.get()) })
    }

    #[inline]
    fn write(&self, out: &mut [u8]) -> Option<()> {
        RawDeth { qkey: self.qkey.into(), src_qpn: self.src_qpn.get().into() }
            .write_to_prefix(out)
            .ok()
    }
}

/// XRC extended transport header, 4 bytes (X2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct XrcEth {
    /// Number of the XRC shared receive queue, 24 bits.
    pub srqn: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawXrcEth {
    srqn: U32,
}

impl Header for XrcEth {
    const LEN: usize = 4;
    const NAME: &'static str = "XRCETH";

    #[inline]
    fn read(bytes: &[u8]) -> Option<XrcEth> {
        let (raw, _) = RawXrcEth::ref_from_prefix(bytes).ok()?;
        Some(XrcEth { srqn: raw.srqn.get() & 0xff_ffff })
    }

    #[inline]
    fn write(&self, out: &mut [u8]) -> Option<()> {
        RawXrcEth { srqn: (self.srqn & 0xff_ffff).into() }.write_to_prefix(out).ok()
    }
}

/// Reliable datagram extended transport header, 4 bytes. RD does not exist on RoCE; for analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rdeth {
    /// End-to-end context, 24 bits.
    pub ee_context: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRdeth {
    ee_context: U32,
}

impl Header for Rdeth {
    const LEN: usize = 4;
    const NAME: &'static str = "RDETH";

    #[inline]
    fn read(bytes: &[u8]) -> Option<Rdeth> {
        let (raw, _) = RawRdeth::ref_from_prefix(bytes).ok()?;
        Some(Rdeth { ee_context: raw.ee_context.get() & 0xff_ffff })
    }

    #[inline]
    fn write(&self, out: &mut [u8]) -> Option<()> {
        RawRdeth { ee_context: (self.ee_context & 0xff_ffff).into() }.write_to_prefix(out).ok()
    }
}

/// RDMA extended transport header, 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reth {
    /// Remote address.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// DMA length in bytes, at most 2^31 (R25).
    pub length: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawReth {
    va: U64,
    rkey: U32,
    length: U32,
}

impl Header for Reth {
    const LEN: usize = 16;
    const NAME: &'static str = "RETH";

    #[inline]
    fn read(bytes: &[u8]) -> Option<Reth> {
        let (raw, _) = RawReth::ref_from_prefix(bytes).ok()?;
        Some(Reth { va: raw.va.get(), rkey: raw.rkey.get(), length: raw.length.get() })
    }

    #[inline]
    fn write(&self, out: &mut [u8]) -> Option<()> {
        RawReth { va: self.va.into(), rkey: self.rkey.into(), length: self.length.into() }
            .write_to_prefix(out)
            .ok()
    }
}

/// Atomic extended transport header, 28 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AtomicEth {
    /// Remote address, a multiple of 8 (R33).
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// What is swapped in, or added.
    pub swap_add: u64,
    /// What the word is compared with.
    pub compare: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAtomicEth {
    va: U64,
    rkey: U32,
    swap_add: U64,
    compare: U64,
}

impl Header for AtomicEth {
    const LEN: usize = 28;
    const NAME: &'static str = "AtomicETH";

    #[inline]
    fn read(bytes: &[u8]) -> Option<AtomicEth> {
        let (raw, _) = RawAtomicEth::ref_from_prefix(bytes).ok()?;
        Some(AtomicEth {
            va: raw.va.get(),
            rkey: raw.rkey.get(),
            swap_add: raw.swap_add.get(),
            compare: raw.compare.get(),
        })
    }

    #[inline]
    fn write(&self, out: &mut [u8]) -> Option<()> {
        RawAtomicEth {
            va: self.va.into(),
            rkey: self.rkey.into(),
            swap_add: self.swap_add.into(),
            compare: self.compare.into(),
        }
        .write_to_prefix(out)
        .ok()
    }
}

/// ACK extended transport header, 4 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Aeth {
    /// ACK, RNR NAK or NAK.
    pub syndrome: Syndrome,
    /// Message sequence number, 24 bits (R50).
    pub msn: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAeth {
    word: U32,
}

impl Header for Aeth {
    const LEN: usize = 4;
    const NAME: &'static str = "AETH";

    #[inline]
    fn read(bytes: &[u8]) -> Option<Aeth> {
        let (raw, _) = RawAeth::ref_from_prefix(bytes).ok()?;
        let word = raw.word.get();
        Some(Aeth { syndrome: Syndrome((word >> 24) as u8), msn: word & 0xff_ffff })
    }

    #[inline]
    fn write(&self, out: &mut [u8]) -> Option<()> {
        let word = u32::from(self.syndrome.0) << 24 | (self.msn & 0xff_ffff);
        RawAeth { word: word.into() }.write_to_prefix(out).ok()
    }
}

/// Atomic acknowledge extended transport header, 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AtomicAckEth {
    /// The word before the atomic.
    pub original: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAtomicAckEth {
    original: U64,
}

impl Header for AtomicAckEth {
    const LEN: usize = 8;
    const NAME: &'static str = "AtomicAckETH";

    #[inline]
    fn read(bytes: &[u8]) -> Option<AtomicAckEth> {
        let (raw, _) = RawAtomicAckEth::ref_from_prefix(bytes).ok()?;
        Some(AtomicAckEth { original: raw.original.get() })
    }

    #[inline]
    fn write(&self, out: &mut [u8]) -> Option<()> {
        RawAtomicAckEth { original: self.original.into() }.write_to_prefix(out).ok()
    }
}

/// Immediate data, 4 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ImmDt(pub u32);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawImmDt {
    data: U32,
}

impl Header for ImmDt {
    const LEN: usize = 4;
    const NAME: &'static str = "ImmDt";

    #[inline]
    fn read(bytes: &[u8]) -> Option<ImmDt> {
        let (raw, _) = RawImmDt::ref_from_prefix(bytes).ok()?;
        Some(ImmDt(raw.data.get()))
    }

    #[inline]
    fn write(&self, out: &mut [u8]) -> Option<()> {
        RawImmDt { data: self.0.into() }.write_to_prefix(out).ok()
    }
}

/// Invalidate extended transport header, 4 bytes: the key to invalidate (R41).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ieth(pub u32);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawIeth {
    rkey: U32,
}

impl Header for Ieth {
    const LEN: usize = 4;
    const NAME: &'static str = "IETH";

    #[inline]
    fn read(bytes: &[u8]) -> Option<Ieth> {
        let (raw, _) = RawIeth::ref_from_prefix(bytes).ok()?;
        Some(Ieth(raw.rkey.get()))
    }

    #[inline]
    fn write(&self, out: &mut [u8]) -> Option<()> {
        RawIeth { rkey: self.0.into() }.write_to_prefix(out).ok()
    }
}

/// FLUSH extended transport header, 4 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Feth {
    /// Placement type: 1 global visibility, 2 persistence.
    pub placement: u8,
    /// Selectivity: 0 the range, 1 the whole region.
    pub selectivity: u8,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawFeth {
    bits: U32,
}

impl Header for Feth {
    const LEN: usize = 4;
    const NAME: &'static str = "FETH";

    #[inline]
    fn read(bytes: &[u8]) -> Option<Feth> {
        let (raw, _) = RawFeth::ref_from_prefix(bytes).ok()?;
        Some(Feth {
            placement: raw.bits.get() as u8 & 0x0f,
            selectivity: (raw.bits.get() >> 4) as u8 & 3,
        })
    }

    #[inline]
    fn write(&self, out: &mut [u8]) -> Option<()> {
        RawFeth { bits: u32::from((self.placement & 0x0f) | (self.selectivity & 3) << 4).into() }
            .write_to_prefix(out)
            .ok()
    }
}
