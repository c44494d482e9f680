//! `srtm broker`: one broker, until a signal.

use std::path::{Path, PathBuf};

use bench::calibrate::file;
use broker::Config;
use broker::http::LogLevel;
use clap::Args;

use crate::access_flags;
use crate::broker_flags::{BrokerFlags, RealtimeFlags};
use crate::configuration::ConfigFlag;
use crate::daemon::{self, Until};
use crate::error::Failure;
use crate::log;

const EXAMPLES: &str = "\
Examples:
  srtm broker
  srtm broker --tcp-address :4150 --http-address :4151 --access access.toml --data-path /var/lib/srtm    other machines reach it
  srtm broker --tcp-address :4150 --access access.toml --controller 10.0.0.7:4170 --link-key link.key --broker-name b1 --broadcast-address 10.0.0.8
  srtm broker --secure /etc/srtm/keys --access access.toml --controller 10.0.0.7:4170 --broker-name b1 --tcp-address :4150 --http-address :4151
  srtm broker --config /etc/srtm/broker.toml --msg-timeout 90s       the file, but for one setting
  srtm broker --threads 1 --mem-queue-size 50000 --drain-timeout 30s
  srtm broker --threads 2 --realtime --cpus 2,3";

/// Flags of `srtm broker`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    #[command(flatten)]
    _config: ConfigFlag,
    #[command(flatten)]
    broker: BrokerFlags,
    #[command(flatten)]
    realtime: RealtimeFlags,
    /// Folder with the result of `srtm calibrate` for this broker [default: --data-path].
    #[arg(long, value_name = "FOLDER", requires = "controller")]
    calibration: Option<PathBuf>,
    /// Least severe level to log: debug, info, warn, error or fatal.
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = log::parse_level)]
    log_level: LogLevel,
    /// Ends when standard input does, as under `srtm up`.
    #[arg(long, hide = true)]
    stop_with_stdin: bool,
}

/// Whether the broker could start with these settings.
pub(crate) fn check(flags: Flags) -> Result<(), Failure> {
    let realtime = flags.realtime.realtime()?;
    let config = Config {
        realtime,
        ..flags.broker.into_config()?
    };
    Ok(config.validate()?)
}

/// Runs the broker.
pub(crate) fn run(flags: Flags) -> Result<(), Failure> {
    let access = flags.broker.access.clone();
    let mut config = flags.broker.into_config()?;
    access.check(access_flags::unguarded(&config))?;
    config.realtime = flags.realtime.realtime()?;
    read_calibration(&mut config, flags.calibration.as_deref())?;
    let name = config
        .controller
        .as_ref()
        .map_or("srtm", |link| &link.broker_name);
    log::start(&flags.log_level, &format!("[{name}] "));
    tracing::info!("srtm {}", env!("CARGO_PKG_VERSION"));
    let until = if flags.stop_with_stdin {
        Until::SignalOrEndOfInput
    } else {
        Until::Signal
    };
    if config.tcp_address.ip().is_loopback() && !flags.stop_with_stdin {
        tracing::info!(
            "only this machine reaches the broker; --tcp-address=:4150 and --http-address=:4151 let others in, and --access=FILE asks who they are"
        );
    }
    daemon::run(config, &flags.log_level, until)
}

/// What `srtm calibrate` found goes to the controller, unless the broker emulates another one.
fn read_calibration(config: &mut Config, folder: Option<&Path>) -> Result<(), Failure> {
    let folder = folder.or(config.data_path.as_deref());
    let (Some(folder), Some(link), None) = (folder, &mut config.controller, config.service_time)
    else {
        return Ok(());
    };
    if let Some(calibration) = file::read(folder)? {
        link.mcap = Some(calibration.mcap);
        link.model = Some(calibration.model);
    }
    Ok(())
}
