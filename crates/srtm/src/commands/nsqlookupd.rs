//! `srtm nsqlookupd`: nsqlookupd's protocol alone, with its command line and log lines.

use std::ffi::OsString;

use broker::http::LogLevel;
use clap::Parser;
use control::lookup;
use tokio::net::TcpListener;

use crate::address::ListenAddress;
use crate::daemon::{Part, Signals, runtime};
use crate::duration::GoDuration;
use crate::error::Failure;
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
    /// Prints the version.
    #[arg(long)]
    version: bool,
}

/// Serves as nsqlookupd would with these arguments.
pub(crate) fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let normal = arguments.into_iter().map(with_two_dashes);
    let flags =
        match Flags::try_parse_from(std::iter::once(OsString::from("nsqlookupd")).chain(normal)) {
            Ok(flags) => flags,
            // Prints help to standard output and mistakes to standard error, with the exit code for it.
            Err(error) => error.exit(),
        };
    if flags.version {
        println!(
            "nsqlookupd v{} (srtm v{})",
            broker::NSQD_VERSION,
            env!("CARGO_PKG_VERSION")
        );
        return Ok(());
    }
    log::start(&flags.log_level, &flags.log_prefix);
    let config = lookup::Config {
        broadcast_address: flags.broadcast_address,
        http_hosts: flags.http.hosts,
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
        let part = Part::spawn(|stopped| lookup::serve(None, tcp, http, config, stopped));
        signals.next().await;
        part.stop().await;
        Ok(())
    })
}

async fn bind(address: &ListenAddress) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind(address.0).await;
    bound.map_err(Failure::io(format!("listening on {address}")))
}

/// Go's flags have one dash or two.
fn with_two_dashes(argument: OsString) -> OsString {
    match argument.to_str() {
        Some(text) if text.starts_with('-') && !text.starts_with("--") && text.len() > 2 => {
            OsString::from(format!("-{text}"))
        }
        _ => argument,
    }
}
