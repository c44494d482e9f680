//! Open-loop load generator, the bare relay that is the floor, and the comparison with other brokers.
//!
//! A run is [`generator::run_load`]: a [`load::Load`] says when what is due ([`::workload::Arrivals`]), one thread sends it
//! over thousands of connections ([`publishers`]), one connection receives ([`subscriber`]), and latency counts
//! from the instant at which a message was *due*. The broker has a core of its own, the generator another.
//!
//! Commands are [`Command`]; the program `srtm` offers the same ones under `srtm bench`. Linux only. It measures on
//! the loopback interface: the network is not part of it, and since the kernel runs the receiving half of a send on
//! the sender's core, a broker's CPU per message is somewhat lower here than with remote clients, for all brokers
//! alike.

pub mod calibrate;
pub mod clock_check;
pub mod cluster;
pub mod compare;
pub mod cpu_time;
pub mod error;
pub mod fit;
pub mod generator;
pub mod latency_check;
pub mod limit_check;
pub mod load;
pub mod measurement;
pub mod peers;
pub mod protocol;
pub mod publishers;
pub mod relay;
pub mod report;
pub mod stamp;
pub mod standings;
pub mod subscriber;
pub mod sys;
pub mod tempo;
pub mod throughput;
pub mod trial;
pub mod workload;

use clap::Subcommand;

pub use error::BenchError;

/// The program that `bench calibrate` starts when it is told of no other.
const BUILT_PROGRAM: &str = "target/release/srtm";
/// Where its log lies meanwhile.
const WORK_DIR: &str = "build/bench";

/// The subcommands of `bench`.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Start one broker, load it, and report latency and CPU per message.
    ///
    /// Examples: bench run --peer relay --publishers 4000 --rate-per-publisher 10; bench run W.toml --peer relay
    Run(Box<compare::RunPeerOptions>),
    /// Start several brokers in turns, load them alike, and print a table.
    ///
    /// Example: bench compare --peers srtm,relay,nsqd --sweep 20000,40000,60000 --throughput
    Compare(Box<compare::CompareOptions>),
    /// Serve as the bare relay that is the floor.
    ///
    /// Example: bench relay --listen 127.0.0.1:4150 --ok --core 1
    Relay(relay::RelayOptions),
    /// Load a limited topic beyond its limit and hold every release against the token bucket's theory.
    ///
    /// Example: bench limit --rate 1000 --burst 50 --publishers 100 --rate-per-publisher 20 --group-publishers 100
    Limit(Box<limit_check::LimitOptions>),
    /// Hold the latency that the broker tells, and the one that UDP echoes tell, against the true one.
    ///
    /// Example: bench latency --publishers 100 --measure-ms 30000
    Latency(Box<latency_check::LatencyOptions>),
    /// Show what the kernel's arrival stamps are worth: one load, judged by them and by the time of reading.
    ///
    /// Example: bench clock --levels 1000,3000,6000
    Clock(Box<clock_check::ClockOptions>),
    /// Do things to a live cluster under load (move, kill, stop, fit, shift) and count every message.
    ///
    /// Example: bench cluster moves --srtm target/release/srtm --brokers 3
    Cluster(Box<cluster::ClusterOptions>),
    /// Find what a broker carries under a promise, and what a message costs it; as `srtm calibrate`.
    ///
    /// Example: bench calibrate --quick --srtm target/release/srtm
    Calibrate(Box<calibrate::CalibrateOptions>),
    /// Find the highest load that each broker carries under a percentile goal, with an interval.
    ///
    /// Example: bench fit --slo 1ms --peers srtm,nsqd,nats; or of a broker that runs:
    /// bench fit --address 127.0.0.1:4150 --protocol nsq
    Fit(Box<fit::FitOptions>),
    /// Repeat the evaluation of the Tempo paper: rates, delays, topics, shares.
    ///
    /// Examples: bench tempo rate; bench tempo topics --rows srtm-peer,nsqd; bench tempo shares
    Tempo(Box<tempo::TempoOptions>),
    /// Flood one topic and see what a conformant one beside it notices.
    ///
    /// Example: bench neighbour --rows srtm-shares,srtm-equal,nsqd,nats --rounds 3
    Neighbour(Box<tempo::neighbour::NeighbourOptions>),
}

/// Carries out `command`. `relaunch` are the arguments after which the running program understands these commands:
/// none for `bench`, `bench` for `srtm`.
///
/// # Errors
/// When the options are wrong or the measurement failed.
pub fn execute(command: &Command, relaunch: &[String]) -> Result<(), BenchError> {
    match command {
        Command::Run(options) => compare::run(options, relaunch).map(drop),
        Command::Compare(options) => compare::compare(options, relaunch),
        Command::Relay(options) => relay::relay(options),
        Command::Limit(options) => limit_check::check_limit(options).map(drop),
        Command::Latency(options) => latency_check::check_latency(options).map(drop),
        Command::Clock(options) => clock_check::check_clocks(options).map(drop),
        Command::Cluster(options) => cluster::check(options),
        Command::Fit(options) => fit::fit(options, relaunch),
        Command::Tempo(options) => tempo::execute(options, relaunch),
        Command::Neighbour(options) => tempo::neighbour::neighbour(options, relaunch),
        Command::Calibrate(options) => {
            calibrate::calibrate(options, BUILT_PROGRAM.as_ref(), WORK_DIR.as_ref()).map(drop)
        }
    }
}
