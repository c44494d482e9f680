//! Fuzzes what comes in a compressed connection: `cargo +nightly fuzz run open_compressed`.
#![no_main]

#[path = "../laws.rs"]
mod laws;

libfuzzer_sys::fuzz_target!(|input: &[u8]| laws::check_open(input));
