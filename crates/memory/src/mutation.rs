//! Rules that are broken on purpose: `cargo xtask conform --mutations` sees whether the conformance test notices, and
//! the mutation test of `uroce-sim` whether the simulator does.
//!
//! Only with the feature `mutation`, which no build without debug assertions can have. Without it [`mutated`] is false at
//! compile time, and nothing of a mutation is in the program.
#![forbid(unsafe_code)]

#[cfg(feature = "mutation")]
std::thread_local! {
    static CHOSEN_HERE: std::cell::Cell<Option<&'static str>> = const { std::cell::Cell::new(None) };
}

/// Breaks the rule with this name in what this thread does from now on; `None`: the rule that the environment
/// variable `UROCE_MUTATION` names, if it is set.
#[cfg(feature = "mutation")]
pub fn choose(name: Option<&'static str>) {
    CHOSEN_HERE.set(name);
}

/// True if this mutation was chosen for this thread, or by the environment variable `UROCE_MUTATION`.
#[cfg(feature = "mutation")]
pub fn mutated(name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    if let Some(chosen) = CHOSEN_HERE.get() {
        return chosen == name;
    }
    let chosen = CHOSEN.get_or_init(|| std::env::var("UROCE_MUTATION").ok());
    chosen.as_deref() == Some(name)
}

/// False: this build has no mutations.
#[cfg(not(feature = "mutation"))]
#[inline(always)]
pub const fn mutated(_name: &str) -> bool {
    false
}

#[cfg(all(feature = "mutation", not(debug_assertions)))]
compile_error!(
    "the feature `mutation` breaks rules on purpose: it is for tests, and in no release"
);
