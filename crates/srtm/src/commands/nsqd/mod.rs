//! `srtm nsqd`: a broker that takes nsqd's command line and answers with nsqd's lines.
//!
//! For scripts, unit files and images written for nsqd. Flags that tune something SRTM does not
//! have are accepted with a warning; flags that would leave open a door that their user believes
//! shut are refused.

pub(crate) mod flags;

use std::ffi::OsString;
use std::path::Path;

use broker::Config;
use broker::http::{LogLevel, nsqd_version_line};
use clap::Parser;

use crate::access_flags::{self, AccessFlags};
use crate::broker_flags::BrokerFlags;
use crate::daemon::{self, Until};
use crate::error::Failure;
use crate::go_flags::Asked;
use crate::log;
use flags::Settings;

/// What nsqd does unless told otherwise: it listens at all addresses, and keeps topics and messages in the working folder.
const NSQD_DEFAULTS: [(&str, &str); 3] = [
    ("--tcp-address=", "0.0.0.0:4150"),
    ("--http-address=", "0.0.0.0:4151"),
    ("--data-path=", "."),
];

/// The same with a certificate.
const NSQD_HTTPS_ADDRESS: (&str, &str) = ("--https-address=", "0.0.0.0:4152");

/// Starts a broker as nsqd would start with these arguments.
pub(crate) fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let arguments: Result<Vec<String>, _> =
        arguments.into_iter().map(OsString::into_string).collect();
    let arguments =
        arguments.map_err(|argument| Failure::Usage(format!("{argument:?} is not UTF-8")))?;
    let settings = match flags::TABLE.read(&arguments)? {
        Asked::Version => {
            println!("{}", nsqd_version_line());
            return Ok(());
        }
        Asked::Help => {
            print!("{}", flags::help());
            return Ok(());
        }
        Asked::Start { given, warnings } => {
            Settings::of(given, warnings).map_err(Failure::Usage)?
        }
    };
    start(settings)
}

/// Whether nsqd's file at `path` is good; how many keys of it are set.
pub(crate) fn check_file(path: &Path) -> Result<usize, Failure> {
    let (given, unknown) = flags::TABLE.read_file(path, &[])?;
    if !unknown.is_empty() {
        return Err(crate::configuration::usage(unknown));
    }
    let count = given.len();
    let settings = Settings::of(given, Vec::new()).map_err(Failure::Usage)?;
    let (config, _) = config(settings.broker)?;
    config.validate()?;
    Ok(count)
}

fn start(settings: Settings) -> Result<(), Failure> {
    let level = settings
        .log_level
        .as_deref()
        .map_or(Ok(LogLevel::default()), log::parse_level);
    let level = level.map_err(|reason| Failure::Usage(format!("-log-level: {reason}")))?;
    let (config, access) = config(settings.broker)?;
    log::start(&level, settings.log_prefix.as_deref().unwrap_or("[nsqd] "));
    tracing::info!("{}", nsqd_version_line());
    tracing::info!("ID: {}", config.node_id);
    for warning in settings.warnings {
        tracing::warn!("{warning}");
    }
    access.warn(access_flags::unguarded(&config));
    daemon::run(config, &level, Until::Signal)
}

/// What flags in the broker's own spelling mean; all that are not there are nsqd's.
fn config(mut arguments: Vec<String>) -> Result<(Config, AccessFlags), Failure> {
    let has_tls = arguments.iter().any(|a| a.starts_with("--tls-cert="));
    let https = has_tls.then_some(NSQD_HTTPS_ADDRESS);
    for (flag, value) in NSQD_DEFAULTS.into_iter().chain(https) {
        if !arguments.iter().any(|argument| argument.starts_with(flag)) {
            arguments.push(format!("{flag}{value}"));
        }
    }
    let all = std::iter::once("nsqd".to_owned()).chain(arguments);
    let broker = Translated::try_parse_from(all)
        .map_err(|error| Failure::Usage(error.render().to_string().trim_end().to_owned()))?;
    let access = broker.flags.access.clone();
    Ok((broker.flags.into_config()?, access))
}

/// nsqd's flags in the broker's own spelling.
#[derive(Debug, Parser)]
#[command(disable_help_flag = true)]
struct Translated {
    #[command(flatten)]
    flags: BrokerFlags,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nsqd_listens_at_all_addresses_unless_told_otherwise() {
        for (arguments, expected) in [
            (&[][..], ["0.0.0.0:4150", "0.0.0.0:4151"]),
            (
                &["--tcp-address=127.0.0.1:1"],
                ["127.0.0.1:1", "0.0.0.0:4151"],
            ),
            (
                &["--http-address=127.0.0.1:2"],
                ["0.0.0.0:4150", "127.0.0.1:2"],
            ),
        ] {
            let arguments = arguments.iter().map(|&argument| argument.to_owned());
            let (config, _) = config(arguments.collect()).expect("valid flags");
            let http = config.http_address.expect("served");
            let bound = [config.tcp_address, http].map(|address| address.to_string());
            assert_eq!(bound, expected);
            let disk = config.backlog.expect("messages go to disk");
            assert_eq!(disk.folder, std::path::Path::new(".").join("srtm.queues"));
        }
    }
}
