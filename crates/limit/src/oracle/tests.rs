//! The oracle against figures worked out by hand, and its one-pass window against all windows.

use proptest::prelude::*;

use super::*;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn ms(millis: &[u64]) -> Vec<Instant> {
    millis.iter().map(|&milli| at(milli * 1_000_000)).collect()
}

fn rate(tokens_per_second: f64) -> Rate {
    Rate::new(tokens_per_second).expect("in range")
}

fn burst(tokens: f64) -> Burst {
    Burst::new(tokens).expect("in range")
}

/// (what, arrivals ms, costs, r, b, tokens at 0, departures ms)
type Row = (
    &'static str,
    &'static [u64],
    &'static [u64],
    f64,
    f64,
    f64,
    &'static [u64],
);

fn by_hand() -> [Row; 8] {
    [
        (
            "b = 1 spaces by 1/r",
            &[0, 0, 0],
            &[1, 1, 1],
            1000.0,
            1.0,
            1.0,
            &[0, 1, 2],
        ),
        (
            "a burst of b passes",
            &[5, 5, 5, 5],
            &[1; 4],
            1000.0,
            3.0,
            3.0,
            &[5, 5, 5, 6],
        ),
        (
            "an empty start waits",
            &[0, 0],
            &[1, 1],
            1000.0,
            2.0,
            0.0,
            &[1, 2],
        ),
        ("a debt is paid first", &[0], &[1], 1000.0, 2.0, -2.0, &[3]),
        (
            "half a token per second",
            &[0, 0],
            &[1, 1],
            0.5,
            1.0,
            1.0,
            &[0, 2000],
        ),
        (
            "larger than b leaves late",
            &[0, 0],
            &[5, 1],
            1000.0,
            2.0,
            2.0,
            &[3, 4],
        ),
        (
            "an early stamp keeps its place",
            &[9, 4, 9],
            &[1; 3],
            1000.0,
            2.0,
            2.0,
            &[9, 9, 10],
        ),
        (
            "rest fills no further than b",
            &[0, 0, 50, 50, 50],
            &[1; 5],
            1000.0,
            2.0,
            2.0,
            &[0, 0, 50, 50, 51],
        ),
    ]
}

#[test]
fn departures_by_hand() {
    for (what, arrivals, costs, r, b, tokens, expected) in by_hand() {
        let start = Held { tokens, at: at(0) };
        let departures = gd1_departures(&ms(arrivals), costs, rate(r), burst(b), start);
        assert_eq!(departures, ms(expected), "{what}");
    }
}

#[test]
fn departures_are_rounded_up() {
    let start = Held {
        tokens: 1.0,
        at: at(0),
    };
    let departures = gd1_departures(&[at(0); 4], &[1; 4], rate(3.0), burst(1.0), start);
    assert_eq!(
        departures,
        [0, 333_333_334, 666_666_667, 1_000_000_000].map(at)
    );
}

#[test]
fn windows_by_hand() {
    // 1000/s, b = 2.
    let excess = |millis: &[u64]| window_excess(&ms(millis), rate(1000.0), burst(2.0));
    assert_eq!(excess(&[]), -2.0);
    assert_eq!(excess(&[7]), -1.0);
    assert_eq!(excess(&[7, 7]), 0.0);
    assert_eq!(excess(&[7, 7, 8, 9]), 0.0);
    assert_eq!(excess(&[7, 7, 7]), 1.0);
    assert_eq!(excess(&[0, 100, 100, 100, 101, 101, 900]), 2.0);
    let tokens = window_excess_in_tokens(&ms(&[0, 1]), &[2, 3], rate(1000.0), burst(2.0));
    assert_eq!(tokens, 2.0);
}

#[test]
fn delays_accrue_while_messages_wait() {
    let (arrivals, departures) = (ms(&[0, 0, 10]), ms(&[0, 4, 11]));
    let until = |milli: u64| sum_of_delays_until(&arrivals, &departures, ms(&[milli])[0]);
    assert_eq!(until(0), Duration::ZERO);
    assert_eq!(until(3), Duration::from_millis(3));
    assert_eq!(until(10), Duration::from_millis(4));
    assert_eq!(
        sum_of_delays(&arrivals, &departures),
        Duration::from_millis(5)
    );
}

proptest! {
    #[test]
    fn one_pass_finds_the_worst_of_all_windows(
        gaps in prop::collection::vec((0u64..5_000_000, 1u64..5), 1..40),
        r in 1u64..5000,
        b in 1u64..10,
    ) {
        let (mut departures, mut costs, mut now) = (Vec::new(), Vec::new(), 0);
        for (gap, cost) in gaps {
            now += gap;
            departures.push(at(now));
            costs.push(cost);
        }
        let mut worst = f64::MIN;
        for from in 0..departures.len() {
            for to in from..departures.len() {
                let passed = (departures[to] - departures[from]).as_secs_f64();
                let tokens: u64 = costs[from..=to].iter().sum();
                worst = worst.max(tokens as f64 - (r as f64 * passed + b as f64));
            }
        }
        let found = window_excess_in_tokens(&departures, &costs, rate(r as f64), burst(b as f64));
        prop_assert!((found - worst).abs() < 1e-9, "{found} instead of {worst}");
    }
}
