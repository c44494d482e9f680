//! Evaluations that do not ship with `srtm`: whether limits, latencies and promises hold live, and
//! the measurements of the papers.
//!
//! `srtm bench limit|latency|clock|cluster|tempo|neighbour` runs the same commands through this
//! program, where it is installed beside `srtm`. Load, brokers and records are those of
//! [`mod@bench`].

mod broker_port;
mod clock_check;
mod cluster;
mod judged;
mod latency_check;
mod limit_check;
mod overflow;
mod tempo;

use std::process::ExitCode;

use bench::{BenchError, relay};
use clap::{Parser, Subcommand};

/// Checks SRTM live on this machine, and repeats what the papers measured.
#[derive(Parser)]
#[command(name = "srtm-evaluate", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Load a limited topic beyond its limit and compare every release with the token bucket's theory.
    ///
    /// Example: srtm-evaluate limit --rate 1000 --burst 50 --publishers 100 --rate-per-publisher 20 --group-publishers 100
    Limit(Box<limit_check::LimitOptions>),
    /// Compare the latency that the broker reports, and the one that UDP echoes measure, with the true one.
    ///
    /// Example: srtm-evaluate latency --publishers 100 --measure-ms 30000
    Latency(Box<latency_check::LatencyOptions>),
    /// Show what the kernel's arrival stamps improve: one load, judged by them and by the time of reading.
    ///
    /// Example: srtm-evaluate clock --levels 1000,3000,6000
    Clock(Box<clock_check::ClockOptions>),
    /// Move, kill, stop, fit and shift in a live cluster under load, and count every message.
    ///
    /// Example: srtm-evaluate cluster moves --srtm target/release/srtm --brokers 3
    Cluster(Box<cluster::ClusterOptions>),
    /// Repeat the evaluation of the Tempo paper: rates, delays, topics, shares.
    ///
    /// Examples: srtm-evaluate tempo rate; srtm-evaluate tempo topics --rows srtm-peer,nsqd; srtm-evaluate tempo shares
    Tempo(Box<tempo::TempoOptions>),
    /// Flood one topic and measure the effect on a conformant one beside it.
    ///
    /// Example: srtm-evaluate neighbour --rows srtm-shares,srtm-equal,nsqd,nats --rounds 3
    Neighbour(Box<tempo::neighbour::NeighbourOptions>),
    /// Compare how fast queues that are longer than memory go to disk and come back, at SRTM and at nsqd.
    ///
    /// Example: srtm-evaluate overflow --messages 200000 --body-bytes 1024 --mem-queue-size 1000 --rounds 5
    Overflow(Box<overflow::OverflowOptions>),
    /// Judge the kept results of checks without running anything; fail if a condition does not hold.
    ///
    /// Example: srtm-evaluate check bench/results/cluster.jsonl
    Check(judged::CheckOptions),
    /// Serve as the bare relay that measurements start as a process.
    #[command(hide = true)]
    Relay(relay::RelayOptions),
}

fn main() -> ExitCode {
    match execute(&Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("srtm-evaluate: {error}");
            ExitCode::FAILURE
        }
    }
}

fn execute(command: &Command) -> Result<(), BenchError> {
    match command {
        Command::Limit(options) => limit_check::check_limit(options).map(drop),
        Command::Latency(options) => latency_check::check_latency(options).map(drop),
        Command::Clock(options) => clock_check::check_clocks(options).map(drop),
        Command::Cluster(options) => cluster::check(options),
        Command::Tempo(options) => tempo::execute(options),
        Command::Neighbour(options) => tempo::neighbour::neighbour(options),
        Command::Overflow(options) => overflow::measure(options),
        Command::Check(options) => judged::check(options, &cluster::JUDGES),
        Command::Relay(options) => relay::relay(options),
    }
}
