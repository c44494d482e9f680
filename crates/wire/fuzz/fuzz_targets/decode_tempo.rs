//! Fuzzes Tempo's data connections and datagrams: `cargo +nightly fuzz run decode_tempo`.
#![no_main]

#[path = "../laws.rs"]
mod laws;

libfuzzer_sys::fuzz_target!(|data: &[u8]| laws::check_tempo(data));
