//! `ibv_wc_status`.

/// Done.
pub const SUCCESS: u32 = 0;
/// A message is longer than its receive.
pub const LOC_LEN: u32 = 1;
/// The work request cannot be done.
pub const LOC_QP_OP: u32 = 2;
/// A local key does not allow it.
pub const LOC_PROT: u32 = 4;
/// The queue pair had failed.
pub const WR_FLUSH: u32 = 5;
/// The peer refused: invalid request.
pub const REM_INV_REQ: u32 = 9;
/// The peer refused: its key does not allow it.
pub const REM_ACCESS: u32 = 10;
/// The peer refused: it has a problem of its own.
pub const REM_OP: u32 = 11;
/// No answer came.
pub const RETRY_EXC: u32 = 12;
/// The receiver was never ready.
pub const RNR_RETRY_EXC: u32 = 13;
