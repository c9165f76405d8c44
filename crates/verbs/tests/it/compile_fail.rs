//! Misuse that the compiler refuses.

use std::process::Command;

/// The compiler whose words the expected messages are. Another one may put them differently.
const COMPILER: &str = "rustc 1.95.";

#[test]
fn misuse_does_not_compile() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(rustc).arg("--version").output().expect("there is a compiler");
    if !version.stdout.starts_with(COMPILER.as_bytes()) {
        println!("skipped: the messages are those of {COMPILER}x");
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
