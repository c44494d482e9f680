//! Fuzzes any bytes as a segment file: `cargo +nightly fuzz run read`.
#![no_main]

#[path = "../laws.rs"]
mod laws;

libfuzzer_sys::fuzz_target!(|input: &[u8]| laws::check_read(input));
