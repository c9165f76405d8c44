//! CRC-32 as in zlib, in the way that is faster here.
//!
//! Carry-less multiplication is ten times as fast as tables where the processor has it, and several times
//! slower where an emulator (QEMU without KVM) carries it out bit by bit while it says that it has it.
//! Only a clock can tell, and this crate has none: the device decides by [`set_crc_method`].

use core::sync::atomic::{AtomicBool, Ordering};

use crc32fast::Hasher;

/// How CRCs are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrcMethod {
    /// With the instructions that the processor says it has; the default.
    Instructions,
    /// With tables: for processors whose instructions are emulated.
    Tables,
}

/// Of all CRCs of the process: the processor is the same for all.
static BY_TABLES: AtomicBool = AtomicBool::new(false);

/// Chooses how ICRCs are computed from now on, by all threads of the process. The results are the same.
pub fn set_crc_method(method: CrcMethod) {
    BY_TABLES.store(method == CrcMethod::Tables, Ordering::Relaxed);
}

/// How ICRCs are computed.
pub fn crc_method() -> CrcMethod {
    match BY_TABLES.load(Ordering::Relaxed) {
        true => CrcMethod::Tables,
        false => CrcMethod::Instructions,
    }
}

/// The CRC behind `bytes`, from that before them.
#[inline]
pub(crate) fn update(crc: u32, bytes: &[u8]) -> u32 {
    if BY_TABLES.load(Ordering::Relaxed) {
        return by_tables(crc, bytes);
    }
    let mut hasher = Hasher::new_with_initial(crc);
    hasher.update(bytes);
    hasher.finalize()
}

/// The CRC table of one byte step.
pub(super) const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

/// Bytes that are looked up at once.
const AT_ONCE: usize = 8;

/// For each place among these, what its byte changes in the CRC behind them.
static TABLES: [[u32; 256]; AT_ONCE] = tables();

const fn tables() -> [[u32; 256]; AT_ONCE] {
    let mut tables = [TABLE; AT_ONCE];
    let mut place = AT_ONCE - 1;
    while place > 0 {
        let mut byte = 0;
        while byte < 256 {
            let behind = tables[place][byte];
            tables[place - 1][byte] = (behind >> 8) ^ TABLE[(behind & 0xff) as usize];
            byte += 1;
        }
        place -= 1;
    }
    tables
}

#[cold]
fn by_tables(crc: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<AT_ONCE>();
    let mut state = !crc;
    for word in words {
        let mut word = u64::from_le_bytes(*word) ^ u64::from(state);
        state = 0;
        for table in &TABLES {
            state ^= table[(word & 0xff) as usize];
            word >>= 8;
        }
    }
    for byte in rest {
        state = (state >> 8) ^ TABLE[((state ^ u32::from(*byte)) & 0xff) as usize];
    }
    !state
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Tables and instructions, from any state on.
        #[test]
        fn the_two_methods_agree(crc: u32, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut hasher = Hasher::new_with_initial(crc);
            hasher.update(&bytes);
            prop_assert_eq!(by_tables(crc, &bytes), hasher.finalize());
        }
    }

    #[test]
    fn the_method_can_be_chosen_and_changes_no_result() {
        let check = |method| {
            set_crc_method(method);
            (crc_method() == method, update(0, b"123456789"))
        };
        let results = [CrcMethod::Tables, CrcMethod::Instructions].map(check);
        assert_eq!(results, [(true, 0xcbf4_3926); 2]);
    }
}
