//! `GET /ping` and `GET /info`, and what the port knows about its process.

use std::borrow::Cow;
use std::net::SocketAddr;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use clock::WallTime;
use http::hostname;
use http::nsq::json;
use serde::Serialize;

use super::{LogLevel, Shared};
use crate::{Config, Handle, NSQD_VERSION, sys};

/// The version of SRTM itself.
const SRTM_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Facts about the process that the HTTP port shows.
#[derive(Clone, Debug)]
pub struct HttpInfo {
    /// The nsqd version told to clients, usually [`NSQD_VERSION`].
    pub version: String,
    /// When the broker started.
    pub start_time: WallTime,
    /// Port of the NSQ listener, as clients are told.
    pub tcp_port: u16,
    /// Port of the HTTP listener, as clients are told.
    pub http_port: u16,
    /// Name of this machine.
    pub hostname: String,
    /// Address told to clients.
    pub broadcast_address: String,
    /// The level in force, readable and settable at `/config/log_level`.
    pub log_level: LogLevel,
    /// Counts of HTTP connections.
    pub counts: http::Counts,
}

impl HttpInfo {
    /// The answers of a broker that starts now and is bound to these addresses.
    #[must_use]
    pub fn new(
        config: &Config,
        tcp: SocketAddr,
        http: SocketAddr,
        log_level: LogLevel,
    ) -> HttpInfo {
        HttpInfo {
            version: NSQD_VERSION.to_owned(),
            start_time: sys::wall_now(),
            tcp_port: config.lookupd.broadcast_tcp_port.unwrap_or(tcp.port()),
            http_port: config.lookupd.broadcast_http_port.unwrap_or(http.port()),
            hostname: hostname(),
            broadcast_address: config.broadcast_address.clone(),
            log_level,
            counts: http::Counts::default(),
        }
    }

    /// The port for NSQ that others are told.
    pub(super) fn tcp_port(&self) -> u16 {
        self.tcp_port
    }

    /// The port for HTTP that others are told.
    pub(super) fn http_port(&self) -> u16 {
        self.http_port
    }

    /// Start of the process in whole Unix seconds.
    pub(super) fn start_time_s(&self) -> u64 {
        self.start_time.as_nanos() / 1_000_000_000
    }
}

/// What `nsqd -version` and the text form of `/stats` say, in nsqd's form: tools take it apart.
#[must_use]
pub fn nsqd_version_line() -> String {
    format!("nsqd v{NSQD_VERSION} (built w/srtm {SRTM_VERSION})")
}

/// `GET /ping`: `OK` as plain text, or 500 and what cannot be done, as in nsqd. Outside nsqd's version 1 API, so without its
/// header.
pub(super) async fn ping(State(service): Shared) -> Response {
    let text = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    let health = health(&service.handle);
    let status = match health.as_ref() {
        "OK" => StatusCode::OK,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, text, health).into_response()
}

/// nsqd's word for how it is.
pub(super) fn health(handle: &Handle) -> Cow<'static, str> {
    if let Some(why) = handle.kept.state().failure {
        return Cow::Owned(format!("NOK - the catalog cannot be written: {why}"));
    }
    match handle
        .backlog
        .as_ref()
        .and_then(|disk| disk.state().failure)
    {
        None => Cow::Borrowed("OK"),
        Some(why) => Cow::Owned(format!("NOK - messages cannot be kept on disk: {why}")),
    }
}

/// `GET /info`.
pub(super) async fn info(State(service): Shared) -> Response {
    let (info, config) = (&service.info, service.handle.config());
    json(&Info {
        version: &info.version,
        broadcast_address: &info.broadcast_address,
        hostname: &info.hostname,
        http_port: info.http_port,
        tcp_port: info.tcp_port,
        start_time: info.start_time_s(),
        max_heartbeat_interval: config.max_heartbeat_interval.as_nanos(),
        max_output_buffer_size: config.max_output_buffer_size,
        max_output_buffer_timeout: config.max_output_buffer_timeout.as_nanos(),
        max_deflate_level: config.max_deflate_level,
        srtm_version: SRTM_VERSION,
    })
}

/// nsqd's fields in nsqd's order, then ours. Durations are nanoseconds, as Go writes them.
#[derive(Serialize)]
struct Info<'a> {
    version: &'a str,
    broadcast_address: &'a str,
    hostname: &'a str,
    http_port: u16,
    tcp_port: u16,
    start_time: u64,
    max_heartbeat_interval: u128,
    max_output_buffer_size: u32,
    max_output_buffer_timeout: u128,
    max_deflate_level: u32,
    srtm_version: &'static str,
}

/// Resident memory of this process in bytes, 0 if the system does not tell.
pub(crate) fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kibibytes = status.lines().find_map(|line| {
        line.strip_prefix("VmRSS:")?
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    });
    kibibytes.unwrap_or(0u64) * 1024
}
