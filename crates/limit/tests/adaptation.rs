//! The purpose of the TB Adaptor: traffic moves from one broker to another while it conforms to the
//! limit as a whole. With shares that follow it the access delay goes away again, with frozen
//! shares it stays and grows (SRTM-long, section 5.4).
//!
//! Everything is the real thing in virtual time: buckets, histories, holders and ledger; reports
//! once a second, answered at once.

use std::collections::VecDeque;
use std::time::Duration;

use clock::Instant;
use limit::adaptor::HistoryLength;
use limit::{History, LeaseHolder, Ledger, LedgerConfig, Limit, Mode, Report, TokenBucket};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
/// When the traffic changes sides.
const SHIFT_S: u64 = 30;
const END_S: u64 = 70;

/// A topic at a broker: its queue, its bucket, and what it remembers.
struct Broker {
    holder: LeaseHolder,
    bucket: Option<TokenBucket>,
    history: History,
    waiting: VecDeque<Instant>,
    /// Arrivals with the delays that they had.
    delays: Vec<(Instant, Duration)>,
    arrivals: VecDeque<Instant>,
}

impl Broker {
    /// Messages arrive evenly, `before` per second until the shift and `after` per second from then
    /// on.
    fn new(before: u64, after: u64, history: HistoryLength) -> Self {
        let evenly = |from_s: u64, until_s: u64, rate: u64| {
            (0..(until_s - from_s) * rate)
                .map(move |number| Instant::from_nanos(from_s * SECOND + number * SECOND / rate))
        };
        Broker {
            holder: LeaseHolder::new(),
            bucket: None,
            history: History::new(history, Instant::ZERO),
            waiting: VecDeque::new(),
            delays: Vec::new(),
            arrivals: evenly(0, SHIFT_S, before)
                .chain(evenly(SHIFT_S, END_S, after))
                .collect(),
        }
    }

    /// Everything that arrives and leaves before `until`.
    fn run(&mut self, until: Instant) {
        while let Some(arrival) = self.arrivals.pop_front_if(|arrival| *arrival < until) {
            self.release(arrival);
            self.waiting.push_back(arrival);
            let missing = self
                .bucket
                .map_or(0.0, |bucket| bucket.unfinished_at(arrival));
            let backlog = self.waiting.len() as f64 + missing;
            self.history.arrived(arrival, 1.0, backlog);
        }
        self.release(until);
    }

    fn release(&mut self, until: Instant) {
        let Some(bucket) = &mut self.bucket else {
            return;
        };
        while let Some(&arrival) = self.waiting.front() {
            if bucket.departure(arrival, 1.0) >= until {
                break;
            }
            let departure = bucket.take(arrival, 1.0);
            self.delays.push((arrival, departure - arrival));
            self.waiting.pop_front();
        }
    }

    fn report(&mut self, number: u64, now: Instant) -> Report {
        self.holder.report_sent(number, now);
        Report {
            number,
            confirmed: self.holder.confirmation(),
            held: self.holder.in_force(now),
            traffic: self.history.traffic(now),
        }
    }

    fn receive(&mut self, grant: &limit::Grant, now: Instant) {
        assert!(self.holder.receive(grant, now));
        let Some(share) = self.holder.in_force(now) else {
            return;
        };
        match &mut self.bucket {
            Some(bucket) => bucket.resize(now, share.rate, share.burst),
            none => *none = Some(share.bucket(now)),
        }
    }
}

/// The 99th percentile of the access delay over both brokers, by the second of the arrival.
fn p99_by_second(mode: Mode, history: HistoryLength) -> Vec<Duration> {
    // 70 % of the limit, seven eighths of it at one broker; then at the other.
    let limit = Limit::messages(1000.0, 100.0).expect("valid");
    let (much, little) = (612, 88);
    let mut brokers = [
        Broker::new(much, little, history),
        Broker::new(little, much, history),
    ];
    let config = LedgerConfig {
        mode,
        window: history.duration(),
        ..LedgerConfig::default()
    };
    let mut ledger = Ledger::new(limit, config, 1);
    for broker in 0..2 {
        assert!(ledger.join(broker, Instant::ZERO));
    }
    ledger.set_weights(&[(0, much as f64), (1, little as f64)]);
    for number in 0..=END_S * 2 {
        // The brokers report in turn, every half second one of them.
        let now = Instant::from_nanos(number * SECOND / 2);
        for broker in &mut brokers {
            broker.run(now);
        }
        let who = (number % 2) as usize;
        let report = brokers[who].report(number + 1, now);
        assert_eq!(ledger.report(who as u32, &report, now), Ok(()));
        for (to, grant) in ledger.plan(now) {
            brokers[to as usize].receive(&grant, now);
        }
        assert!(ledger.exposure(now).is_within(&limit));
    }
    (0..END_S)
        .map(|second| {
            let is_in = |at: Instant| at.as_nanos() / SECOND == second;
            let mut delays: Vec<Duration> = brokers
                .iter()
                .flat_map(|broker| {
                    let left = broker.delays.iter().copied();
                    // What still waits in the end has waited that long at least.
                    let end = Instant::from_nanos(END_S * SECOND);
                    let waits = broker.waiting.iter().map(move |&at| (at, end - at));
                    left.chain(waits)
                })
                .filter(|&(arrival, _)| is_in(arrival))
                .map(|(_, delay)| delay)
                .collect();
            delays.sort_unstable();
            delays[delays.len() * 99 / 100]
        })
        .collect()
}

#[test]
fn delay_goes_away_with_the_adaptor_and_stays_without() {
    let frozen = p99_by_second(Mode::Frozen, HistoryLength::default());
    let adapting = p99_by_second(Mode::Adapting, HistoryLength::default());
    let short = p99_by_second(
        Mode::Adapting,
        HistoryLength::new(3, 1000).expect("in range"),
    );
    println!("second after the shift: p99 access delay frozen | adapting, window 10 s | 3 s");
    for second in SHIFT_S - 2..END_S {
        let at = second as usize;
        println!(
            "{:>4}: {:>12?} | {:>12?} | {:>12?}",
            second as i64 - SHIFT_S as i64,
            frozen[at],
            adapting[at],
            short[at]
        );
    }
    let from = |after_shift: u64| (SHIFT_S + after_shift) as usize;
    let millisecond = Duration::from_millis(1);
    for second in 5..from(0) {
        assert!(frozen[second] < millisecond && adapting[second] < millisecond);
    }
    // Within two windows all delay is gone, and stays away. A shorter window leaves less to drain,
    // but no more room to drain it.
    assert!(adapting[from(20)..].iter().all(|&p99| p99 < millisecond));
    assert!(short[from(10)..].iter().all(|&p99| p99 < millisecond));
    // Frozen, the queue grows by 612 - 125 messages every second; in the end many have not left at
    // all.
    assert!(frozen[from(5)] > Duration::from_secs(20));
    assert!(frozen[from(20)] > Duration::from_secs(15));
}
