//! Fuzzes any bytes as an auth server's answer: `cargo +nightly fuzz run auth_answer`.
#![no_main]

#[path = "../laws.rs"]
mod laws;

libfuzzer_sys::fuzz_target!(|input: &[u8]| laws::check_answer(input));
