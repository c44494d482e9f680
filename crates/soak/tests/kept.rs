//! Seeds that have found a fault: none finds it again.

use soak::{Outcome, roster, run, run_durable};

#[test]
fn what_was_said_before_a_deletion_was_heard_brings_no_channel_back() {
    all_is_well(&[5493, 20_313], run, "");
}

#[test]
fn nobody_is_sent_to_a_broker_before_it_has_a_channel() {
    all_is_well(&[40_055, 30_147, 30_248, 30_602], run, "");
}

#[test]
fn deletions_are_owed_to_a_broker_and_not_to_its_name() {
    all_is_well(&[20_211], run, "");
}

#[test]
fn a_search_places_nobody_on_a_broker_that_was_lost_meanwhile() {
    all_is_well(&[5279, 31_062, 33_597], run, "");
}

#[test]
fn what_passes_is_near_the_limit() {
    all_is_well(&[30_117], run, "");
}

#[test]
fn a_limit_that_was_refused_is_not_in_force() {
    all_is_well(&[31_462, 31_497, 32_627], run, "");
}

#[test]
fn brokers_that_find_each_other_do_so_whatever_they_were_told() {
    all_is_well(&[6, 7, 29, 30_019, 30_060], roster::run, " roster");
}

#[test]
fn no_log_is_begun_anew_beside_files_that_cannot_be_read() {
    all_is_well(&[104, 107, 163], run_durable, " durable");
}

#[test]
fn what_has_left_a_topic_is_not_adopted_from_a_segment_of_before() {
    all_is_well(&[2113], run_durable, " durable");
}

#[test]
fn a_log_whose_sync_has_failed_at_its_bound_makes_room_again() {
    all_is_well(&[301, 2028], run_durable, " durable");
}

#[test]
fn what_is_done_does_not_come_alive_in_a_log_that_is_written_again() {
    all_is_well(&[5227], run_durable, " durable");
}

fn all_is_well(seeds: &[u64], run: impl Fn(u64, bool) -> Outcome, kind: &str) {
    for &seed in seeds {
        let outcome = run(seed, false);
        assert_eq!(
            outcome.violation, None,
            "replay it with target/debug/soak replay {seed}{kind}"
        );
    }
}
