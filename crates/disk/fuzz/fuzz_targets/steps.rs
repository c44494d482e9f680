//! Fuzzes any bytes as what a log says of its messages: `cargo +nightly fuzz run steps`.
#![no_main]

#[path = "../laws.rs"]
mod laws;

libfuzzer_sys::fuzz_target!(|input: &[u8]| laws::check_steps(input));
