//! Brokers that keep messages on disks that fail.

use soak::run_durable;

#[test]
fn durable_topics_keep_the_laws() {
    for seed in 0..50 {
        let outcome = run_durable(seed, false);
        assert_eq!(
            outcome.violation, None,
            "replay it with target/debug/soak replay {seed} durable"
        );
        assert!(outcome.messages > 100, "seed {seed}: {outcome:?}");
    }
}

#[test]
fn a_seed_says_everything_that_happens() {
    let (first, second) = (run_durable(3, false), run_durable(3, false));
    assert_eq!((first.hash, first.events), (second.hash, second.events));
}
