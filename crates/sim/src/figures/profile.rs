//! A recorded trace of a topic, and its bucket as the paper chooses it.
//!
//! SRTM-long, section 6: r is a tenth above the mean rate, b the smallest bucket that delays
//! nothing at the promised percentile over a representative trace. Over one long trace such a
//! bucket is on a knife edge: exactly the allowed part of the messages waits, and for bursty topics
//! so long that in every second shorter measurement the limit alone breaks the promise. So b is the
//! smallest bucket for which the rule holds in *each* window of the trace.

use std::time::Duration;

use rand::Rng;
use statistics::nearest_rank;
use workload::trace::{Trace, TraceHeader};
use workload::{Arrival, Class, Spec};

/// Tokens per message.
const COST: f64 = 1.0;

/// A recorded trace and the bucket chosen by it. Fits and measurements replay it, so that they meet what the bucket was
/// chosen for.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    /// Whose traffic it is.
    pub(super) publishers: Vec<Class>,
    /// Its publishers are numbered independently of their groups: a policy that takes them in their order must not
    /// profit from members of a group standing side by side.
    pub(super) trace: Trace,
    /// Tokens per second.
    pub(super) rate: f64,
    /// Tokens at once.
    pub(super) burst: f64,
}

impl Profile {
    /// Records the spec's arrivals for so many profiling windows, and chooses the bucket.
    pub(super) fn record(spec: &Spec, windows: u64) -> Profile {
        let window_ns = u64::try_from(spec.topic.window.as_nanos()).unwrap_or(u64::MAX);
        let end_ns = window_ns.saturating_mul(windows);
        let mut header = TraceHeader::of_spec(spec, String::new());
        let order = shuffled(header.publishers.len(), spec.seed);
        let mut publishers = header.publishers.clone();
        for (publisher, &place) in header.publishers.into_iter().zip(&order) {
            publishers[place as usize] = publisher;
        }
        header.publishers = publishers;
        header.length = Some(Duration::from_nanos(end_ns));
        let placed = |arrival: Arrival| Arrival {
            publisher: order[arrival.publisher as usize],
            ..arrival
        };
        let due = spec.arrivals().take_while(|arrival| arrival.at_ns < end_ns);
        let arrivals: Vec<Arrival> = due.map(placed).collect();
        let rate = spec.topic.headroom * spec.messages_per_second();
        let burst = burst(&arrivals, rate, window_ns, spec.topic.percentile);
        Profile {
            publishers: spec.publishers.clone(),
            trace: Trace { header, arrivals },
            rate,
            burst,
        }
    }
}

/// The numbers below `count` in a random order (Fisher and Yates).
fn shuffled(count: usize, seed: u64) -> Vec<u32> {
    let mut random = clock::stream(seed, "order of publishers");
    let mut order: Vec<u32> = (0u32..).take(count).collect();
    for last in (1..count).rev() {
        let below = last as u64 + 1;
        // The bias of the remainder is below 2^-40 for a million publishers.
        order.swap(last, (random.next_u64() % below) as usize);
    }
    order
}

/// The greatest, over windows, of the smallest bucket that delays nothing at `percentile`. A message waits if and only if
/// the unfinished work, its own included, exceeds b (appendix A, equation 2); that work does not depend on b.
fn burst(arrivals: &[Arrival], rate: f64, window_ns: u64, percentile: f64) -> f64 {
    let mut work = 0.0_f64;
    let mut last_ns = 0;
    let mut window = 0;
    // How many messages found so much work, rounded up.
    let mut found: Vec<u64> = Vec::new();
    let mut burst = COST;
    for arrival in arrivals {
        if arrival.at_ns / window_ns != window {
            window = arrival.at_ns / window_ns;
            burst = burst.max(quantile(&found, percentile));
            found.clear();
        }
        work = (work - rate * (arrival.at_ns - last_ns) as f64 / 1e9).max(0.0);
        last_ns = arrival.at_ns;
        for _ in 0..arrival.messages {
            work += COST;
            let place = work.ceil() as usize;
            if found.len() <= place {
                found.resize(place + 1, 0);
            }
            found[place] += 1;
        }
    }
    burst.max(quantile(&found, percentile))
}

/// The least value that `percentile` of those counted do not exceed.
fn quantile(found: &[u64], percentile: f64) -> f64 {
    let needed = nearest_rank(found.iter().sum(), percentile);
    let mut counted = 0;
    let place = found.iter().position(|&count| {
        counted += count;
        counted >= needed
    });
    place.unwrap_or_default() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::Instant;
    use limit::{Burst, Rate, TokenBucket};

    const WINDOW_NS: u64 = 1_000_000_000;

    fn spec() -> Spec {
        let text = "seed = 3\n[[publishers]]\ncount = 40\nrate = 25\nbatch = 5\n[topic]\nwindow = \"1s\"\n";
        Spec::parse(text).expect("a spec")
    }

    /// Part of the messages that wait in each window, by the bucket itself.
    fn delayed(profile: &Profile, burst: f64, windows: u64) -> Vec<f64> {
        let limits = (Rate::new(profile.rate), Burst::new(burst));
        let (Ok(rate), Ok(burst)) = limits else {
            panic!("a limit");
        };
        let mut bucket = TokenBucket::full(rate, burst, Instant::ZERO);
        let mut counts = vec![(0_u32, 0_u32); windows as usize];
        for arrival in &profile.trace.arrivals {
            let (late, all) = &mut counts[(arrival.at_ns / WINDOW_NS) as usize];
            let at = Instant::from_nanos(arrival.at_ns);
            for _ in 0..arrival.messages {
                *late += u32::from(bucket.take(at, 1.0) > at);
                *all += 1;
            }
        }
        let part = |(late, all): (u32, u32)| f64::from(late) / f64::from(all);
        counts.into_iter().map(part).collect()
    }

    #[test]
    fn every_window_keeps_the_rule_and_one_message_less_breaks_it() {
        let profile = Profile::record(&spec(), 20);
        assert_eq!(profile.rate, 1.1 * 1_000.0);
        let worst = |burst: f64| {
            let parts = delayed(&profile, burst, 20);
            parts.into_iter().fold(0.0, f64::max)
        };
        let burst = profile.burst;
        assert!(worst(burst) <= 0.01, "{burst}: {}", worst(burst));
        assert!(worst(burst - 1.0) > 0.01, "{burst}: {}", worst(burst - 1.0));
    }

    #[test]
    fn more_windows_never_ask_for_less() {
        let bursts: Vec<f64> = [1, 5, 20, 60]
            .map(|n| Profile::record(&spec(), n).burst)
            .into();
        assert!(bursts.is_sorted() && bursts[0] >= 5.0, "{bursts:?}");
    }

    #[test]
    fn numbers_tell_nothing_of_groups_and_groups_stay_together() {
        let mut spec = spec();
        spec.publishers[0].group_publishers = 4;
        let trace = Profile::record(&spec, 2).trace;
        let group = |at: u32| trace.header.publishers[at as usize].profile.group;
        let neighbours = (0..39).filter(|&at| group(at) == group(at + 1)).count();
        // 39 pairs with a chance of 3 in 39 each; in order it would be 30.
        assert!(neighbours < 12, "{neighbours}");
        for together in trace.arrivals.chunks(4) {
            let one = together[0];
            assert!(together.iter().all(|a| a.at_ns == one.at_ns));
            assert!(
                together
                    .iter()
                    .all(|a| group(a.publisher) == group(one.publisher))
            );
        }
        assert_eq!(trace.arrivals, Profile::record(&spec, 2).trace.arrivals);
    }
}
