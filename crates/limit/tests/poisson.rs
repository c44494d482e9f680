//! The theory of access delays against token buckets under Poisson traffic, in virtual time.
//!
//! Independent replications with fixed seeds; a figure must lie within five standard errors of the
//! theory's.

use clock::{Instant, Xoshiro256PlusPlus, stream};
use limit::theory::{AccessDelay, Batches, Poisson, Which};
use limit::{Burst, Rate, TokenBucket};
use rand::Rng;

/// Tokens per second of the whole limit.
const RATE: f64 = 1000.0;
const REPLICATIONS: u32 = 20;
const BROKERS: [u32; 3] = [1, 2, 6];

/// Of one replication, or of the theory: the mean delay in seconds, of any message and of the last of a
/// batch; the parts of the messages that wait, and that wait for long.
type Figures = [f64; 4];

struct Case {
    theory: AccessDelay,
    rate: Rate,
    burst: Burst,
    /// What counts as long; never a delay that a batch meets in an idle queue.
    long_s: f64,
    name: String,
    replications: Vec<Figures>,
}

impl Case {
    /// One of `brokers` that share (1000/s, `b`), each with a part of the publishers; `None` for less than one token.
    fn new(load: f64, batch_messages: u16, b: f64, brokers: u32) -> Option<Case> {
        let poisson = Poisson {
            rate: Rate::new(load * RATE).expect("in range"),
            batch_messages,
        };
        let (rate, burst) = (Rate::new(RATE), Burst::new(b).expect("in range"));
        let whole = AccessDelay::new(poisson, rate.expect("in range"), burst).expect("stable");
        let parts = f64::from(brokers);
        let burst = Burst::new(b / parts).ok()?;
        let theory = whole.split(brokers, Batches::Whole).expect("a token each");
        let ninth = theory.percentile_s(Which::Any, 90.0).expect("in range");
        Some(Case {
            theory,
            rate: Rate::new(RATE / parts).expect("in range"),
            burst,
            long_s: ninth * 1.0137 + 1.37e-4,
            name: format!("load {load} batch {batch_messages} b {b} k {brokers}"),
            replications: Vec::new(),
        })
    }

    fn expected(&self) -> Figures {
        [
            self.theory.mean_s(Which::Any),
            self.theory.mean_s(Which::LastOfBatch),
            self.theory.tail(Which::Any, 0.0),
            self.theory.tail(Which::Any, self.long_s),
        ]
    }

    /// `gaps` between batches, in the mean those of the broker's part of the traffic when stretched by RATE/rate.
    fn replicate(&self, gaps: &[f64], warm_up: usize, batch_messages: u16) -> Figures {
        let mut bucket = TokenBucket::full(self.rate, self.burst, Instant::ZERO);
        let stretch_ns = 1e9 * RATE / self.rate.get();
        let (mut at_ns, mut figures) = (0.0, [0.0; 4]);
        for (number, gap) in gaps.iter().enumerate() {
            at_ns += gap * stretch_ns;
            let at = Instant::from_nanos(at_ns as u64);
            let mut last_s = 0.0;
            for _ in 0..batch_messages {
                last_s = (bucket.take(at, 1.0) - at).as_secs_f64();
                if number >= warm_up {
                    figures[0] += last_s;
                    figures[2] += f64::from(u8::from(last_s > 0.0));
                    figures[3] += f64::from(u8::from(last_s > self.long_s));
                }
            }
            if number >= warm_up {
                figures[1] += last_s * f64::from(batch_messages);
            }
        }
        let messages = (gaps.len() - warm_up) as f64 * f64::from(batch_messages);
        figures.map(|sum| sum / messages)
    }

    fn check(&self, messages: f64, batch_messages: u16) {
        let batch = f64::from(batch_messages);
        for (figure, expected) in self.expected().into_iter().enumerate() {
            let (mean, error) = mean_and_standard_error(&self.replications, figure);
            // Too rare to have a standard error: then it must be rare.
            let occurrences = self.theory.tail(Which::Any, 0.0) * messages / batch;
            if occurrences < 1000.0 {
                let waiting = mean_and_standard_error(&self.replications, 2).0;
                assert!(
                    waiting * messages / batch < 3000.0,
                    "{}: {waiting}",
                    self.name
                );
            } else {
                let room = 5.0 * error + 1e-9;
                assert!(
                    (mean - expected).abs() <= room,
                    "{} figure {figure}: {mean} for {expected}, {error}",
                    self.name
                );
            }
        }
    }
}

fn mean_and_standard_error(replications: &[Figures], figure: usize) -> (f64, f64) {
    let count = replications.len() as f64;
    let mean = replications
        .iter()
        .map(|figures| figures[figure])
        .sum::<f64>()
        / count;
    let squares = replications
        .iter()
        .map(|figures| (figures[figure] - mean).powi(2));
    (
        mean,
        (squares.sum::<f64>() / (count * (count - 1.0))).sqrt(),
    )
}

/// Exponential with mean `mean`.
fn exponential(random: &mut Xoshiro256PlusPlus, mean: f64) -> f64 {
    let uniform = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    -(1.0 - uniform).ln() * mean
}

/// All bursts and numbers of brokers under the same traffic.
fn check_all(load: f64, batch_messages: u16, bursts: &[f64], batches: usize) {
    let pairs = bursts
        .iter()
        .flat_map(|&b| BROKERS.map(|brokers| (b, brokers)));
    let mut cases: Vec<_> = pairs
        .filter_map(|(b, brokers)| Case::new(load, batch_messages, b, brokers))
        .collect();
    let warm_up = batches / 5;
    let mean_gap = f64::from(batch_messages) / (load * RATE);
    for replication in 0..REPLICATIONS {
        let name = format!("load {load} batch {batch_messages} replication {replication}");
        let mut random = stream(2021, &name);
        let gaps: Vec<_> = (0..batches)
            .map(|_| exponential(&mut random, mean_gap))
            .collect();
        for case in &mut cases {
            let figures = case.replicate(&gaps, warm_up, batch_messages);
            case.replications.push(figures);
        }
    }
    let messages = (batches - warm_up) as f64 * f64::from(REPLICATIONS) * f64::from(batch_messages);
    for case in &cases {
        case.check(messages, batch_messages);
    }
}

const BURSTS: [f64; 5] = [1.0, 2.0, 5.0, 20.0, 50.0];

#[test]
fn single_messages() {
    for (load, batches) in [(0.5, 8_000), (0.8, 8_000), (0.9, 15_000), (0.95, 25_000)] {
        check_all(load, 1, &BURSTS, batches);
    }
}

#[test]
fn batches_of_ten() {
    for (load, batches) in [(0.5, 2_000), (0.8, 3_000), (0.9, 5_000), (0.95, 10_000)] {
        check_all(load, 10, &[2.0, 20.0, 50.0], batches);
    }
}
