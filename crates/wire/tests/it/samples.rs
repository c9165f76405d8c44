//! Which opcodes and lengths the tests of a parser try: all of them. Under Miri, where that takes hours, some.

/// From an opcode to the next one.
pub const OPCODE_STEP: usize = if cfg!(miri) { 37 } else { 1 };
/// From a length in bytes to the next one.
pub const LENGTH_STEP: usize = if cfg!(miri) { 7 } else { 1 };
