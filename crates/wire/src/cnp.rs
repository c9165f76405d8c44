//! Congestion notification packets (docs/wire.md, R102).

use crate::{Bth, Header, HeaderWriter, Opcode, Psn, Qpn};

/// Bytes of a CNP: the BTH and 16 reserved zeros. The ICRC comes behind them.
pub const CNP_LEN: usize = Bth::LEN + RESERVED;

const RESERVED: usize = 16;

/// Writes a CNP for the peer's queue pair: BECN set, PSN 0, no AckReq. Returns [`CNP_LEN`], or
/// `None`, writing nothing, if `out` is shorter.
pub fn write_cnp(out: &mut [u8], dest_qpn: Qpn) -> Option<usize> {
    let out = out.get_mut(..CNP_LEN)?;
    out.fill(0);
    let bth = Bth { becn: true, ..Bth::new(Opcode::CNP, dest_qpn, Psn::new(0)) };
    HeaderWriter::new(out).put(&bth)?;
    Some(CNP_LEN)
}
