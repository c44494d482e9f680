//! Fuzzes any bytes as an access file: `cargo +nightly fuzz run access_file`.
#![no_main]

#[path = "../laws.rs"]
mod laws;

libfuzzer_sys::fuzz_target!(|input: &[u8]| laws::check_file(input));
