//! Fuzzes any bytes as a file of a queue of nsqd: `cargo +nightly fuzz run diskqueue`.
#![no_main]

#[path = "../laws.rs"]
mod laws;

libfuzzer_sys::fuzz_target!(|input: &[u8]| laws::check_diskqueue(input));
