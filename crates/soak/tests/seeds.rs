//! A hundred seeds, and that a seed determines everything.

use soak::run;

/// What replays a run.
fn replay(seed: u64) -> String {
    format!("replay it with SEED={seed} cargo test -p soak --test seeds replay -- --nocapture")
}

#[test]
fn a_hundred_seeds_keep_the_laws() {
    for seed in 0..100 {
        let outcome = run(seed, false);
        assert_eq!(outcome.violation, None, "{}", replay(seed));
        assert!(outcome.messages > 100, "seed {seed}: {outcome:?}");
    }
}

#[test]
fn a_seed_says_everything_that_happens() {
    for seed in [3, 1_000_003] {
        let (first, second) = (run(seed, false), run(seed, false));
        assert_eq!((first.hash, first.events), (second.hash, second.events));
    }
}

/// With SEED in the environment: that run, every event printed.
#[test]
fn replay_of_a_seed() {
    let seed = std::env::var("SEED").ok();
    let Some(seed) = seed.and_then(|seed| seed.parse().ok()) else {
        return;
    };
    let outcome = run(seed, true);
    println!("{outcome:#?}");
    assert_eq!(outcome.violation, None);
}
