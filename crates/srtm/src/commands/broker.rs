//! `srtm broker`: one broker, until a signal.

use broker::http::LogLevel;
use clap::Args;

use crate::broker_flags::BrokerFlags;
use crate::error::Failure;
use crate::{daemon, log};

const EXAMPLES: &str = "\
Examples:
  srtm broker
  srtm broker --tcp-address 127.0.0.1:4150 --http-address 127.0.0.1:4151 --data-path /var/lib/srtm
  srtm broker --threads 1 --mem-queue-size 50000 --drain-timeout 30s";

/// Flags of `srtm broker`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    #[command(flatten)]
    broker: BrokerFlags,
    /// Least important lines that are logged: debug, info, warn, error or fatal.
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = log::parse_level)]
    log_level: LogLevel,
}

/// Runs the broker.
pub(crate) fn run(flags: Flags) -> Result<(), Failure> {
    log::start(&flags.log_level, "[srtm] ");
    tracing::info!("srtm {}", env!("CARGO_PKG_VERSION"));
    daemon::run(flags.broker.into_config(), &flags.log_level)
}
