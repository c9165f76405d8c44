//! How long copies are made.
//!
//! Up to a kilobyte a loop of moves of 16 or 32 bytes is as fast as a string move or faster. Beyond, processors make more of
//! a string move: it leaves the cache to others. But where an emulator carries it out, it goes byte by byte, and the
//! loop is five times as fast. Only a clock can tell, and this crate has none: the device decides by [`set_long_copies`].

use std::sync::atomic::{AtomicUsize, Ordering};

/// How copies of 2 KiB and more are made where there is a choice (x86-64).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LongCopies {
    /// By string moves; the default.
    Strings,
    /// By the loop that also makes the short ones.
    Loops,
}

/// Bytes from which on a copy is a string move.
const LONG: usize = 2048;

/// Of all copies of the process: the processor is the same for all.
static STRINGS_FROM: AtomicUsize = AtomicUsize::new(LONG);

/// Chooses how long copies are made from now on, by all threads of the process. The results are the same.
pub fn set_long_copies(copies: LongCopies) {
    let from = match copies {
        LongCopies::Strings => LONG,
        LongCopies::Loops => usize::MAX,
    };
    STRINGS_FROM.store(from, Ordering::Relaxed);
}

/// How long copies are made.
pub fn long_copies() -> LongCopies {
    match STRINGS_FROM.load(Ordering::Relaxed) {
        usize::MAX => LongCopies::Loops,
        _ => LongCopies::Strings,
    }
}

/// Bytes from which on a copy is a string move.
#[cfg(all(target_arch = "x86_64", any(not(miri), test)))]
#[inline]
pub(super) fn strings_from() -> usize {
    STRINGS_FROM.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Region;

    #[test]
    fn the_choice_changes_no_result() {
        let data: Vec<u8> = (0..5000u32).map(|n| ((n * 7) >> 3) as u8).collect();
        for copies in [LongCopies::Loops, LongCopies::Strings] {
            set_long_copies(copies);
            assert_eq!(long_copies(), copies);
            let region = Region::alloc(5000).unwrap();
            region.write(0, &data).unwrap();
            let mut seen = vec![0; 5000];
            region.read(0, &mut seen).unwrap();
            assert_eq!(seen, data);
        }
    }
}
