//! Memory that cases work on: of the NIC under test, and of the tester.

/// Memory of the NIC under test that a case works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) number: u32,
    pub(crate) va: u64,
    pub(crate) rkey: u32,
    pub(crate) length: u32,
}

/// The address that the tester's own, made-up memory has for the NIC under test.
pub(crate) const REMOTE_VA: u64 = 0x7000_0000_1000;
/// Its key.
pub(crate) const REMOTE_RKEY: u32 = 0x00de_ad01;
