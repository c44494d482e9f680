//! Fuzzes the messages that brokers hand over: `cargo +nightly fuzz run decode_handover`.
#![no_main]

#[path = "../laws.rs"]
mod laws;

libfuzzer_sys::fuzz_target!(|data: &[u8]| laws::check_handover(data));
