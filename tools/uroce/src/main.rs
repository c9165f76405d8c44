//! uroce
fn main() {}
