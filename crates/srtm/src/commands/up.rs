//! `srtm up`: everything on one machine. One broker for now.

use std::net::SocketAddr;
use std::path::PathBuf;

use broker::Config;
use broker::http::LogLevel;
use clap::Args;

use crate::address::ListenAddress;
use crate::commands::demo::Demo;
use crate::daemon::{Daemon, Signals, runtime};
use crate::error::Failure;
use crate::log;

const EXAMPLES: &str = "\
Examples:
  srtm up
  srtm up --demo
  srtm up --http 127.0.0.1:8180 --tcp-base-port 5150 --data-dir /var/lib/srtm";

/// Flags of `srtm up`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UpFlags {
    /// Brokers to start; one for now.
    #[arg(long, value_name = "N", default_value_t = 1)]
    brokers: u32,
    /// Address for HTTP.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4180")]
    http: ListenAddress,
    /// Port for NSQ clients, on the address of --http; 0 lets the system choose.
    #[arg(long, value_name = "PORT", default_value_t = 4150)]
    tcp_base_port: u16,
    /// Folder that keeps topics, channels and limits over restarts [default: nothing is kept].
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// Runs a thousand sensors against a limited topic and prints what becomes of their messages.
    #[arg(long)]
    demo: bool,
    /// Least important lines that are logged: debug, info, warn, error or fatal.
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = log::parse_level)]
    log_level: LogLevel,
}

/// Starts, shows where to look, and waits for a signal.
pub(crate) fn run(flags: UpFlags) -> Result<(), Failure> {
    if flags.brokers != 1 {
        return Err(Failure::Usage(format!(
            "--brokers {}: only one broker for now; several need a controller, which is not there yet",
            flags.brokers
        )));
    }
    log::start(&flags.log_level, "[srtm] ");
    let http_address = flags.http.0;
    let config = Config {
        tcp_address: SocketAddr::new(http_address.ip(), flags.tcp_base_port),
        http_address: Some(http_address),
        broadcast_address: http_address.ip().to_string(),
        data_path: flags.data_dir,
        ..Config::default()
    };
    runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        let daemon = Daemon::start(config, &flags.log_level).await?;
        println!("{}", places(&daemon, flags.demo));
        let demo = if flags.demo {
            Some(Demo::start(&daemon).await?)
        } else {
            None
        };
        match &demo {
            Some(demo) => tokio::select! {
                () = signals.next() => {}
                () = demo.print() => {}
            },
            None => signals.next().await,
        }
        // The sensors fall silent first, so that the broker can drain to the demo's subscriber.
        let demo = demo.map(Demo::silence);
        daemon.stop(&mut signals).await;
        demo.map_or(Ok(()), |demo| demo.end())
    })
}

/// Where to look and what to try.
fn places(daemon: &Daemon, is_demo: bool) -> String {
    let tcp = daemon.tcp_address();
    let http = daemon
        .http_address()
        .map_or_else(String::new, |address| format!("http://{address}"));
    let topic = if is_demo { "sensors" } else { "temperature" };
    format!(
        "
NSQ clients     {tcp}
statistics      {http}/stats
contracts       {http}/v1/topics
metrics         {http}/metrics

try             srtm topic set {topic} --rate 1500 --burst 50 --broker {http}
                srtm topic show {topic} --broker {http}
                srtm sub {topic} mine#ephemeral --no-print --tcp {tcp}
                echo hello | srtm pub {topic} --tcp {tcp}

Ctrl-C drains and stops.
"
    )
}
