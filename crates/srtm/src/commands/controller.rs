//! `srtm controller`: the control plane alone, until a signal.

use std::path::PathBuf;

use broker::http::LogLevel;
use clap::Args;

use crate::configuration::ConfigFlag;
use crate::control_flags::ControlFlags;
use crate::controller_daemon::{ControllerDaemon, PortFlags};
use crate::controller_tls_flags::ControllerTlsFlags;
use crate::daemon::{Signals, runtime};
use crate::error::Failure;
use crate::link_key::KeyFile;
use crate::log;

const EXAMPLES: &str = "\
Examples:
  srtm controller
  srtm controller --data-dir /var/lib/srtm --http 10.0.0.7:4180 --link-address 10.0.0.7:4170 --access access.toml
  srtm controller --config /etc/srtm/controller.toml
  srtm keys init /etc/srtm/keys --hosts 10.0.0.7 --brokers b1,b2 && srtm controller --secure /etc/srtm/keys --http 10.0.0.7:4180 --link-address 10.0.0.7:4170 --access access.toml
  srtm broker --controller 10.0.0.7:4170 --link-key link.key --broker-name b1 --tcp-address :4150 --access access.toml    a broker that reports to it";

/// Flags of `srtm controller`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    #[command(flatten)]
    _config: ConfigFlag,
    #[command(flatten)]
    ports: PortFlags,
    #[command(flatten)]
    tls: ControllerTlsFlags,
    /// Folder to keep contracts, publishers and their places in over restarts [default: nothing is
    /// kept].
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    control: ControlFlags,
    /// Least severe level to log: debug, info, warn, error or fatal.
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = log::parse_level)]
    log_level: LogLevel,
}

/// Whether the controller could start with these settings.
pub(crate) fn check(flags: &Flags) -> Result<(), Failure> {
    flags.control.settings().map(drop)
}

/// Runs the controller.
pub(crate) fn run(flags: Flags) -> Result<(), Failure> {
    log::start(&flags.log_level, "[controller] ");
    let settings = flags.control.settings()?;
    let tls = flags.tls.tls()?;
    let ports = flags.ports.ports(tls.is_strict)?;
    runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        let key = match flags.tls.secure() {
            Some(secure) => secure.key_file()?,
            None => KeyFile::open(flags.ports.link_key.as_deref(), flags.data_dir.as_deref())?,
        };
        let daemon = ControllerDaemon::start(settings, ports, key, tls, flags.data_dir, None).await?;
        if daemon.ports.link.ip().is_loopback() {
            tracing::info!(
                "only brokers of this machine reach the controller; --link-address=:4170 and --http=:4180 let others in"
            );
        }
        signals.next().await;
        daemon.stop().await;
        Ok(())
    })
}
