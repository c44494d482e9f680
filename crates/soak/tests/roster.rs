//! Brokers that find each other without a controller.

use soak::roster;

#[test]
fn brokers_that_find_each_other_keep_the_laws() {
    for seed in 0..20 {
        let outcome = roster::run(seed, false);
        assert_eq!(
            outcome.violation, None,
            "replay it with target/debug/soak replay {seed} roster"
        );
        assert!(outcome.messages > 100, "seed {seed}: {outcome:?}");
    }
}

#[test]
fn a_seed_says_everything_that_happens() {
    let (first, second) = (roster::run(3, false), roster::run(3, false));
    assert_eq!((first.hash, first.events), (second.hash, second.events));
}
