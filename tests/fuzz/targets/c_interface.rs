#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| uroce_fuzz::run("c_interface", bytes));
