//! The fuzz target without a fuzzer: inputs from a fixed random stream, on stable Rust.

#[path = "../fuzz/laws.rs"]
mod laws;

use clock::below;

const ITERATIONS: usize = 10_000;

/// Chunks and blocks that are nearly right, for what bytes by chance never are.
const PIECES: &[&[u8]] = &[
    b"\xff\x06\x00\x00sNaPpY",
    b"\x00\x00\x00\x00",
    b"\x01\x05\x00\x00\0\0\0\0x",
    b"\x00\xff\xff\x00",
    b"\xfe\x03\x00\x00abc",
    b"\x80\xff\xff\xff",
    b"\0\0\xff\xff",
    b"\x03\0",
    b"\xec\xc1\x01\x01",
    b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

#[test]
fn compressed_connections() {
    let mut random = clock::stream(1, "open_compressed");
    for iteration in 0..ITERATIONS {
        let mut input: Vec<u8> = (0..2).map(|_| below(&mut random, 256) as u8).collect();
        for _ in 0..below(&mut random, 12) {
            match below(&mut random, 3) {
                0 => input
                    .extend_from_slice(PIECES[below(&mut random, PIECES.len() as u32) as usize]),
                1 => input.push(below(&mut random, 256) as u8),
                _ => {
                    let count = below(&mut random, 3_000) as usize;
                    let byte = below(&mut random, 256) as u8;
                    input.resize(input.len() + count, byte);
                }
            }
        }
        if std::panic::catch_unwind(|| laws::check_open(&input)).is_err() {
            panic!(
                "iteration {iteration} broke a law with b\"{}\"",
                input.escape_ascii()
            );
        }
    }
}
