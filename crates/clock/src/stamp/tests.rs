//! A wall clock that is stepped, slewed and given a leap second, against the rule of the map.

use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const HOUR: i64 = 3_600 * SECOND as i64;
/// What the wall clock reads at the monotonic clock's zero.
const EPOCH: u64 = 1_700_000_000 * SECOND;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// The wall's reading at `mono` under an offset that was moved by `moved_ns`.
fn wall(mono: u64, moved_ns: i64) -> WallTime {
    WallTime::from_nanos(
        (EPOCH + mono)
            .checked_add_signed(moved_ns)
            .expect("within range"),
    )
}

fn steady_map() -> StampMap {
    let mut map = StampMap::new(at(0), wall(0, 0));
    for tenth in 1..=10 {
        let mono = tenth * 100 * MS;
        assert_eq!(map.observe(at(mono), wall(mono, 0)), Observed::Steady);
    }
    map
}

#[test]
fn a_steady_clock_maps_exactly() {
    let map = steady_map();
    let now = at(SECOND + 50 * MS);
    for mono in [MS, 999 * MS, SECOND, SECOND + 49 * MS] {
        assert_eq!(map.map(wall(mono, 0), Instant::ZERO, now), at(mono));
        assert_eq!(map.to_wall(at(mono)), wall(mono, 0));
    }
}

#[test]
fn a_stamp_lies_between_floor_and_now() {
    let map = steady_map();
    let (floor, now) = (at(900 * MS), at(SECOND));
    assert_eq!(map.map(wall(800 * MS, 0), floor, now), floor);
    assert_eq!(map.map(wall(SECOND + 1, 0), floor, now), now);
    assert_eq!(map.map(WallTime::from_nanos(u64::MAX), floor, now), now);
    assert_eq!(map.map(wall(950 * MS, 0), at(2 * SECOND), now), now);
}

#[test]
fn a_stamp_says_whether_it_may_be_later_than_a_reading() {
    let mut map = steady_map();
    let now = at(SECOND + 50 * MS);
    for (mono, may_be_after) in [
        (SECOND, false),
        (SECOND + 50 * MS, false),
        (SECOND + 50 * MS + 1, true),
        (2 * SECOND, true),
    ] {
        let stamp = wall(mono, 0);
        assert_eq!(map.may_be_after(stamp, now), may_be_after, "{mono}");
    }
    let moved_ns = 5 * MS as i64;
    map.observe(now, wall(SECOND + 50 * MS, moved_ns));
    let stamp = wall(SECOND, moved_ns);
    assert!(map.may_be_after(stamp, now), "untrusted after a step");
    map.observe(now, wall(SECOND + 50 * MS, moved_ns));
    assert!(!map.may_be_after(stamp, now), "steady again");
}

#[test]
fn a_stamp_from_before_the_first_observation_arrived_now() {
    let map = StampMap::new(at(SECOND), wall(SECOND, 0));
    assert_eq!(
        map.map(wall(SECOND - 1, 0), Instant::ZERO, at(2 * SECOND)),
        at(2 * SECOND)
    );
    // A socket that delivered no stamp at all.
    assert_eq!(
        map.map(WallTime::from_nanos(0), Instant::ZERO, at(2 * SECOND)),
        at(2 * SECOND)
    );
    assert_eq!(
        map.map(wall(SECOND, 0), Instant::ZERO, at(2 * SECOND)),
        at(SECOND)
    );
}

#[test]
fn the_threshold_of_a_step_is_one_millisecond() {
    let ms = MS as i64;
    let table = [
        (0, Observed::Steady),
        (ms, Observed::Steady),
        (-ms, Observed::Steady),
        (ms + 1, Observed::Stepped),
        (-ms - 1, Observed::Stepped),
        (HOUR, Observed::Stepped),
        (-HOUR, Observed::Stepped),
    ];
    for (moved_ns, expected) in table {
        let mut map = steady_map();
        let mono = SECOND + 100 * MS;
        assert_eq!(
            map.observe(at(mono), wall(mono, moved_ns)),
            expected,
            "moved by {moved_ns} ns"
        );
    }
}

/// The whole life of a step of `moved_ns` at 1.05 s that is observed at 1.1 s and confirmed at 1.2 s.
fn assert_step_is_safe(moved_ns: i64) {
    let mut map = steady_map();
    let floor = at(SECOND);
    let found = SECOND + 100 * MS;
    assert_eq!(
        map.observe(at(found), wall(found, moved_ns)),
        Observed::Stepped
    );

    // One observation interval in which no stamp is trusted, old or new.
    for now in [found, found + 99 * MS] {
        for stamp in [
            wall(SECOND + 40 * MS, 0),
            wall(found - 10 * MS, moved_ns),
            wall(now, moved_ns),
        ] {
            assert_eq!(
                map.map(stamp, floor, at(now)),
                at(now),
                "moved by {moved_ns} ns"
            );
        }
    }

    let confirmed = found + 100 * MS;
    assert_eq!(
        map.observe(at(confirmed), wall(confirmed, moved_ns)),
        Observed::Steady
    );
    let now = at(confirmed + 50 * MS);
    // Stamps under the new offset are exact again, from the step's discovery on.
    for mono in [found, found + MS, confirmed, confirmed + 49 * MS] {
        assert_eq!(
            map.map(wall(mono, moved_ns), floor, now),
            at(mono),
            "moved by {moved_ns} ns"
        );
    }
    // Stamps from before the step that were read late are never earlier than the truth.
    for mono in [SECOND, SECOND + 20 * MS, SECOND + 50 * MS] {
        let mapped = map.map(wall(mono, 0), floor, now);
        assert!(
            mapped >= at(mono) && mapped <= now,
            "moved by {moved_ns} ns: {mapped:?}"
        );
    }
    // Between the step and its discovery the offset is in doubt.
    assert_eq!(map.map(wall(found - 1, moved_ns), floor, now), now);
}

#[test]
fn a_step_is_safe_in_both_directions() {
    let ms = MS as i64;
    for moved_ns in [
        2 * ms,
        20 * ms,
        250 * ms,
        HOUR,
        -2 * ms,
        -20 * ms,
        -250 * ms,
        -HOUR,
    ] {
        assert_step_is_safe(moved_ns);
    }
}

#[test]
fn a_leap_second_is_a_step_back() {
    assert_step_is_safe(-(SECOND as i64));
}

#[test]
fn steps_that_follow_each_other_keep_stamps_out_until_the_clock_rests() {
    let mut map = steady_map();
    let mut moved_ns = 0;
    for tenth in 11..=20 {
        moved_ns += 5 * MS as i64;
        let mono = tenth * 100 * MS;
        assert_eq!(
            map.observe(at(mono), wall(mono, moved_ns)),
            Observed::Stepped
        );
        assert_eq!(
            map.map(wall(mono, moved_ns), Instant::ZERO, at(mono + MS)),
            at(mono + MS)
        );
    }
    assert_eq!(
        map.observe(at(2_100 * MS), wall(2_100 * MS, moved_ns)),
        Observed::Steady
    );
    assert_eq!(
        map.map(wall(2_050 * MS, moved_ns), Instant::ZERO, at(2_101 * MS)),
        at(2_050 * MS)
    );
}

#[test]
fn slewing_at_500_ppm_is_followed_and_never_a_step() {
    for direction in [1i64, -1] {
        let mut map = StampMap::new(at(0), wall(0, 0));
        let slewed = |mono: u64| direction * (mono / 2_000) as i64;
        for second in 1..=600u64 {
            let mono = second * SECOND;
            assert_eq!(
                map.observe(at(mono), wall(mono, slewed(mono))),
                Observed::Steady
            );
            // A stamp read half an interval later is off by 500 ppm of that half, and no more.
            let taken = mono + 500 * MS;
            let mapped = map.map(wall(taken, slewed(taken)), at(mono), at(mono + 600 * MS));
            assert!(mapped.as_nanos().abs_diff(taken) <= 250_000, "{mapped:?}");
        }
        // Ten minutes at 500 ppm: the wall is 300 ms away, and the map went with it.
        let (mono, moved_ns) = (600 * SECOND, direction * 300 * MS as i64);
        assert_eq!(
            map.map(wall(mono, moved_ns), Instant::ZERO, at(mono + 1)),
            at(mono)
        );
    }
}

#[test]
fn extreme_readings_do_not_overflow() {
    let (low, high) = (WallTime::from_nanos(0), WallTime::from_nanos(u64::MAX));
    for (mono, reading) in [
        (Instant::ZERO, high),
        (Instant::MAX, low),
        (Instant::MAX, high),
    ] {
        let mut map = StampMap::new(mono, reading);
        for stamp in [low, high] {
            map.map(stamp, Instant::ZERO, Instant::MAX);
        }
        assert_eq!(map.to_wall(mono), reading);
        map.observe(Instant::ZERO, low);
        map.observe(Instant::MAX, high);
    }
}

proptest! {
    #[test]
    fn a_mapped_stamp_is_never_out_of_bounds(
        readings in prop::collection::vec((any::<u64>(), any::<u64>()), 1..8),
        stamp: u64,
        bounds: (u64, u64),
    ) {
        let mut map = StampMap::new(at(readings[0].0), WallTime::from_nanos(readings[0].1));
        for (mono, reading) in &readings[1..] {
            map.observe(at(*mono), WallTime::from_nanos(*reading));
        }
        let (floor, now) = (at(bounds.0.min(bounds.1)), at(bounds.0.max(bounds.1)));
        let mapped = map.map(WallTime::from_nanos(stamp), floor, now);
        prop_assert!(floor <= mapped && mapped <= now);
    }

    /// Arrivals stay in order on a connection whatever the wall clock does between them, and once a
    /// step has been observed none is put before the truth.
    #[test]
    fn arrivals_keep_their_order_under_any_steps(
        turns in prop::collection::vec((1u64..200, -2i64..3, 0u64..100), 1..60),
    ) {
        let mut map = StampMap::new(at(0), wall(0, 0));
        let (mut mono, mut moved_ns, mut floor) = (0u64, 0i64, Instant::ZERO);
        for (passed_ms, steps, late_ms) in turns {
            let taken = mono + passed_ms * MS;
            let stamp = wall(taken, moved_ns);
            moved_ns += steps * 700 * MS as i64;
            mono = taken + late_ms * MS;
            map.observe(at(mono), wall(mono, moved_ns));
            let mapped = map.map(stamp, floor, at(mono));
            prop_assert!(floor <= mapped && mapped <= at(mono));
            prop_assert!(mapped >= at(taken), "{mapped:?} before {taken} ns");
            floor = mapped;
        }
    }
}
