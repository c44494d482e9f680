//! A limit that is changed while it is in use: nothing is gifted, nobody is stuck.

use std::time::Duration;

use clock::Instant;
use limit::{Burst, Rate, TokenBucket};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// A resize: how long after the one before, and to what (r, b).
type Step = (u64, f64, f64);

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn rate(tokens_per_second: f64) -> Rate {
    Rate::new(tokens_per_second).expect("in range")
}

fn burst(tokens: f64) -> Burst {
    Burst::new(tokens).expect("in range")
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0u64..200 * MS, 1.0..2000.0, 1.0..40.0), 1..40)
}

fn messages(largest: u64) -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap = prop_oneof![2 => Just(0u64), 2 => 0u64..3 * MS, 1 => 0u64..100 * MS];
    prop::collection::vec((gap, 1..=largest), 1..200)
}

/// The limit in force from an instant on.
struct Phase {
    from: Instant,
    rate: f64,
    burst: f64,
}

fn phases(steps: &[Step]) -> Vec<Phase> {
    let mut from = Instant::ZERO;
    let phase = |&(after, rate, burst): &Step| {
        let phase = Phase { from, rate, burst };
        from += Duration::from_nanos(after);
        phase
    };
    steps.iter().map(phase).collect()
}

/// Tokens generated in [s, t], whatever the bucket could hold.
fn generated(phases: &[Phase], s: Instant, t: Instant) -> f64 {
    let ends = phases
        .iter()
        .skip(1)
        .map(|phase| phase.from)
        .chain([Instant::MAX]);
    let tokens = phases.iter().zip(ends).map(|(phase, end)| {
        let in_force = end.min(t) - phase.from.max(s);
        in_force.as_secs_f64() * phase.rate
    });
    tokens.sum()
}

/// A topic's queue before a resized bucket: the head is asked about again after each resize and
/// booked when it leaves, except that a head larger than the burst is booked at once.
fn departures(phases: &[Phase], arrivals: &[(Instant, u64)]) -> Vec<Instant> {
    let mut bucket = TokenBucket::full(rate(phases[0].rate), burst(phases[0].burst), Instant::ZERO);
    let mut resizes = phases[1..].iter().peekable();
    let mut previous = Instant::ZERO;
    let leave = |&(arrival, cost): &(Instant, u64)| {
        let cost = cost as f64;
        loop {
            // Heads become heads when the one before has left; resizes up to then are past.
            let oversize = cost > bucket.burst().get();
            let reached = arrival.max(previous);
            let leaves = bucket.departure(arrival, cost);
            let resized = resizes
                .next_if(|phase| phase.from <= reached || (!oversize && phase.from <= leaves));
            if let Some(phase) = resized {
                bucket.resize(phase.from, rate(phase.rate), burst(phase.burst));
                continue;
            }
            previous = bucket.take(arrival, cost);
            return previous;
        }
    };
    arrivals.iter().map(leave).collect()
}

fn arrivals(messages: &[(u64, u64)]) -> Vec<(Instant, u64)> {
    let mut now = Instant::ZERO;
    let arrival = |&(gap, cost): &(u64, u64)| {
        now += Duration::from_nanos(gap);
        (now, cost)
    };
    messages.iter().map(arrival).collect()
}

fn largest_burst(phases: &[Phase]) -> f64 {
    phases.iter().map(|phase| phase.burst).fold(0.0, f64::max)
}

fn largest_rate(phases: &[Phase]) -> f64 {
    phases.iter().map(|phase| phase.rate).fold(0.0, f64::max)
}

proptest! {
    /// In every window no more leaves than was generated in it plus the largest burst.
    #[test]
    fn tokens_are_conserved(steps in steps(), messages in messages(1)) {
        let phases = phases(&steps);
        let departures = departures(&phases, &arrivals(&messages));
        let allowance = largest_burst(&phases) + largest_rate(&phases) * 1e-9 + 1e-6;
        for from in 0..departures.len() {
            for to in from..departures.len() {
                let left = (to - from + 1) as f64;
                let allowed = generated(&phases, departures[from], departures[to]) + allowance;
                prop_assert!(left <= allowed, "{left} left between {from} and {to}, {allowed} allowed");
            }
        }
    }

    #[test]
    fn tokens_are_conserved_when_the_excess_is_dropped(steps in steps(), messages in messages(1)) {
        let phases = phases(&steps);
        let mut bucket = TokenBucket::full(rate(phases[0].rate), burst(phases[0].burst), Instant::ZERO);
        let mut resizes = phases[1..].iter().peekable();
        let mut admitted = Vec::new();
        for (arrival, cost) in arrivals(&messages) {
            while let Some(phase) = resizes.next_if(|phase| phase.from <= arrival) {
                bucket.resize(phase.from, rate(phase.rate), burst(phase.burst));
            }
            if bucket.try_take(arrival, cost as f64) {
                admitted.push(arrival);
            }
        }
        for from in 0..admitted.len() {
            for to in from..admitted.len() {
                let allowed = generated(&phases, admitted[from], admitted[to]) + largest_burst(&phases);
                prop_assert!((to - from + 1) as f64 <= allowed + 1e-6);
            }
        }
    }

    /// A bucket that was resized lets nothing leave earlier than one that had the largest rate and
    /// the largest burst all the time and began with the same tokens.
    #[test]
    fn resizing_is_no_gift(steps in steps(), messages in messages(60)) {
        let phases = phases(&steps);
        let arrivals = arrivals(&messages);
        let (r, b) = (largest_rate(&phases), largest_burst(&phases));
        let mut generous = TokenBucket::full(rate(r), burst(b), Instant::ZERO);
        generous.take(Instant::ZERO, b - phases[0].burst);
        for (&(arrival, cost), resized) in arrivals.iter().zip(departures(&phases, &arrivals)) {
            let earliest = generous.take(arrival, cost as f64);
            prop_assert!(resized + Duration::from_nanos(1) >= earliest, "{resized:?} before {earliest:?}");
        }
    }

    /// Growing and shrinking back, without traffic between, leaves no more tokens than not touching.
    #[test]
    fn there_and_back_is_no_gift(taken in 0.0..100.0f64, r in 1.0..1e6f64, b in 1.0..50.0f64, others in steps()) {
        let mut touched = TokenBucket::full(rate(r), burst(b), Instant::ZERO);
        touched.take(Instant::ZERO, taken);
        let untouched = touched;
        let now = at(5 * MS);
        for &(_, other_rate, other_burst) in &others {
            touched.resize(now, rate(other_rate), burst(other_burst));
            touched.resize(now, rate(r), burst(b));
        }
        for later in [now, at(6 * MS), at(100 * MS)] {
            let (held, honest) = (touched.tokens_at(later), untouched.tokens_at(later));
            prop_assert!(held <= honest + 1e-12 * honest.abs(), "{held} tokens instead of {honest}");
        }
        // What shrinking did not cut off is still there.
        let kept = others.iter().map(|&(_, _, burst)| burst).fold(untouched.tokens_at(now), f64::min);
        prop_assert!(touched.tokens_at(now) >= kept - 1e-9 * kept.abs().max(1.0));
    }

    /// Resizing every second, as a share is adapted, keeps nobody from leaving: not even a message
    /// larger than the burst.
    #[test]
    fn frequent_resizes_keep_nobody_waiting_for_ever(
        costs in prop::collection::vec(1u64..60, 1..20),
        r in 1.0..10.0f64,
    ) {
        let second = 1000 * MS;
        let steps: Vec<Step> = (0..2000u32).map(|turn| (second, r + f64::from(turn % 2), 1.0 + f64::from(turn % 3))).collect();
        let arrivals: Vec<_> = costs.iter().map(|&cost| (Instant::ZERO, cost)).collect();
        let last = departures(&phases(&steps), &arrivals)[costs.len() - 1];
        // A cut of at most b = 3 tokens per resize is only paid by heads that were not booked.
        let total: u64 = costs.iter().sum();
        let tokens_at_worst = total as f64 + 3.0 * costs.len() as f64;
        let bound = Duration::from_secs_f64(tokens_at_worst / r + 2.0 * costs.len() as f64);
        prop_assert!(last <= Instant::ZERO + bound, "{last:?} after {bound:?}");
    }
}
