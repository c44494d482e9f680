//! `GET` and `PUT /config/{option}`.
//!
//! Every option of nsqd that a broker has can be read, in the form Go gives it (durations are
//! nanoseconds). Two can be written, as in nsqd: `log_level` and `nsqlookupd_tcp_addresses`. A
//! broker that has a controller accepts only the empty list for the latter: it is found at the
//! controller's lookup.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::nsq::{Failure, json as answer_json, text};
use serde_json::{Value, json};

use super::{Service, Shared};
use crate::Config;
use crate::tls::{ClientAuth, TlsRequired, TlsVersion};

/// Longest value of an option, in bytes.
const VALUE_MAX_BYTES: usize = 64 * 1024;

/// The log level in force, shared between `/config/log_level` and whoever writes the log.
///
/// nsqd's numbers: 1 debug, 2 info, 3 warn, 4 error, 5 fatal.
#[derive(Clone, Debug)]
pub struct LogLevel(Arc<AtomicU8>);

impl LogLevel {
    /// The level that nsqd means by a word; `None` if the word is not a level.
    #[must_use]
    pub fn parse(word: &str) -> Option<LogLevel> {
        number_of(word).map(|number| LogLevel(Arc::new(AtomicU8::new(number))))
    }

    /// nsqd's number of the level in force now.
    #[must_use]
    pub fn number(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    /// Changes the level for everyone who shares it; `false` if the word is not a level.
    pub fn set(&self, word: &str) -> bool {
        let number = number_of(word);
        if let Some(number) = number {
            self.0.store(number, Ordering::Relaxed);
        }
        number.is_some()
    }
}

impl Default for LogLevel {
    /// `info`.
    fn default() -> LogLevel {
        LogLevel(Arc::new(AtomicU8::new(2)))
    }
}

fn number_of(word: &str) -> Option<u8> {
    let levels = ["debug", "info", "warn", "error", "fatal"];
    let index = levels
        .iter()
        .position(|level| word.eq_ignore_ascii_case(level))?;
    u8::try_from(index + 1).ok()
}

/// `GET /config/{option}`.
pub(super) async fn read(
    State(service): Shared,
    Path(option): Path<String>,
) -> Result<Response, Failure> {
    value_of(&service, &option)
}

/// `PUT /config/{option}`: sets the option to the body and answers the value in force.
pub(super) async fn write(
    State(service): Shared,
    Path(option): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let body = service
        .room
        .read(&parts.headers, body, VALUE_MAX_BYTES, "INVALID_VALUE")
        .await?
        .bytes;
    if body.is_empty() {
        // nsqd's status for no value is that for a long one.
        return Err(Failure::new(413, "INVALID_VALUE"));
    }
    let taken = match option.as_str() {
        "log_level" => {
            std::str::from_utf8(&body).is_ok_and(|word| service.info.log_level.set(word))
        }
        "nsqlookupd_tcp_addresses" => {
            let obeys = service.handle.config().controller.is_some();
            serde_json::from_slice::<Vec<String>>(&body)
                .is_ok_and(|list| (list.is_empty() || !obeys) && service.handle.lookupds.set(list))
        }
        _ => return Err(Failure::new(400, "INVALID_OPTION")),
    };
    if taken {
        value_of(&service, &option)
    } else {
        Err(Failure::new(400, "INVALID_VALUE"))
    }
}

fn value_of(service: &Service, option: &str) -> Result<Response, Failure> {
    let value = match option {
        "log_level" => Some(json!(service.info.log_level.number())),
        "nsqlookupd_tcp_addresses" => Some(json!(service.handle.lookupds.tcp_addresses())),
        "auth_http_addresses" => Some(json!([])),
        "deflate" => Some(json!(service.handle.config().deflate)),
        "snappy" => Some(json!(service.handle.config().snappy)),
        "broadcast_tcp_port" => Some(json!(service.info.tcp_port())),
        "broadcast_http_port" => Some(json!(service.info.http_port())),
        "statsd_mem_stats" => Some(json!(service.handle.config().statsd.with_memory)),
        "statsd_exclude_ephemeral" => Some(json!(service.handle.config().statsd.without_ephemeral)),
        "e2e_processing_latency_percentiles" => {
            Some(json!(service.handle.config().processing.percentiles))
        }
        _ => number(service.handle.config(), option)
            .map(Value::from)
            .or_else(|| word(service, option))
            .or_else(|| tls(service.handle.config(), option)),
    };
    match value {
        // Go writes a string as it is, everything else as JSON.
        Some(Value::String(word)) => Ok(text(word)),
        Some(value) => Ok(answer_json(&value)),
        None => Err(Failure::new(400, "INVALID_OPTION")),
    }
}

fn number(config: &Config, option: &str) -> Option<u64> {
    let duration =
        |duration: std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    Some(match option {
        "id" => u64::from(config.node_id),
        "mem_queue_size" => config.mem_queue_size as u64,
        "max_msg_size" => u64::from(config.max_msg_size),
        "max_body_size" => u64::from(config.max_body_size),
        "max_rdy_count" => u64::from(config.max_rdy_count),
        "max_deflate_level" => u64::from(config.max_deflate_level),
        "max_output_buffer_size" => u64::from(config.max_output_buffer_size),
        "max_channel_consumers" => config.max_channel_consumers as u64,
        "msg_timeout" => duration(config.msg_timeout),
        "max_msg_timeout" => duration(config.max_msg_timeout),
        "max_req_timeout" => duration(config.max_req_timeout),
        "max_heartbeat_interval" => duration(config.max_heartbeat_interval),
        "max_output_buffer_timeout" => duration(config.max_output_buffer_timeout),
        "min_output_buffer_timeout" => duration(config.min_output_buffer_timeout),
        "output_buffer_timeout" => duration(config.output_buffer_timeout),
        "http_client_connect_timeout" => duration(config.lookupd.connect_timeout),
        "http_client_request_timeout" => duration(config.lookupd.request_timeout),
        "max_bytes_per_file" => config.backlog.as_ref()?.file_bytes_max,
        "sync_every" => config.backlog.as_ref()?.sync_every as u64,
        "sync_timeout" => duration(config.backlog.as_ref()?.sync_timeout),
        "statsd_interval" => duration(config.statsd.interval),
        "statsd_udp_packet_size" => config.statsd.packet_bytes as u64,
        "e2e_processing_latency_window_time" => duration(config.processing.window),
        _ => return None,
    })
}

/// Options of TLS; numbers are Go's and nsqd's.
fn tls(config: &Config, option: &str) -> Option<Value> {
    let tls = config.tls.as_ref();
    let file = |path: Option<&std::path::PathBuf>| {
        let shown = path.map(|path| path.display().to_string());
        json!(shown.unwrap_or_default())
    };
    Some(match option {
        "tls_cert" => file(tls.map(|tls| &tls.certificate)),
        "tls_key" => file(tls.map(|tls| &tls.key)),
        "tls_root_ca_file" => file(tls.and_then(|tls| tls.authorities.as_ref())),
        "tls_client_auth_policy" => json!(match tls.map(|tls| tls.clients) {
            None | Some(ClientAuth::None) => "",
            Some(ClientAuth::Any) => "require",
            Some(ClientAuth::Verified) => "require-verify",
        }),
        "tls_required" => json!(match config.tls_required {
            TlsRequired::No => 0,
            TlsRequired::ExceptHttp => 1,
            TlsRequired::Yes => 2,
        }),
        "tls_min_version" => json!(match tls.map(|tls| tls.least_version) {
            None | Some(TlsVersion::Tls12) => 0x0303,
            Some(TlsVersion::Tls13) => 0x0304,
        }),
        _ => return None,
    })
}

fn word(service: &Service, option: &str) -> Option<Value> {
    let config = service.handle.config();
    let word = match option {
        "tcp_address" => config.tcp_address.to_string(),
        "http_address" => config
            .http_address
            .map(|address| address.to_string())
            .unwrap_or_default(),
        "https_address" => config
            .https_address
            .map(|address| address.to_string())
            .unwrap_or_default(),
        "broadcast_address" => config.broadcast_address.clone(),
        "statsd_address" => config.statsd.address.clone().unwrap_or_default(),
        // nsqd gives it as it is in force.
        "statsd_prefix" => {
            let port = service.info.http_port();
            config.statsd.prefix_on(&config.broadcast_address, port)
        }
        "data_path" => config
            .data_path
            .as_deref()
            .map(|path| path.display().to_string())
            .unwrap_or_default(),
        _ => return None,
    };
    Some(Value::String(word))
}
