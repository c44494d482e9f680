//! Open-loop load generator, the bare relay as the floor, and the comparison with other brokers.
//!
//! A run is [`generator::run_load`]: a [`load::Load`] says what is due when
//! ([`::workload::Arrivals`]), one thread sends it over thousands of connections ([`publishers`]),
//! one connection receives ([`subscriber`]), and latency counts from the instant at which a message
//! was *due*. The broker has a core of its own, the generator another.
//!
//! Commands are [`Command`]; the program `srtm` offers them under `srtm bench`. Linux only.
//! Measurements use the loopback interface: the network is not part of them, and since the kernel
//! runs the receiving half of a send on the sender's core, a broker's CPU per message is somewhat
//! lower here than with remote clients, for all brokers alike.

pub mod calibrate;
pub mod cluster;
pub mod compare;
pub mod cpu_time;
pub mod error;
pub mod fit;
pub mod generator;
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
pub mod throughput;
pub mod trial;
pub mod workload;

use clap::Subcommand;

pub use error::BenchError;

/// The subcommands of `bench`.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Start one broker, load it, and report latency and CPU per message.
    ///
    /// Examples: srtm bench run --peer relay --publishers 4000 --rate-per-publisher 10; srtm bench run W.toml --peer relay
    Run(Box<compare::RunPeerOptions>),
    /// Start several brokers in turns, load them alike, and print a table.
    ///
    /// Example: srtm bench compare --peers srtm,relay,nsqd --sweep 20000,40000,60000 --throughput
    Compare(Box<compare::CompareOptions>),
    /// Serve as the bare relay that is the floor.
    ///
    /// Example: srtm bench relay --listen 127.0.0.1:4150 --ok --core 1
    Relay(relay::RelayOptions),
    /// Find the highest load that each broker carries under a percentile goal, with an interval.
    ///
    /// Example: srtm bench fit --slo 1ms --peers srtm,nsqd,nats; or of a broker that runs:
    /// srtm bench fit --address 127.0.0.1:4150 --protocol nsq
    Fit(Box<fit::FitOptions>),
}

/// Carries out `command`. `relaunch` are the arguments after which the running program understands these commands:
/// `bench` for `srtm`.
///
/// # Errors
/// When the options are wrong or the measurement failed.
pub fn execute(command: &Command, relaunch: &[String]) -> Result<(), BenchError> {
    match command {
        Command::Run(options) => compare::run(options, relaunch).map(drop),
        Command::Compare(options) => compare::compare(options, relaunch),
        Command::Relay(options) => relay::relay(options),
        Command::Fit(options) => fit::fit(options, relaunch),
    }
}
