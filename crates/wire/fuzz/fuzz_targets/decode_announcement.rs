//! Fuzzes the announcement channel's datagrams: `cargo +nightly fuzz run decode_announcement`.
#![no_main]

#[path = "../laws.rs"]
mod laws;

libfuzzer_sys::fuzz_target!(|data: &[u8]| laws::check_announcement(data));
