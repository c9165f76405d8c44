//! The program in the kernel that hands RoCE packets to us and leaves everything else alone.

mod assembler;
mod insn;
mod redirect;

pub(crate) use insn::Insn;
pub(crate) use redirect::{Filter, key_of, redirect};
