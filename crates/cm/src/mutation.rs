//! Rules that are broken on purpose, for the mutation test of `uroce-sim`; in no release.

#[cfg(feature = "mutation")]
pub(crate) use uroce_memory::mutation::mutated;

/// False: this build has no mutations.
#[cfg(not(feature = "mutation"))]
#[inline(always)]
pub(crate) const fn mutated(_name: &str) -> bool {
    false
}
