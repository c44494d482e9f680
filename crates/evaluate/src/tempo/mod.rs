//! The evaluation of the Tempo paper, live on this machine: rates, delays, topics, CPU shares, and
//! how well topics are isolated.
//!
//! Publishers and subscribers are processes of their own ([`endpoint`]), pinned to cores, that meet
//! in a [`way::Way`]: from peer to peer, through SRTM's broker, or through another one in its own
//! protocol. Delay is measured by the paper's method, marked messages and UDP echoes. docs/tempo.md
//! says what the figures mean and has the paper's beside them.
//!
//! Deliberately absent: several machines. The loopback interface has no wire, and the machine's
//! cores carry publishers, subscribers and broker alike.

mod delay;
pub mod endpoint;
pub mod neighbour;
mod pace;
pub mod rate;
mod render;
pub mod series;
pub mod shares;
pub mod topics;
pub mod trial;
pub mod way;

use clap::{Args, Subcommand};

use bench::BenchError;

/// Options of `srtm-evaluate tempo`.
#[derive(Debug, Clone, Args)]
pub struct TempoOptions {
    /// What to measure.
    #[command(subcommand)]
    pub measurement: Measurement,
}

/// The measurements of the Tempo paper.
#[derive(Debug, Clone, Subcommand)]
pub enum Measurement {
    /// Throughput and delay of one publisher and one subscriber against the sending rate, and the rate they saturate at.
    ///
    /// Examples: srtm-evaluate tempo rate; srtm-evaluate tempo rate --rows srtm-peer --rates 1000,120000 --measure-ms 10000
    Rate(rate::RateOptions),
    /// The distribution of the delay at some rates.
    ///
    /// Example: srtm-evaluate tempo distribution --rows srtm-peer,srtm-broker,nsqd,nats --rates 10000 --markdown
    Distribution(rate::DistributionOptions),
    /// Throughput and delay against the number of topics, one publisher each, all subscribers in one process.
    ///
    /// Example: srtm-evaluate tempo topics --topics 1,2,4,8 --rate-per-publisher 70000
    Topics(topics::TopicsOptions),
    /// Shares of time asked for and obtained, at an endpoint and in the broker.
    ///
    /// Example: srtm-evaluate tempo shares --shares 0.5,0.3,0.2 --measure-ms 10000
    Shares(shares::SharesOptions),
    /// Be a publisher or a subscriber of one of these.
    #[command(hide = true)]
    Endpoint(EndpointOptions),
}

/// Options of an endpoint's process.
#[derive(Debug, Clone, Args)]
pub struct EndpointOptions {
    /// Yield to everybody else.
    #[arg(long)]
    pub background: bool,
    /// What to do, as JSON.
    #[arg(value_name = "TASK")]
    pub task: String,
}

/// Carries out a measurement.
///
/// # Errors
/// When the options are wrong or the measurement failed.
pub fn execute(options: &TempoOptions) -> Result<(), BenchError> {
    match &options.measurement {
        Measurement::Rate(options) => rate::rate(options),
        Measurement::Distribution(options) => rate::distribution(options),
        Measurement::Topics(options) => topics::topics(options),
        Measurement::Shares(options) => shares::shares(options),
        Measurement::Endpoint(options) => endpoint::serve(&options.task, options.background),
    }
}
