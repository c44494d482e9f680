//! `srtm nsqd`: a broker that takes nsqd's command line and answers with nsqd's lines.
//!
//! For scripts, unit files and images written for nsqd. Flags that tune something SRTM does not have
//! are accepted with a warning; flags that would leave a door open which their user believes shut are
//! refused.

mod flags;

use std::ffi::OsString;
use std::path::PathBuf;

use broker::http::{LogLevel, nsqd_version_line};
use clap::Parser;

use crate::broker_flags::BrokerFlags;
use crate::daemon::{self, Until};
use crate::error::Failure;
use crate::log;
use flags::{Request, Settings};

/// Starts a broker as nsqd would start with these arguments.
pub(crate) fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let arguments: Result<Vec<String>, _> =
        arguments.into_iter().map(OsString::into_string).collect();
    let arguments =
        arguments.map_err(|argument| Failure::Usage(format!("{argument:?} is not UTF-8")))?;
    let settings = match flags::parse(&arguments).map_err(Failure::Usage)? {
        Request::Version => {
            println!("{}", nsqd_version_line());
            return Ok(());
        }
        Request::Help => {
            print!("{}", flags::help());
            return Ok(());
        }
        Request::Start(settings) => settings,
    };
    start(settings)
}

fn start(settings: Settings) -> Result<(), Failure> {
    let level = settings
        .log_level
        .as_deref()
        .map_or(Ok(LogLevel::default()), log::parse_level);
    let level = level.map_err(|reason| Failure::Usage(format!("-log-level: {reason}")))?;
    let broker =
        Translated::try_parse_from(std::iter::once("nsqd".to_owned()).chain(settings.broker))
            .map_err(|error| Failure::Usage(error.render().to_string().trim_end().to_owned()))?;
    let mut config = broker.flags.into_config();
    // nsqd keeps its metadata in the working folder unless told otherwise.
    config.data_path.get_or_insert_with(|| PathBuf::from("."));
    log::start(&level, settings.log_prefix.as_deref().unwrap_or("[nsqd] "));
    tracing::info!("{}", nsqd_version_line());
    tracing::info!("ID: {}", config.node_id);
    for warning in settings.warnings {
        tracing::warn!("{warning}");
    }
    daemon::run(config, &level, Until::Signal)
}

/// nsqd's flags in the broker's own spelling.
#[derive(Debug, Parser)]
#[command(disable_help_flag = true)]
struct Translated {
    #[command(flatten)]
    flags: BrokerFlags,
}
