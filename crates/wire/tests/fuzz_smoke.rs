//! The fuzz targets without a fuzzer: mutations of the seed corpus from a fixed random stream.
//!
//! Runs on stable Rust and always does the same. It has no coverage to follow, so it complements
//! `cargo +nightly fuzz run` and does not replace it.

#[path = "../fuzz/laws.rs"]
mod laws;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::path::Path;

const ITERATIONS: usize = 200_000;
const SEED: u64 = 0x5254_4d53;

#[test]
fn commands() {
    run("decode", laws::check_decode);
}

#[test]
fn frames() {
    run("decode_frame", laws::check_decode_frame);
}

#[test]
fn announcements() {
    run("decode_announcement", laws::check_announcement);
}

#[test]
fn data_connections() {
    run("decode_tempo", laws::check_tempo);
}

#[test]
fn datagrams_of_limiters() {
    run("decode_gossip", laws::check_gossip);
}

#[test]
fn handovers() {
    run("decode_handover", laws::check_handover);
}

fn run(target: &str, check: fn(&[u8])) {
    let seeds = corpus(target);
    let mut mutator = Mutator {
        random: Xoshiro256PlusPlus::seed_from_u64(SEED),
        seeds: &seeds,
    };
    for seed in &seeds {
        check(seed);
    }
    for iteration in 0..ITERATIONS {
        let input = mutator.input();
        if std::panic::catch_unwind(|| check(&input)).is_err() {
            panic!(
                "iteration {iteration} broke a law with b\"{}\"",
                input.escape_ascii()
            );
        }
    }
}

/// The seeds in the order of their names.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let entries = std::fs::read_dir(&folder).expect("the corpus is part of the sources");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.sort();
    assert!(files.len() >= 8, "{} has too few seeds", folder.display());
    files
        .iter()
        .map(|file| std::fs::read(file).expect("readable"))
        .collect()
}

struct Mutator<'a> {
    random: Xoshiro256PlusPlus,
    seeds: &'a [Vec<u8>],
}

/// Bytes that mean something to a parser of lines, numbers and sizes.
const BYTES: &[u8] = b"\0\x01\x04\x05\x10\x7f\x80\xff \n\r09a#/\"\\";

/// Values of a size field on both sides of some bound.
const SIZES: &[u32] = &[
    0,
    1,
    3,
    4,
    5,
    8,
    9,
    12,
    24,
    25,
    30,
    64,
    65,
    96,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
];

impl Mutator<'_> {
    fn below(&mut self, bound: usize) -> usize {
        (self.random.next_u64() % bound.max(1) as u64) as usize
    }

    fn input(&mut self) -> Vec<u8> {
        let seed = self.below(self.seeds.len());
        let mut bytes = self.seeds[seed].clone();
        for _ in 0..=self.below(4) {
            self.mutate(&mut bytes);
        }
        bytes
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len());
        let to = bytes.len().min(at + self.below(12));
        match self.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            1 if at < bytes.len() => bytes[at] = BYTES[self.below(BYTES.len())],
            2 => bytes.insert(at, BYTES[self.below(BYTES.len())]),
            3 => drop(bytes.drain(at..to)),
            4 => bytes.extend_from_within(at..to),
            5 => bytes.truncate(at),
            6 if at + 4 <= bytes.len() => {
                let size = SIZES[self.below(SIZES.len())];
                bytes[at..at + 4].copy_from_slice(&size.to_be_bytes());
            }
            _ => {
                let other = self.below(self.seeds.len());
                let seed = &self.seeds[other];
                bytes.extend_from_slice(seed.get(1..).unwrap_or_default());
            }
        }
    }
}
