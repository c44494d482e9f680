//! Fuzzes a broker's side of a connection: `cargo +nightly fuzz run decode_frame`.
#![no_main]

#[path = "../laws.rs"]
mod laws;

libfuzzer_sys::fuzz_target!(|data: &[u8]| laws::check_decode_frame(data));
