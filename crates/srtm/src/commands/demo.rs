//! The demo of `srtm up --demo`: sensors whose bursts grow, and a promise that is kept.
//!
//! At first five sensors send at the same instant and one broker is enough. After a while forty do:
//! on one broker the last of them waits longer than was promised. The Load Distributor notices,
//! finds by replay how many brokers are needed, and moves sensors. One thread plays all sensors,
//! each with a connection of its own that follows its placement; one subscribes everywhere. Latency
//! counts from the instant a message was due.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use api::view::{Contract, Slo, TopicSpec, TopicView};
use bench::cluster::{Plan, Run};
use bench::workload::{Arrivals, Workload};
use control::ControlHandle;
use control::handle::Command;
use limit::Limit;

use crate::error::Failure;

const TOPIC: &str = "sensors";
const SENSORS: u32 = 600;
const MESSAGES_PER_SECOND_EACH: f64 = 5.0;
/// Sensors that send at the same instant, at first.
const GROUP: u32 = 5;
/// By so many times the groups grow.
const GROWTH: u64 = 8;
const LIMIT_RATE: f64 = 3300.0;
const LIMIT_BURST: f64 = 400.0;
/// The promise for the 99th percentile.
const PROMISE_US: f64 = 8000.0;

/// Quiet seconds after the topic was fitted, before its bursts grow.
const CALM_S: u64 = 8;
/// The demo can run so long; nobody looks longer.
const MESSAGES_MAX: usize = 48 << 20;
const LINES_PER_HEADER: u64 = 20;
const HEADER: &str =
    "    second   in msg/s  out msg/s     p50 ms     p99 ms  state        sensors per broker";

/// The running workload.
pub(super) struct Demo {
    handle: ControlHandle,
    run: Run,
}

impl Demo {
    /// Declares the topic and starts sensors and subscriber.
    pub(super) async fn start(http: SocketAddr, handle: ControlHandle) -> Result<Demo, Failure> {
        let usage = |error: String| Failure::Usage(error);
        let limit =
            Limit::messages(LIMIT_RATE, LIMIT_BURST).map_err(|error| usage(error.to_string()))?;
        let spec = TopicSpec {
            contract: Contract::of_limit(limit),
            slo: Some(Slo {
                percentile: 99.0,
                latency_us: PROMISE_US,
            }),
            ..TopicSpec::default()
        };
        let put = |reply| Command::PutTopic(TOPIC.to_owned(), spec, reply);
        handle
            .ask(put)
            .await
            .map_err(|error| usage(error.to_string()))?;
        let offered = f64::from(SENSORS) * MESSAGES_PER_SECOND_EACH;
        println!(
            "{SENSORS} sensors send {offered} msg/s on topic {TOPIC}, {GROUP} of them at the same instant. Declared: limit {limit};\n\
             promised: 99 % of the messages within {} ms. Once that is kept, bursts grow {GROWTH} times as large.\n",
            PROMISE_US / 1000.0
        );
        let plan = Plan {
            controller: http.to_string(),
            topic: TOPIC.to_owned(),
            workload: Workload {
                publishers: SENSORS,
                rate_per_publisher: MESSAGES_PER_SECOND_EACH,
                arrivals: Arrivals::Periodic,
                group_publishers: GROUP,
                ..Workload::default()
            },
            declared_rate: MESSAGES_PER_SECOND_EACH,
            tells_groups: true,
            messages_max: MESSAGES_MAX,
        };
        let run = tokio::task::block_in_place(|| Run::start(&plan))?;
        Ok(Demo { handle, run })
    }

    /// Prints a line per second, and lets the bursts grow when the promise has been kept for a while.
    pub(super) async fn print(&self) {
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        let (mut last, mut fitted_for_s) = ((0, 0), 0);
        ticks.tick().await;
        for second in 0u64.. {
            ticks.tick().await;
            let show = |reply| Command::Topic(TOPIC.to_owned(), reply);
            let Ok(view) = self.handle.ask(show).await else {
                return;
            };
            if second.is_multiple_of(LINES_PER_HEADER) {
                println!("{HEADER}");
            }
            let now = self.run.board.traffic();
            self.print_line(second, (now.0 - last.0, now.1 - last.1), &view);
            last = now;
            fitted_for_s = if view.state == "fitted" {
                fitted_for_s + 1
            } else {
                0
            };
            let has_grown = self.run.fleet.burst_factor.load(Ordering::Relaxed) > 0;
            if !has_grown && fitted_for_s >= CALM_S {
                self.run.fleet.burst_factor.store(GROWTH, Ordering::Relaxed);
                println!(
                    "-- bursts grow: now {} sensors send at the same instant --",
                    u64::from(GROUP) * GROWTH
                );
            }
        }
    }

    fn print_line(&self, second: u64, (sent, received): (u64, u64), view: &TopicView) {
        let latency = self.run.board.take_latency().whole;
        let ms = |quantile: f64| latency.value_at_quantile(quantile) as f64 / 1000.0;
        let brokers = view.brokers.iter().filter(|broker| broker.attached > 0);
        let brokers: Vec<String> = brokers
            .map(|broker| format!("{} {}", broker.broker, broker.attached))
            .collect();
        println!(
            "{second:>10} {sent:>10} {received:>10} {:>10.3} {:>10.3}  {:<12} {}",
            ms(0.5),
            ms(0.99),
            view.state,
            brokers.join(", "),
        );
    }

    /// Ends the sensors and says what became of every message.
    pub(super) fn end(self) -> Result<(), Failure> {
        let moves = self.run.fleet.traffic().moves;
        let tally = self.run.end()?;
        println!(
            "sensors silent after {} messages: {} lost, {} twice, {moves} moves",
            tally.sent, tally.lost, tally.duplicated
        );
        Ok(())
    }
}
