//! The fuzz targets without a fuzzer: inputs from a fixed random stream, on stable Rust.

#[path = "../fuzz/laws.rs"]
mod laws;

use clock::below;

const ITERATIONS: usize = 30_000;

#[test]
fn files() {
    run("read", 200, laws::check_read);
}

#[test]
fn damaged_files() {
    run("read_damaged", 30, laws::check_damaged);
}

#[test]
fn steps_of_logs() {
    run("steps", 120, laws::check_steps);
}

#[test]
fn files_of_nsqd() {
    run("diskqueue", 200, laws::check_diskqueue);
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
