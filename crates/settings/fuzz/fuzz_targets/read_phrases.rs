//! Fuzzes phrases that are nearly right as a file of settings: `cargo +nightly fuzz run read_phrases`.
#![no_main]

#[path = "../laws.rs"]
mod laws;

libfuzzer_sys::fuzz_target!(|input: &[u8]| laws::check_phrases(input));
