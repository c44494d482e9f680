//! Fuzzes the datagrams of limiters: `cargo +nightly fuzz run decode_gossip`.
#![no_main]

#[path = "../laws.rs"]
mod laws;

libfuzzer_sys::fuzz_target!(|data: &[u8]| laws::check_gossip(data));
