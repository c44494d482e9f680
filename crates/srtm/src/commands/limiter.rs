//! `srtm limiter`: limits packets of real TCP traffic, until a signal.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ::limiter::config::Intake;
use ::limiter::{Config, Service, Stop};
use broker::http::LogLevel;
use clap::{Args, ValueEnum};

use crate::access_flags::AccessFlags;
use crate::daemon::{Signals, runtime};
use crate::error::Failure;
use crate::http_flags::HttpFlags;
use crate::log;

const EXAMPLES: &str = "\
Examples:
  srtm limiter --config limiter.toml --check       what the file means, without opening anything
  srtm limiter --config limiter.toml --http 127.0.0.1:9090
  srtm limiter --config limiter.toml --record run.jsonl --record-interval 100ms
  srtm limiter --config scale.toml --limiters 490  overrides the count in [sites]";

/// Flags of `srtm limiter`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// Configuration file with devices, sites, classes and limits; docs/limiter.md shows one.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Checks the file, prints what it means, and exits.
    #[arg(long)]
    check: bool,
    /// How packets come in; overrides the file.
    #[arg(long, value_name = "WAY")]
    intake: Option<Way>,
    /// Number of sites of the `[sites]` table; overrides the file.
    #[arg(long, value_name = "N")]
    limiters: Option<u32>,
    /// Address to serve /metrics, /v1/limits and /v1/sites on; overrides the file. Without an
    /// address nothing is served.
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    #[command(flatten)]
    names: HttpFlags,
    #[command(flatten)]
    access: AccessFlags,
    /// File to write JSON lines to: one per interval, and one per flow at the end.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Time that each line of the record covers, such as 100ms.
    #[arg(long, value_name = "TIME", requires = "record")]
    record_interval: Option<clock::DurationText>,
    /// Least severe level to log: debug, info, warn, error or fatal.
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = log::parse_level)]
    log_level: LogLevel,
}

/// How packets come in.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Way {
    /// TUN devices.
    Tun,
    /// The packet filter's queues.
    Nfqueue,
}

/// Runs the limiter.
pub(crate) fn run(flags: Flags) -> Result<(), Failure> {
    log::start(&flags.log_level, "[limiter] ");
    let config = flags.config()?;
    if flags.check {
        print!("{config}");
        return Ok(());
    }
    let stop = Stop::new()?;
    let service = Service::open(&config, &stop)?;
    let runtime = runtime()?;
    let mut signals = runtime.block_on(async { Signals::new() })?;
    runtime.spawn(async move {
        signals.next().await;
        stop.stop();
    });
    tracing::info!("ready: limiting at {} sites", config.site.len());
    let ended = service.run();
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(ended?)
}

impl Flags {
    /// The file, with what the flags say instead.
    fn config(&self) -> Result<Config, Failure> {
        let path = self.config.display();
        let text = std::fs::read_to_string(&self.config);
        let text = text.map_err(Failure::io(format!("reading {path}")))?;
        let usage =
            |error: ::limiter::config::ConfigError| Failure::Usage(format!("{path}: {error}"));
        let mut config = Config::parse(&text, |file| {
            if let (Some(limiters), Some(sites)) = (self.limiters, &mut file.sites) {
                sites.count = limiters;
            }
            match self.intake {
                Some(Way::Tun) => file.intake = Intake::Tun,
                Some(Way::Nfqueue) => file.intake = Intake::Nfqueue,
                None => {}
            }
            if let Some(interval) = self.record_interval {
                let interval_ms = interval.0.as_millis();
                file.record_interval_ms = u64::try_from(interval_ms).unwrap_or(u64::MAX);
            }
        })
        .map_err(usage)?;
        if self.limiters.is_some() && config.sites.is_none() {
            let reason = "--limiters needs a [sites] table with count and first_destination";
            return Err(Failure::Usage(format!("{path}: {reason}")));
        }
        config.http = self.http.or(config.http);
        self.access
            .check(config.http.map(|address| ("--http", address)))?;
        config.access = self.access.in_force();
        config.http_hosts.extend_from_slice(&self.names.hosts);
        config.record = self.record.clone().or(config.record);
        Ok(config)
    }
}
