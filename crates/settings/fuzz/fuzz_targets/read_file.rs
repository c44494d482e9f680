//! Fuzzes any bytes as a file of settings: `cargo +nightly fuzz run read_file`.
#![no_main]

#[path = "../laws.rs"]
mod laws;

libfuzzer_sys::fuzz_target!(|input: &[u8]| laws::check_file(input));
