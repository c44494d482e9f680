//! Fuzzes a segment file that was damaged: `cargo +nightly fuzz run read_damaged`.
#![no_main]

#[path = "../laws.rs"]
mod laws;

libfuzzer_sys::fuzz_target!(|input: &[u8]| laws::check_damaged(input));
