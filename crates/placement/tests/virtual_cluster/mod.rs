//! Brokers in virtual time, for trying fits.
//!
//! Their truth is a service model of their own, unlike the one that the fit is told; the reports of
//! windows carry noise besides. Groups are perfectly synchronised, as in section 6.5 of SRTM-long.

#![allow(dead_code, reason = "each program uses its part")]

use limit::{Burst, Rate};
use model::ServiceModel;
use placement::{
    Arrival, BrokerIndex, BrokerState, BrokerWindow, FitConfig, Fitting, GroupIndex, Mode, Policy,
    Publisher, PublisherIndex, Question, Replayer, Step, Trace, Window, distribute,
};
use rand::RngExt;

/// Messages in a batch, and publishers' batches per second: 10 messages/s each.
pub const BATCH: u16 = 10;
pub const PUBLISHERS: u32 = 1_000;
pub const BROKERS: usize = 6;
pub const SLO_US: f64 = 1_000.0;

/// Multiple of the burst that one bucket needs, at which sub-buckets hardly delay either.
pub const AMPLE_BURST: f64 = 4.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sending {
    /// Once a second, every group at a phase of its own.
    Periodic,
    /// Every group at random instants, once a second in the mean.
    Poisson,
}

pub struct VirtualCluster {
    pub publishers: Vec<Publisher>,
    pub brokers: Vec<BrokerState>,
    /// What the brokers are.
    pub truth: Vec<ServiceModel>,
    /// What the fit is told that they are.
    pub told: Vec<ServiceModel>,
    pub limit: Option<(Rate, Burst)>,
    /// Percentiles are reported up to this fraction too high or too low.
    pub noise: f64,
    pub window_seconds: u64,
    sending: Sending,
    seed: u64,
    groups: u32,
    windows: u64,
}

/// A broker that needs so long for a message.
pub fn service(per_message_us: f64) -> ServiceModel {
    ServiceModel {
        per_message_ns: per_message_us * 1e3,
        per_batch_ns: 0.0,
        per_active_connection_ns: 0.0,
        base_ns: 50_000.0,
        servers: 1,
    }
}

impl VirtualCluster {
    /// The topic of table 1: 1,000 publishers of 10 messages/s in batches of 10.
    pub fn new(group_size: u32, sending: Sending, window_seconds: u64, seed: u64) -> Self {
        let groups = PUBLISHERS.div_ceil(group_size);
        let publisher = |at: u32| Publisher {
            rate: Rate::new(f64::from(BATCH)).expect("a sane number"),
            batch_messages: u32::from(BATCH),
            group: Some(GroupIndex(at % groups)),
        };
        let mut cluster = VirtualCluster {
            publishers: (0..PUBLISHERS).map(publisher).collect(),
            brokers: vec![
                BrokerState {
                    mcap: 40_000.0,
                    load: 0.0,
                    is_available: true
                };
                BROKERS
            ],
            truth: vec![service(18.0); BROKERS],
            told: vec![service(18.0 / 1.15); BROKERS],
            limit: None,
            noise: 0.02,
            window_seconds,
            sending,
            seed,
            groups,
            windows: 0,
        };
        cluster.limit = Some(cluster.undelaying_limit(AMPLE_BURST));
        cluster
    }

    pub fn config(&self, mode: Mode) -> FitConfig {
        FitConfig {
            policy: Policy::Srtm,
            mode,
            percentile: 99.0,
            slo_us: SLO_US,
            band: 0.2,
            limit: self.limit,
        }
    }

    /// The arrivals of window number `window` if nobody were withheld.
    pub fn arrivals(&self, window: u64) -> Trace {
        let begin_ns = 1_000_000_000_000 + window * 1_000_000_000 * self.window_seconds;
        let span_ns = self.window_seconds * 1_000_000_000;
        let mut sends: Vec<Vec<u64>> = Vec::new();
        for group in 0..self.groups {
            let name = match self.sending {
                Sending::Periodic => format!("group {group}"),
                Sending::Poisson => format!("group {group} window {window}"),
            };
            let mut random = clock::stream(self.seed, &name);
            let mut at = match self.sending {
                Sending::Periodic => random.random_range(0..1_000_000_000),
                Sending::Poisson => pause_ns(&mut random),
            };
            let mut times = Vec::new();
            while at < span_ns {
                times.push(at);
                at += match self.sending {
                    Sending::Periodic => 1_000_000_000,
                    Sending::Poisson => pause_ns(&mut random),
                };
            }
            sends.push(times);
        }
        let mut arrivals = Vec::new();
        for publisher in 0..PUBLISHERS {
            for &at in &sends[(publisher % self.groups) as usize] {
                arrivals.push(Arrival {
                    at_ns: begin_ns + at,
                    publisher: PublisherIndex(publisher),
                    messages: BATCH,
                });
            }
        }
        Trace::new(arrivals, begin_ns, begin_ns + span_ns)
    }

    /// True latencies at the 99th percentile, in microseconds.
    pub fn latencies(&self, trace: &Trace, broker_of: &[Option<BrokerIndex>]) -> Vec<Option<f64>> {
        let mut replayer = Replayer::default();
        let rate_on = |broker: usize| {
            let here = broker_of
                .iter()
                .filter(|place| **place == Some(BrokerIndex(broker as u32)));
            here.count() as f64 / broker_of.iter().flatten().count() as f64
        };
        let percentile = |broker: usize| {
            let share = self.limit.and_then(|(rate, burst)| {
                let rate = Rate::new(rate.get() * rate_on(broker)).ok()?;
                let burst = (burst.get() * rate_on(broker)).max(f64::from(BATCH));
                Some((rate, Burst::new(burst).ok()?))
            });
            let here = |publisher: PublisherIndex| {
                broker_of[publisher.0 as usize] == Some(BrokerIndex(broker as u32))
            };
            replayer
                .run(trace, here, share, &self.truth[broker], 0.0)
                .percentile_us(99.0)
        };
        (0..self.brokers.len()).map(percentile).collect()
    }

    /// Runs one profiling window.
    pub fn window(&mut self, broker_of: &[Option<BrokerIndex>]) -> (Vec<BrokerWindow>, Trace) {
        let mut trace = self.arrivals(self.windows);
        trace
            .arrivals
            .retain(|arrival| broker_of[arrival.publisher.0 as usize].is_some());
        let mut random = clock::stream(self.seed, &format!("noise {}", self.windows));
        self.windows += 1;
        let latencies = self.latencies(&trace, broker_of);
        let mut messages = vec![0; self.brokers.len()];
        for arrival in &trace.arrivals {
            if let Some(broker) = broker_of[arrival.publisher.0 as usize] {
                messages[broker.0 as usize] += u64::from(arrival.messages);
            }
        }
        let mut answer = |(latency, messages): (Option<f64>, u64)| {
            let noise = 1.0 + self.noise * random.random_range(-1.0..1.0);
            BrokerWindow {
                p99_us: latency.map(|latency| latency * noise),
                messages,
            }
        };
        (
            latencies
                .into_iter()
                .zip(messages)
                .map(&mut answer)
                .collect(),
            trace,
        )
    }

    pub fn begin(&self, mode: Mode) -> (Fitting, Step) {
        let (brokers, models) = (self.brokers.clone(), self.told.clone());
        Fitting::begin(self.config(mode), self.publishers.clone(), brokers, models)
            .expect("a sane configuration")
    }

    /// Answers windows until the fit asks for none.
    pub fn drive(&mut self, fitting: &mut Fitting, mut step: Step) -> Step {
        while let Step::Measure(broker_of) = &step {
            assert_eq!(
                broker_of.len(),
                self.publishers.len(),
                "nobody lost, nobody twice"
            );
            let (answers, trace) = self.window(broker_of);
            step = fitting.measured(&Window {
                brokers: &answers,
                trace: Some(&trace),
                seconds: self.window_seconds as f64,
                neighbours: &[],
            });
            assert!(fitting.status().windows < 1_000, "a fit ends");
        }
        step
    }

    /// The least worst latency that the policy reaches with any number of brokers, by the truth, and with how
    /// many.
    pub fn best_possible(&self, policy: Policy) -> (f64, usize) {
        let trace = self.arrivals(1_000);
        let nobody = vec![None; self.publishers.len()];
        let tries = (1..=self.brokers.len()).filter_map(|k| {
            let distribution = distribute(&Question {
                policy,
                publishers: &self.publishers,
                placed: &nobody,
                brokers: &self.brokers,
                full: &vec![false; self.brokers.len()],
                k_min: k,
            })
            .ok()?;
            let broker_of: Vec<_> = distribution.broker_of.into_iter().map(Some).collect();
            let worst = self
                .latencies(&trace, &broker_of)
                .into_iter()
                .flatten()
                .fold(0.0, f64::max);
            Some((worst, k))
        });
        tries.fold((f64::INFINITY, 0), |best, next| {
            if next.0 < best.0 { next } else { best }
        })
    }

    /// r = 1.1 × the mean, and `multiple` times the b at which one bucket delays nothing: the peak of the
    /// unfinished work in some windows.
    pub fn undelaying_limit(&self, multiple: f64) -> (Rate, Burst) {
        let rate = 1.1 * f64::from(PUBLISHERS) * f64::from(BATCH);
        let mut peak = 1.0f64;
        for window in 0..3 {
            let (mut unfinished, mut at_ns) = (0.0f64, 0);
            for arrival in &self.arrivals(window).arrivals {
                let passed = (arrival.at_ns - at_ns) as f64 / 1e9;
                at_ns = arrival.at_ns;
                unfinished = (unfinished - rate * passed).max(0.0) + f64::from(arrival.messages);
                peak = peak.max(unfinished);
            }
        }
        (
            Rate::new(rate).expect("a sane number"),
            Burst::new(peak * multiple).expect("a sane number"),
        )
    }
}

fn pause_ns(random: &mut clock::Xoshiro256PlusPlus) -> u64 {
    let uniform: f64 = random.random();
    (-(1.0 - uniform).ln() * 1e9) as u64
}
