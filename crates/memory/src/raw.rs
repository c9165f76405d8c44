//! All unsafe code of the crate: a [`Region`] of memory, and copying to and from it.
//!
//! # What else touches these bytes
//!
//! Registered memory is changed by peers (through any thread that drives the device), by the
//! program that registered it, and by other programs if it is shared. None of them takes a lock, so a
//! copy may always meet a change. Three rules make that harmless:
//!
//! 1. **No reference.** No `&[u8]`, `&mut [u8]` or `&u8` to registered bytes is ever made, so the
//!    compiler is never told that they hold still. The only references are to `AtomicU64` and
//!    smaller atomics, which are made to change.
//! 2. **No plain access.** On x86-64 a copy is inline assembly, which the compiler cannot see into,
//!    split or repeat: a loop of moves of 16 or 32 bytes, which may work out a CRC of what passes, or for
//!    long copies one `rep movsb`; elsewhere (and under Miri) it is a loop of relaxed atomics. Each is, in the terms of the memory model, a
//!    sequence of atomic accesses of at most a word, so two copies that meet are a race but not a
//!    *data race*: no undefined behaviour, only a mixture.
//! 3. **Copied once, then judged.** Nothing in the crate decides anything by a registered byte;
//!    what is copied out is private and does not change again.
//!
//! One gap is known: the model leaves overlapping atomics of different sizes undefined when they
//! race (a byte of a copy against an 8-byte atomic, say). Every processor defines it, no copy
//! here is visible to the optimiser as such a pair, and there is no way to write it better today.
//!
//! # What is guaranteed
//!
//! * A copy touches the bytes of its range and no others, each once.
//! * A copy that meets a change ends up with old bytes, new bytes, or some of both.
//! * `fetch_add`, `compare_swap`, `load_u64` and `store_u64` are real atomics (SeqCst) towards
//!   each other and towards the program's own atomics on the same address.
//! * A copy of 8 or 4 bytes at an address that is a multiple of its length is one access.
//! * Of a copy into the memory, the last bytes become visible last: the last 8 if they are
//!   an aligned word, else the last 4 likewise, else the last one. A program that polls the end
//!   of a message, with acquire ordering, sees the whole message once the end is there. (The
//!   standard promises nothing before the completion, but programs do poll.)
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod crc;
mod long;
mod on_demand;
mod pages;
mod region;
#[cfg(all(target_arch = "x86_64", any(not(miri), test)))]
mod string_moves;
#[cfg(any(not(target_arch = "x86_64"), miri, test))]
mod word_moves;

pub use long::{LongCopies, long_copies, set_long_copies};
pub use pages::fault_in;
pub use region::{AllocError, Region, multiplied_crc};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use string_moves as moves;
#[cfg(any(not(target_arch = "x86_64"), miri))]
use word_moves as moves;

#[cfg(test)]
mod tests;
