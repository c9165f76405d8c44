//! Memory of the program, of which only the middle is ever registered.

use std::sync::OnceLock;

use libc::c_void;

use crate::input::Input;

const PAGE: usize = 4096;
/// A page before and one behind what is registered must keep their bytes.
const BYTES: usize = 4 * PAGE;
const CANARY: u8 = 0xc5;

/// Where the memory is; it stays to the end of the process.
fn start() -> *mut u8 {
    static START: OnceLock<usize> = OnceLock::new();
    let start = START.get_or_init(|| {
        let memory = vec![CANARY; BYTES + PAGE].leak();
        let start = memory.as_mut_ptr();
        start.wrapping_add(start.align_offset(PAGE)).expose_provenance()
    });
    std::ptr::with_exposed_provenance_mut(*start)
}

/// A piece of the middle: where it is, and its length.
pub(super) fn piece(input: &mut Input<'_>) -> (*mut c_void, usize) {
    let from = usize::from(input.u16()) % (2 * PAGE);
    let length = usize::from(input.u16()) % (2 * PAGE - from + 1);
    (start().wrapping_add(PAGE + from).cast(), length)
}

/// An address near the memory, or anything.
pub(super) fn address(input: &mut Input<'_>) -> u64 {
    let word = input.u16();
    if word & 0xf == 0xf {
        return input.u64();
    }
    start().addr() as u64 + u64::from(word) % BYTES as u64
}

pub(super) fn assert_canaries() {
    for at in (0..PAGE).chain(3 * PAGE..BYTES) {
        // SAFETY: within the memory; nothing but a defect writes there.
        let byte = unsafe { start().add(at).read_volatile() };
        assert_eq!(byte, CANARY, "byte {at} was never registered");
    }
}
