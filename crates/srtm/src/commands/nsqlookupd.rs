//! `srtm nsqlookupd`: nsqlookupd's protocol alone, with its command line and log lines.

use std::ffi::OsString;
use std::path::Path;

use broker::http::LogLevel;
use clap::{CommandFactory, Parser};
use control::lookup;
use tokio::net::TcpListener;

use crate::access_flags::AccessFlags;
use crate::address::ListenAddress;
use crate::daemon::{Part, Signals, runtime};
use crate::duration::GoDuration;
use crate::error::Failure;
use crate::go_flags::Fate::{Ignored, Own, Passed};
use crate::go_flags::{Asked, Given, Table};
use crate::http_flags::HttpFlags;
use crate::log;

/// Starts a lookup server that takes nsqlookupd's flags, with one dash or two.
#[derive(Debug, Parser)]
#[command(name = "nsqlookupd", disable_version_flag = true, max_term_width = 100)]
struct Flags {
    /// Address that nsqds register at, by TCP.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:4160")]
    tcp_address: ListenAddress,
    /// Address for HTTP.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:4161")]
    http_address: ListenAddress,
    #[command(flatten)]
    http: HttpFlags,
    #[command(flatten)]
    access: AccessFlags,
    /// Address of this host that clients are given [default: the host's name].
    #[arg(long, value_name = "HOST")]
    broadcast_address: Option<String>,
    /// How long a producer may be silent before lookups leave it out.
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    inactive_producer_timeout: GoDuration,
    /// How long lookups leave out a producer that was tombstoned.
    #[arg(long, value_name = "DURATION", default_value = "45s")]
    tombstone_lifetime: GoDuration,
    /// Least severe level to log: debug, info, warn, error or fatal.
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = log::parse_level)]
    log_level: LogLevel,
    /// Prefix of each log line.
    #[arg(long, value_name = "TEXT", default_value = "[nsqlookupd] ")]
    log_prefix: String,
}

/// nsqlookupd 1.3.0's flags, and what becomes of each.
pub(crate) const TABLE: Table = Table {
    program: "nsqlookupd",
    flags: &[
        ("version", true, Own),
        ("config", false, Own),
        ("log-level", false, Passed),
        ("log-prefix", false, Passed),
        (
            "verbose",
            true,
            Ignored("it has no effect in nsqlookupd either"),
        ),
        ("tcp-address", false, Passed),
        ("http-address", false, Passed),
        ("broadcast-address", false, Passed),
        ("inactive-producer-timeout", false, Passed),
        ("tombstone-lifetime", false, Passed),
    ],
    keys: &[],
    keyless: &["version", "config", "verbose"],
    lists: &[],
    own: Flags::command,
};

/// Serves as nsqlookupd would with these arguments.
pub(crate) fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let arguments = arguments.into_iter().map(OsString::into_string);
    let arguments: Result<Vec<String>, _> = arguments.collect();
    let arguments =
        arguments.map_err(|argument| Failure::Usage(format!("{argument:?} is not UTF-8")))?;
    let (given, mut warnings) = match TABLE.read(&arguments)? {
        Asked::Version => {
            println!(
                "nsqlookupd v{} (srtm v{})",
                broker::NSQD_VERSION,
                env!("CARGO_PKG_VERSION")
            );
            return Ok(());
        }
        Asked::Help => {
            print!("{}{}", TABLE.help(), Flags::command().render_help());
            return Ok(());
        }
        Asked::Start { given, warnings } => (given, warnings),
    };
    let flags = flags_of(given, &mut warnings)?;
    log::start(&flags.log_level, &flags.log_prefix);
    flags
        .access
        .warn([("--http-address", flags.http_address.0)]);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let config = lookup::Config {
        broadcast_address: flags.broadcast_address,
        http_hosts: flags.http.hosts,
        access: flags.access.in_force(),
        encryption: None,
        rules: lookup::registry::Rules {
            inactive_after: flags.inactive_producer_timeout.0,
            tombstone_lifetime: flags.tombstone_lifetime.0,
            ..lookup::registry::Rules::default()
        },
    };
    runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        let tcp = bind(&flags.tcp_address).await?;
        let http = bind(&flags.http_address).await?;
        let address = |listener: &TcpListener| {
            listener
                .local_addr()
                .map_err(Failure::io("reading an address"))
        };
        tracing::info!("TCP: listening on {}", address(&tcp)?);
        tracing::info!("HTTP: listening on {}", address(&http)?);
        let part = Part::spawn(|stopped| lookup::serve(None, Some(tcp), http, config, stopped));
        signals.next().await;
        part.stop().await;
        Ok(())
    })
}

async fn bind(address: &ListenAddress) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind(address.0).await;
    bound.map_err(Failure::io(format!("listening on {address}")))
}

/// Whether nsqlookupd's file at `path` is good; how many keys of it are set.
pub(crate) fn check_file(path: &Path) -> Result<usize, Failure> {
    let (given, unknown) = TABLE.read_file(path, &[])?;
    if !unknown.is_empty() {
        return Err(crate::configuration::usage(unknown));
    }
    let count = given.len();
    flags_of(given, &mut Vec::new())?;
    Ok(count)
}

fn flags_of(given: Vec<Given>, warnings: &mut Vec<String>) -> Result<Flags, Failure> {
    let mut line = vec![String::from("nsqlookupd")];
    for each in given {
        match TABLE.fate(&each.name).unwrap_or(Passed) {
            Own => {}
            Ignored(reason) => warnings.push(format!("-{} is ignored: {reason}", each.name)),
            _ if each.name == "broadcast-address" && each.value.is_empty() => {}
            _ => line.extend(TABLE.argument(&each)),
        }
    }
    Flags::try_parse_from(line)
        .map_err(|error| Failure::Usage(error.render().to_string().trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &[&str]) -> Result<Asked, Failure> {
        let arguments: Vec<_> = line.iter().map(|&argument| argument.to_owned()).collect();
        TABLE.read(&arguments)
    }

    fn started(line: &[&str]) -> Result<(Flags, Vec<String>), Failure> {
        match asked(line)? {
            Asked::Start {
                given,
                mut warnings,
            } => Ok((flags_of(given, &mut warnings)?, warnings)),
            other => panic!("{line:?}: {other:?}"),
        }
    }

    #[test]
    fn every_flag_of_nsqlookupd_has_its_row() {
        let rows = TABLE.flags.iter().map(|(name, is_switch, _)| {
            let kind = if *is_switch { "switch" } else { "value" };
            format!("{name} {kind}")
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort();
        let theirs = include_str!("nsqlookupd/nsqlookupd-1.3.0.txt");
        assert_eq!(rows, theirs.lines().collect::<Vec<_>>());
    }

    #[test]
    fn a_file_is_read_and_flags_go_before_it() {
        let path = std::env::temp_dir().join(format!("srtm-lookupd-{}.cfg", std::process::id()));
        let text = "log_level = \"debug\"\ntcp_address = \"127.0.0.1:1\"\nbroadcast_address = \"\"\ntombstone_lifetime = 1500\nverbose = true\n";
        std::fs::write(&path, text).expect("written");
        let file = format!("--config={}", path.display());
        let (flags, warnings) =
            started(&[&file, "-tcp-address", "127.0.0.1:2", "-verbose=true"]).expect("good");
        assert_eq!(flags.tcp_address.to_string(), "127.0.0.1:2");
        assert_eq!(flags.tombstone_lifetime.to_string(), "1s500ms");
        assert_eq!(flags.log_level.number(), 1);
        assert_eq!(flags.broadcast_address, None);
        assert!(
            warnings[0].contains("`verbose` is no setting"),
            "{warnings:?}"
        );
        assert!(warnings[1].contains("-verbose is ignored"), "{warnings:?}");
        std::fs::remove_file(path).expect("there");
    }

    #[test]
    fn flags_are_read_as_go_reads_them() {
        assert!(matches!(asked(&["-version"]), Ok(Asked::Version)));
        assert!(matches!(asked(&["--help"]), Ok(Asked::Help)));
        assert!(matches!(asked(&["-version=F"]), Ok(Asked::Start { .. })));
        for (line, expected) in [
            ("-colour=red", "not defined: -colour"),
            ("-log-level=loud", "loud"),
            ("-tombstone-lifetime=soon", "soon"),
        ] {
            let error = started(&[line]).expect_err(line).to_string();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
