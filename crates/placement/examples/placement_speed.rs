//! Seconds to distribute 100,000 publishers over 100 brokers, best of five, for every policy.
//!
//! `cargo run --release -p placement --example placement_speed`. Half of the brokers' load is other topics';
//! `tight` leaves 0.1 % of room, the other rows a third.
#![allow(clippy::disallowed_methods)] // A stopwatch reads the clock.

use std::hint::black_box;
use std::time::{Duration, Instant};

use limit::Rate;
use placement::{BrokerState, GroupIndex, Policy, Publisher, Question, distribute};

const PUBLISHERS: u32 = 100_000;
const BROKERS: u32 = 100;

struct Row {
    name: &'static str,
    group_size: u32,
    is_equal: bool,
    /// Residual capacity over rate.
    room: f64,
}

const ROWS: [Row; 5] = [
    Row {
        name: "equal rates, groups of 25",
        group_size: 25,
        is_equal: true,
        room: 1.5,
    },
    Row {
        name: "equal rates, pairs",
        group_size: 2,
        is_equal: true,
        room: 1.5,
    },
    Row {
        name: "equal rates, one group",
        group_size: PUBLISHERS,
        is_equal: true,
        room: 1.5,
    },
    Row {
        name: "unequal rates, groups of 25",
        group_size: 25,
        is_equal: false,
        room: 1.5,
    },
    Row {
        name: "unequal rates, groups of 25, tight",
        group_size: 25,
        is_equal: false,
        room: 1.001,
    },
];

fn main() {
    println!("{PUBLISHERS} publishers, {BROKERS} brokers, all of them used; seconds, best of 5");
    let names = Policy::ALL.map(|policy| format!("{policy:>10}"));
    println!("{:36}{}", "", names.concat());
    for row in ROWS {
        print!("{:36}", row.name);
        let publishers = publishers(&row);
        let brokers = brokers(&publishers, row.room);
        for policy in Policy::ALL {
            print!(
                "{:>10.4}",
                seconds(policy, &publishers, &brokers).as_secs_f64()
            );
        }
        println!();
    }
}

fn publishers(row: &Row) -> Vec<Publisher> {
    let publisher = |at: u32| {
        let rate = if row.is_equal {
            10.0
        } else {
            1.0 + f64::from(at * 7919 % 97)
        };
        Publisher {
            rate: Rate::new(rate).unwrap_or(Rate::MAX),
            batch_messages: 1,
            group: Some(GroupIndex(
                at.wrapping_mul(31) % PUBLISHERS / row.group_size,
            )),
        }
    };
    (0..PUBLISHERS).map(publisher).collect()
}

fn brokers(publishers: &[Publisher], room: f64) -> Vec<BrokerState> {
    let asked: f64 = publishers
        .iter()
        .map(|publisher| publisher.rate.get())
        .sum();
    let share = room * asked / f64::from(BROKERS);
    let broker = |at: u32| BrokerState {
        mcap: share * (1.8 + f64::from(at % 5) * 0.1),
        load: share,
        is_available: true,
    };
    (0..BROKERS).map(broker).collect()
}

fn seconds(policy: Policy, publishers: &[Publisher], brokers: &[BrokerState]) -> Duration {
    let placed = vec![None; publishers.len()];
    let full = vec![false; brokers.len()];
    let question = Question {
        policy,
        publishers,
        placed: &placed,
        brokers,
        full: &full,
        k_min: brokers.len(),
    };
    let once = || {
        let begin = Instant::now();
        assert!(black_box(distribute(black_box(&question))).is_ok());
        begin.elapsed()
    };
    (0..5).map(|_| once()).min().unwrap_or_default()
}
