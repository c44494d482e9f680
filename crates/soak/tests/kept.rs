//! Seeds that have found a fault: none finds it again.

use soak::run;

#[test]
fn what_was_said_before_a_deletion_was_heard_brings_no_channel_back() {
    for seed in [5493, 20_313] {
        let outcome = run(seed, false);
        assert_eq!(
            outcome.violation, None,
            "replay it with target/debug/soak replay {seed}"
        );
    }
}
