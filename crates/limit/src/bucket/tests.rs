//! The bucket at its edges: figures worked out by hand.

use super::*;

const SECOND: u64 = 1_000_000_000;
const YEAR: u64 = 31_536_000 * SECOND;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn ms(millis: u64) -> Instant {
    at(millis * 1_000_000)
}

fn rate(tokens_per_second: f64) -> Rate {
    Rate::new(tokens_per_second).expect("in range")
}

fn burst(tokens: f64) -> Burst {
    Burst::new(tokens).expect("in range")
}

fn full(r: f64, b: f64) -> TokenBucket {
    TokenBucket::full(rate(r), burst(b), Instant::ZERO)
}

fn empty(r: f64, b: f64) -> TokenBucket {
    TokenBucket::empty(rate(r), burst(b), Instant::ZERO)
}

fn assert_tokens(bucket: &TokenBucket, now: Instant, expected: f64) {
    let held = bucket.tokens_at(now);
    assert!(
        (held - expected).abs() <= 1e-9 * expected.abs().max(1.0),
        "{held} tokens, not {expected}"
    );
}

/// (what, bucket, arrivals ns, cost, departures ns)
type Delay = (
    &'static str,
    TokenBucket,
    &'static [u64],
    f64,
    &'static [u64],
);

fn delays() -> [Delay; 10] {
    [
        (
            "b = 1 spaces by 1/r",
            full(1000.0, 1.0),
            &[0, 0, 0],
            1.0,
            &[0, 1_000_000, 2_000_000],
        ),
        (
            "a burst of b passes",
            full(1000.0, 3.0),
            &[5, 5, 5, 5],
            1.0,
            &[5, 5, 5, 1_000_005],
        ),
        (
            "an empty bucket waits",
            empty(1000.0, 3.0),
            &[0, 0],
            1.0,
            &[1_000_000, 2_000_000],
        ),
        (
            "half a token per second",
            full(0.5, 1.0),
            &[0, 0],
            1.0,
            &[0, 2 * SECOND],
        ),
        (
            "1/r and departures round up",
            full(3.0, 1.0),
            &[0; 4],
            1.0,
            &[0, 333_333_334, 666_666_667, SECOND + 1],
        ),
        (
            "bytes",
            full(1e6, 1500.0),
            &[0, 0, 0],
            1000.0,
            &[0, 500_000, 1_500_000],
        ),
        (
            "larger than b leaves late",
            full(1e6, 1500.0),
            &[0, 0],
            4500.0,
            &[3_000_000, 7_500_000],
        ),
        (
            "half tokens",
            full(1.0, 2.5),
            &[0; 3],
            1.0,
            &[0, 0, SECOND / 2],
        ),
        ("no cost, no wait", empty(1.0, 1.0), &[0, 9], 0.0, &[0, 9]),
        (
            "a fraction of a nanosecond",
            full(1e12, 1.0),
            &[7; 4],
            500.0,
            &[8, 8, 9, 9],
        ),
    ]
}

#[test]
fn delay_by_hand() {
    for (what, mut bucket, arrivals, cost, expected) in delays() {
        for (&arrival, &expected) in arrivals.iter().zip(expected) {
            let peeked = bucket.departure(at(arrival), cost);
            assert_eq!(bucket.take(at(arrival), cost), peeked, "{what}");
            assert_eq!(peeked, at(expected), "{what}");
        }
    }
}

#[test]
fn tokens_come_back_at_the_rate_and_stop_at_the_burst() {
    let mut bucket = full(1000.0, 4.0);
    assert_tokens(&bucket, ms(0), 4.0);
    for _ in 0..6 {
        bucket.take(ms(0), 1.0);
    }
    for (milli, tokens) in [
        (0, -2.0),
        (2, 0.0),
        (3, 1.0),
        (6, 4.0),
        (7, 4.0),
        (1_000_000, 4.0),
    ] {
        assert_tokens(&bucket, ms(milli), tokens);
    }
}

#[test]
fn a_restart_admits_nothing_that_was_not_earned_since() {
    let restarted = ms(500);
    let mut bucket = TokenBucket::empty(rate(1000.0), burst(100.0), restarted);
    assert_tokens(&bucket, restarted, 0.0);
    assert!(!bucket.try_take(restarted, 1.0));
    assert_eq!(bucket.departure(ms(400), 1.0), ms(501));
    let admitted =
        (0..1000).filter(|&milli| bucket.try_take(restarted + Duration::from_millis(milli), 1.0));
    assert_eq!(admitted.count(), 999);
}

#[test]
fn drop_takes_nothing_for_what_it_refuses() {
    let mut bucket = full(1000.0, 2.0);
    assert!(bucket.try_take(ms(0), 1.0) && bucket.try_take(ms(0), 1.0));
    let before = bucket;
    for _ in 0..1000 {
        assert!(!bucket.try_take(ms(0), 1.0));
    }
    assert_eq!(bucket, before);
    assert!(!bucket.try_take(at(999_999), 1.0));
    assert!(bucket.try_take(ms(1), 1.0));
    assert!(
        !bucket.try_take(ms(100), 2.5),
        "more than the burst never conforms"
    );
    assert!(bucket.try_take(ms(100), 2.0));
}

#[test]
fn stamps_out_of_order_keep_their_place() {
    let mut bucket = full(1000.0, 2.0);
    assert_eq!(bucket.take(ms(10), 1.0), ms(10));
    assert_eq!(bucket.take(ms(3), 1.0), ms(10));
    assert_eq!(bucket.take(ms(4), 1.0), ms(11));
    assert_eq!(bucket.take(ms(10), 1.0), ms(12));
    assert_tokens(&bucket, ms(12), 0.0);

    // Two connections, read in the other order than stamped: the second is not dropped for it.
    let mut bucket = full(1000.0, 2.0);
    assert!(bucket.try_take(at(1_000_000), 1.0));
    assert!(bucket.try_take(at(999_990), 1.0));
    assert!(!bucket.try_take(at(999_995), 1.0));
}

#[test]
fn a_clock_that_goes_back_gives_nothing() {
    let mut bucket = full(1000.0, 5.0);
    for _ in 0..5 {
        assert!(bucket.try_take(ms(1000), 1.0));
    }
    for milli in [999, 500, 0, 1000] {
        assert!(!bucket.try_take(ms(milli), 1.0));
        assert!(bucket.tokens_at(ms(milli)) <= 0.0);
    }
    bucket.resize(ms(0), rate(1000.0), burst(50.0));
    assert_tokens(&bucket, ms(1000), 0.0);
    bucket.resize(ms(10), rate(1e6), burst(50.0));
    assert!(!bucket.try_take(ms(1000), 1.0));
    assert!(bucket.try_take(at(1_000_001_000), 1.0));
}

#[test]
fn resizes_read_out_of_order_give_nothing() {
    let mut bucket = empty(1000.0, 50.0);
    bucket.resize(ms(20), rate(1.0), burst(50.0));
    bucket.resize(ms(10), rate(1e6), burst(50.0));
    assert_tokens(&bucket, ms(20), 20.0);
}

#[test]
fn drop_after_delay_knows_what_has_passed() {
    let mut bucket = full(1000.0, 2.0);
    assert_eq!(bucket.take(ms(10), 1.0), ms(10));
    assert!(bucket.try_take(ms(9), 1.0));
    assert!(!bucket.try_take(ms(10), 1.0));
}

#[test]
fn batches_are_all_or_nothing() {
    let mut bucket = full(1000.0, 50.0);
    assert_eq!(bucket.try_take_batch(ms(0), 50.0), Ok(()));
    let refused = bucket.try_take_batch(ms(0), 20.0);
    assert_eq!(
        refused,
        Err(Refused::Retry {
            after: Duration::from_millis(20)
        })
    );
    assert_eq!(
        bucket.try_take_batch(ms(19), 20.0),
        Err(Refused::Retry {
            after: Duration::from_millis(1)
        })
    );
    assert_eq!(bucket.try_take_batch(ms(20), 20.0), Ok(()));

    // Larger than the burst: when full, on a debt of at most the burst.
    assert_eq!(
        bucket.try_take_batch(ms(69), 80.0),
        Err(Refused::Retry {
            after: Duration::from_millis(1)
        })
    );
    assert_eq!(bucket.try_take_batch(ms(70), 80.0), Ok(()));
    assert_tokens(&bucket, ms(70), -30.0);
    assert!(!bucket.try_take(ms(100), 1.0));
    assert!(bucket.try_take(ms(101), 1.0));
    assert_eq!(bucket.try_take_batch(ms(1000), 100.0), Ok(()));
    assert_tokens(&bucket, ms(1000), -50.0);
}

#[test]
fn a_batch_that_never_fits_is_told_so() {
    let mut bucket = full(1000.0, 50.0);
    let before = bucket;
    let refused = bucket
        .try_take_batch(ms(0), 101.0)
        .expect_err("more than twice the burst");
    assert_eq!(
        refused,
        Refused::NeverFits {
            total: 101.0,
            burst: burst(50.0)
        }
    );
    assert_eq!(
        refused.to_string(),
        "a batch of 101 tokens never fits a limit with burst 50: it admits at most 100 tokens at once; \
         send smaller batches or raise the burst"
    );
    assert_eq!(bucket, before);
}

#[test]
fn a_share_smaller_than_a_batch_still_admits_it() {
    // 1/4 of a limit (100/s, b = 16) and batches of 8: the first full moment admits one.
    let mut share = empty(25.0, 4.0);
    assert_eq!(
        share.try_take_batch(ms(100), 8.0),
        Err(Refused::Retry {
            after: Duration::from_millis(60)
        })
    );
    assert_eq!(share.try_take_batch(ms(160), 8.0), Ok(()));
    assert_eq!(
        share.try_take_batch(ms(160), 8.0),
        Err(Refused::Retry {
            after: Duration::from_millis(320)
        })
    );
}

#[test]
fn resize_keeps_tokens_and_debt() {
    // (what, tokens taken of a full (1000, 50) at 0, new r, new b, tokens then)
    let table = [
        ("full, burst grows", 0.0, 1000.0, 80.0, 50.0),
        ("full, burst shrinks", 0.0, 1000.0, 20.0, 20.0),
        ("full, rate changes", 0.0, 3.0, 50.0, 50.0),
        ("full, all grows", 0.0, 7000.0, 80.0, 50.0),
        ("half, burst grows", 25.0, 1000.0, 80.0, 25.0),
        ("half, burst shrinks to less", 25.0, 1000.0, 20.0, 20.0),
        ("half, burst shrinks to more", 25.0, 1000.0, 30.0, 25.0),
        ("half, rate falls", 25.0, 0.5, 50.0, 25.0),
        ("empty, burst grows", 50.0, 1000.0, 80.0, 0.0),
        ("empty, burst shrinks", 50.0, 1000.0, 1.0, 0.0),
        ("empty, rate grows", 50.0, 1e12, 50.0, 0.0),
        ("waiting, burst grows", 70.0, 1000.0, 80.0, -20.0),
        ("waiting, burst shrinks", 70.0, 1000.0, 1.0, -20.0),
        ("waiting, rate grows", 70.0, 1e6, 50.0, -20.0),
        ("waiting, all shrinks", 70.0, 0.25, 2.0, -20.0),
    ];
    for (what, taken, r, b, expected) in table {
        let mut bucket = full(1000.0, 50.0);
        bucket.take(ms(0), taken);
        bucket.resize(ms(0), rate(r), burst(b));
        let held = bucket.tokens_at(ms(0));
        assert!((held - expected).abs() < 1e-9, "{what}: {held} tokens");
        assert_eq!(
            (bucket.rate(), bucket.burst()),
            (rate(r), burst(b)),
            "{what}"
        );
        // One token later there is one token more, up to the burst.
        let then = bucket.tokens_at(at((1e9 / r) as u64 + 1));
        assert!(
            then <= b && then >= (expected + 1.0).min(b) - 1e-9,
            "{what}: {then} tokens"
        );
    }
}

#[test]
fn a_full_bucket_stays_full_to_the_last_token() {
    for r in [3.0, 0.7, 1e12, 1e-3] {
        let mut bucket = full(1000.0, 50.0);
        bucket.resize(ms(1), rate(r), burst(50.0));
        assert_eq!(bucket.try_take_batch(ms(1), 50.0), Ok(()), "{r}/s");
    }
}

#[test]
fn resize_of_a_waiting_head_takes_effect_at_once() {
    let mut bucket = empty(1.0, 10.0);
    assert_eq!(bucket.departure(ms(0), 1.0), ms(1000));
    bucket.resize(ms(500), rate(100.0), burst(10.0));
    let hastened = bucket.departure(ms(0), 1.0);
    assert!(
        hastened >= ms(505) && hastened <= ms(505) + Duration::from_nanos(1),
        "{hastened:?}"
    );
    bucket.resize(ms(502), rate(1.0), burst(10.0));
    let slowed = bucket.departure(ms(0), 1.0);
    assert!(
        slowed >= ms(802) && slowed <= ms(802) + Duration::from_nanos(10),
        "{slowed:?}"
    );
}

#[test]
fn booked_departures_stand_and_nobody_overtakes_them() {
    let mut bucket = empty(1.0, 10.0);
    assert_eq!(bucket.take(ms(0), 4.0), ms(4000));
    bucket.resize(ms(1000), rate(1000.0), burst(10.0));
    assert_eq!(bucket.take(ms(1001), 1.0), ms(4000));
    assert!(!bucket.try_take(ms(1500), 1.0));
    assert!(bucket.try_take(ms(4000), 1.0));
}

#[test]
fn resize_to_the_same_limit_changes_nothing_that_can_be_seen() {
    for (r, b) in [(3.0, 7.5), (1e12, 1e12), (1e-3, 1.0), (0.7, 1e6)] {
        let mut bucket = full(r, b);
        bucket.take(ms(3), b * 0.6);
        let before = bucket;
        for milli in [3, 4, 50, 51, 52] {
            bucket.resize(ms(milli), rate(r), burst(b));
        }
        for milli in [60, 1000, 1_000_000] {
            assert_eq!(
                bucket.departure(ms(milli), b),
                before.departure(ms(milli), b),
                "({r}, {b})"
            );
        }
    }
}

#[test]
fn extreme_limits_and_uptimes() {
    // The slowest rate with the largest burst: 10^15 s to fill, and still exact.
    let mut slow = full(1e-3, 1e12);
    assert_eq!(slow.take(at(YEAR), 1e12), at(YEAR));
    let next = slow.take(at(YEAR), 1.0);
    assert!(
        (next - at(YEAR))
            .as_nanos()
            .abs_diff(u128::from(1000 * SECOND))
            <= 1,
        "{next:?}"
    );
    assert_eq!(slow.take(at(YEAR), 1e12), Instant::MAX);
    assert_eq!(slow.departure(at(YEAR), 1.0), Instant::MAX);

    // The fastest: a burst of 10^12 is earned in one second.
    let mut fast = full(1e12, 1e12);
    assert_eq!(fast.take(at(9 * YEAR), 1e12), at(9 * YEAR));
    for (cost, expected) in [
        (1e12, at(9 * YEAR + SECOND)),
        (1000.0, at(9 * YEAR + SECOND + 1)),
    ] {
        let departure = fast.take(at(9 * YEAR), cost);
        assert!(
            departure >= expected && departure <= expected + Duration::from_nanos(1),
            "{departure:?}"
        );
    }

    // Slower than time itself: never, without a wrap; and empty means empty.
    for (r, b) in [(1e-9, 1e12), (1e-18, 1.0), (1e-18, 1e12)] {
        assert_eq!(
            empty(r, b).departure(at(YEAR), 1e3),
            Instant::MAX,
            "({r}, {b})"
        );
        assert!(!empty(r, b).try_take(at(YEAR), 1e3), "({r}, {b})");
        let mut bucket = full(r, b);
        bucket.take(at(YEAR), 1e12);
        bucket.take(at(YEAR), 1e12);
        assert_eq!(bucket.take(at(YEAR), 1e12), Instant::MAX);
        bucket.resize(at(2 * YEAR), rate(1e12), burst(1.0));
        assert!(!bucket.try_take(at(2 * YEAR), 1.0));
    }
    // At the end of time nothing wraps to its beginning.
    let mut last = full(1.0, 1.0);
    assert_eq!(last.take(Instant::MAX, 1.0), Instant::MAX);
    assert_eq!(last.take(Instant::MAX, 1.0), Instant::MAX);
}

#[test]
fn costs_that_are_no_numbers_cost_nothing() {
    let mut bucket = full(1.0, 2.0);
    for cost in [f64::NAN, -1.0, f64::NEG_INFINITY] {
        assert_eq!(bucket.take(ms(1), cost), ms(1));
        assert!(bucket.try_take(ms(1), cost));
    }
    assert_tokens(&bucket, ms(1), 2.0);
    assert!(!bucket.try_take(ms(1), f64::INFINITY));
    assert!(bucket.try_take_batch(ms(1), f64::INFINITY).is_err());
}

#[test]
fn unfinished_work_is_what_is_short_of_full() {
    let mut bucket = full(1000.0, 4.0);
    assert_eq!(bucket.unfinished_at(ms(7)), 0.0);
    for _ in 0..6 {
        bucket.take(ms(10), 1.0);
    }
    for (millis, unfinished) in [(10, 6.0), (11, 5.0), (15, 1.0), (16, 0.0), (99, 0.0)] {
        let got = bucket.unfinished_at(ms(millis));
        assert!((got - unfinished).abs() < 1e-9, "{got} at {millis} ms");
        assert_tokens(&bucket, ms(millis), 4.0 - unfinished);
    }
}

#[test]
fn a_pause_empties_and_forgives_no_debt() {
    // (tokens taken at 10 ms, tokens held at the end of a pause from 12 ms to 500 ms)
    for (taken, held) in [(0u32, 0.0), (3, 0.0), (4, 0.0), (9, -3.0)] {
        let mut bucket = full(1000.0, 4.0);
        for _ in 0..taken {
            bucket.take(ms(10), 1.0);
        }
        bucket.pause(ms(12), ms(500));
        assert_tokens(&bucket, ms(500), held);
        assert_tokens(&bucket, ms(501), held + 1.0);
        assert!(!bucket.try_take(ms(300), 1.0), "the pause is over");
    }
}
