//! CRC-32 as in zlib, in the way that is faster here; and its register taken back over bytes that went through it.
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

/// The register of the CRC behind 4 bytes, from that before them.
#[inline]
pub(super) fn behind_word(register: u32, word: [u8; 4]) -> u32 {
    let word = (register ^ u32::from_le_bytes(word)).to_le_bytes();
    let tables = TABLES.iter().skip(AT_ONCE - word.len());
    tables.zip(word).fold(0, |register, (table, byte)| register ^ table[usize::from(byte)])
}

/// The register of the CRC behind `bytes`, from 0 on. That of bytes behind others is the sum of this and of the register
/// before them, taken on by as many bytes.
#[inline]
pub fn crc_register(bytes: &[u8]) -> u32 {
    !update(u32::MAX, bytes)
}

/// Lengths of payloads that are usual: 2^6 to 2^12 bytes, those of whole packets among them.
const SMALLEST: u32 = 6;
const SIZES: usize = 7;

/// What each half byte of a register becomes: a table for each, so that all lengths together take few cache lines.
type ByHalves = [[u32; 16]; 8];

/// For each of these lengths, what each half byte of the register becomes behind so many zeros.
static ON: [ByHalves; SIZES] = {
    let mut on = [[[0; 16]; 8]; SIZES];
    let mut operator = [0; 32];
    let mut bit = 0;
    while bit < 32 {
        let register = 1u32 << bit;
        operator[bit] = (register >> 8) ^ TABLE[(register & 0xff) as usize];
        bit += 1;
    }
    let mut power = 0;
    while power < SMALLEST as usize + SIZES {
        if power >= SMALLEST as usize {
            on[power - SMALLEST as usize] = by_halves(&operator);
        }
        operator = twice(&operator);
        power += 1;
    }
    on
};

const fn twice(operator: &Operator) -> Operator {
    let (mut out, mut bit) = ([0; 32], 0);
    while bit < 32 {
        out[bit] = apply(operator, operator[bit]);
        bit += 1;
    }
    out
}

/// The operator as a table for each half byte that it is applied to.
const fn by_halves(operator: &Operator) -> ByHalves {
    let (mut tables, mut place) = ([[0; 16]; 8], 0);
    while place < 8 {
        let mut half = 1usize;
        while half < 16 {
            let rest = tables[place][half & (half - 1)];
            tables[place][half] = rest ^ operator[place * 4 + half.trailing_zeros() as usize];
            half += 1;
        }
        place += 1;
    }
    tables
}

/// True for a length that [`on_by`] knows.
#[inline]
pub(super) fn is_usual(bytes: usize) -> bool {
    bytes.is_power_of_two() && (1 << SMALLEST..1 << (SMALLEST as usize + SIZES)).contains(&bytes)
}

/// The register taken on by `bytes` zeros; `None` if that is no usual length.
#[inline]
pub(super) fn on_by(register: u32, bytes: usize) -> Option<u32> {
    if !bytes.is_power_of_two() {
        return None;
    }
    let size = bytes.trailing_zeros().checked_sub(SMALLEST)?;
    let tables = ON.get(size as usize)?.iter().zip(0..);
    let half = |place: u32| (register >> (4 * place) & 15) as usize;
    Some(tables.fold(0, |on, (table, place)| on ^ table[half(place)]))
}

/// For each top byte the table index that has it; the top bytes are all different.
const INDEX_OF_TOP: [u8; 256] = {
    let mut index = [0; 256];
    let mut i = 0;
    while i < 256 {
        index[(TABLE[i] >> 24) as usize] = i as u8;
        i += 1;
    }
    index
};

/// The register before one zero byte went through it.
const fn back_one(state: u32) -> u32 {
    let index = INDEX_OF_TOP[(state >> 24) as usize];
    ((state ^ TABLE[index as usize]) << 8) | index as u32
}

/// A linear map of the register: the images of its 32 bits.
type Operator = [u32; 32];

const fn apply(operator: &Operator, state: u32) -> u32 {
    let (mut out, mut bit) = (0, 0);
    while bit < 32 {
        out ^= operator[bit] & 0u32.wrapping_sub(state >> bit & 1);
        bit += 1;
    }
    out
}

/// Steps back by 2^j bytes, for each j that a packet length can need.
const OPERATORS: [Operator; 16] = {
    let mut all = [[0; 32]; 16];
    let mut bit = 0;
    while bit < 32 {
        all[0][bit] = back_one(1 << bit);
        bit += 1;
    }
    let mut j = 1;
    while j < 16 {
        let mut bit = 0;
        while bit < 32 {
            all[j][bit] = apply(&all[j - 1], all[j - 1][bit]);
            bit += 1;
        }
        j += 1;
    }
    all
};

static BACK: [Operator; 16] = OPERATORS;

/// Runs the register back by `bytes` zero bytes, fewer than 2^16.
pub(super) fn back(state: u32, bytes: u64) -> u32 {
    let mut state = state;
    for (j, operator) in BACK.iter().enumerate() {
        if bytes >> j & 1 == 1 {
            state = apply(operator, state);
        }
    }
    state
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

        #[test]
        fn operators_equal_single_steps(state: u32, bytes in 0u64..5000) {
            prop_assert_eq!(back(state, bytes), back_bytewise(state, bytes));
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

    #[test]
    fn a_register_goes_on_as_through_zeros() {
        for power in 0..16 {
            let bytes = 1 << power;
            let on = (0..bytes).fold(0x1234_5678u32, |register, _| {
                (register >> 8) ^ TABLE[(register & 0xff) as usize]
            });
            let known = (6..13).contains(&power);
            assert_eq!(on_by(0x1234_5678, bytes), known.then_some(on), "{bytes}");
        }
        assert_eq!((on_by(1, 0), on_by(1, 300)), (None, None));
    }

    /// The slow twin of [`back`].
    fn back_bytewise(state: u32, bytes: u64) -> u32 {
        (0..bytes).fold(state, |state, _| back_one(state))
    }

    #[test]
    fn table_has_the_known_entries() {
        assert_eq!((TABLE[1], TABLE[128], TABLE[255]), (0x7707_3096, 0xedb8_8320, 0x2d02_ef8d));
    }

    /// Distance, delta, remainder: the worked table of the reference.
    #[test]
    fn solve_agrees_with_the_worked_examples() {
        let rows: [(u64, u32, u32); 7] = [
            (40, 0x9381_b23c, 0x2c71),
            (52, 0x3bc3_425d, 0x9d83),
            (52, 0xc8d8_8987, 0xf87f),
            (64, 0xde26_0a68, 0x8782),
            (48, 0x1997_9d1c, 0xfb77),
            (64, 0xc01b_34fa, 0xd182),
            (148, 0x0a28_8f6d, 0x8288),
        ];
        for (distance, delta, rest) in rows {
            assert_eq!(back(delta, distance), rest);
        }
    }
}
