//! Errors that read the same however they are printed.

/// Makes `Debug` of these errors print what `Display` does: `main() -> Result<(), Box<dyn Error>>` prints `Debug`, and
/// the sentence is what its user needs.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_is_display {
    ($($name:ty),* $(,)?) => { $(
        impl ::core::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self, f)
            }
        }
    )* };
}
