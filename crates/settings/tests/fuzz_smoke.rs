//! The fuzz targets without a fuzzer: inputs from a fixed random stream, on stable Rust.

#[path = "../fuzz/laws.rs"]
mod laws;

use clock::below;

const ITERATIONS: usize = 20_000;

#[test]
fn files_of_any_bytes() {
    run("read_file", 60, laws::check_file);
}

#[test]
fn files_that_are_nearly_right() {
    run("read_phrases", 24, laws::check_phrases);
}

fn run(target: &str, longest: u32, check: fn(&[u8])) {
    let mut random = clock::stream(1, target);
    for iteration in 0..ITERATIONS {
        let length = below(&mut random, longest);
        let input: Vec<u8> = (0..length).map(|_| below(&mut random, 256) as u8).collect();
        if std::panic::catch_unwind(|| check(&input)).is_err() {
            panic!(
                "iteration {iteration} broke a law with b\"{}\"",
                input.escape_ascii()
            );
        }
    }
}
