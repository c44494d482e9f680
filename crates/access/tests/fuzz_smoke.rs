//! The fuzz targets without a fuzzer: seeds with bytes replaced, left out and doubled from a fixed random stream, on stable Rust.

#[path = "../fuzz/laws.rs"]
mod laws;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const ITERATIONS: usize = 30_000;

/// Bytes that mean something.
const SIGNS: &[u8] = b"\"[]{}=:,.*#\\\n 0-(?|+";

#[test]
fn answers() {
    let seed = br#"{"ttl": 60, "identity": "i", "identity_url": null, "authorizations": [{"topic": "^a.*$", "channels": ["c\\d+", "(x|y)?"], "permissions": ["publish", "subscribe"]}]}"#;
    run(seed, laws::check_answer);
}

#[test]
fn files() {
    let seed = format!(
        "metrics = \"read\"\n[[token]]\nname = \"a \\\"b\\\"\"\nhash = \"blake3:{}\"\nroles = [\"publish\", \"read\"]\ntopics = [\"a.*\"]\nchannels = [\"c\"]\n",
        "0f".repeat(32)
    );
    run(seed.as_bytes(), laws::check_file);
}

fn run(seed: &[u8], check: fn(&[u8])) {
    check(seed);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut below = |most: usize| (random.next_u64() % most as u64) as usize;
    for iteration in 0..ITERATIONS {
        let mut input = seed.to_vec();
        for _ in 0..1 + below(4) {
            let at = below(input.len());
            match below(4) {
                0 => input[at] = SIGNS[below(SIGNS.len())],
                1 => input[at] = below(256) as u8,
                2 => drop(input.remove(at)),
                _ => {
                    let end = input.len().min(at + 1 + below(40));
                    let piece = input[at..end].to_vec();
                    input.splice(at..at, piece);
                }
            }
        }
        if std::panic::catch_unwind(|| check(&input)).is_err() {
            panic!(
                "iteration {iteration} broke a law with b\"{}\"",
                input.escape_ascii()
            );
        }
    }
}
