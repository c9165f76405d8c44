//! Rules that are broken on purpose: `cargo xtask conform --mutations` sees whether the conformance test notices.
//!
//! Only with the feature `mutation`, which no build with optimisation can have. Without it [`mutated`] is false at
//! compile time, and nothing of a mutation is in the program.

/// True if the environment variable `UROCE_MUTATION` names this mutation.
#[cfg(feature = "mutation")]
pub(crate) fn mutated(name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| std::env::var("UROCE_MUTATION").ok());
    chosen.as_deref() == Some(name)
}

/// False: this build has no mutations.
#[cfg(not(feature = "mutation"))]
#[inline(always)]
pub(crate) const fn mutated(_name: &str) -> bool {
    false
}

#[cfg(all(feature = "mutation", not(debug_assertions)))]
compile_error!(
    "the feature `mutation` breaks rules on purpose: it is for tests, and in no release"
);
