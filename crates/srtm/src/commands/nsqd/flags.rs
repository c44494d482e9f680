//! nsqd's flags: which there are, and what becomes of each. docs/nsqd-flags.md is made from this table.

use clap::CommandFactory;

use super::Translated;
use crate::go_flags::Fate::{Ignored, Own, Passed, PassedBut};
use crate::go_flags::{Flag, Given, Table};

/// A command line that starts a broker.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    /// Arguments for [`BrokerFlags`](crate::broker_flags::BrokerFlags).
    pub(super) broker: Vec<String>,
    pub(super) log_level: Option<String>,
    pub(super) log_prefix: Option<String>,
    /// What was accepted and has no effect, and why.
    pub(super) warnings: Vec<String>,
}

const NO_SCAN: &str = "timeouts are kept in order and need no scan";
const NO_TOPOLOGY: &str = "consumers are not preferred by zone";
const NO_EFFECT: &str = "it has no effect in nsqd either";
const NO_UNIX: &str = "an address is HOST:PORT, never the path of a Unix socket";
const ONE_IN_MEMORY: &str = "0 keeps one message of each queue in memory, the others on disk";
const NO_OLD_TLS: &str = "the least is tls1.2: older versions are not spoken";
const NO_HEAP: &str = "there is no garbage collector: `heap_in_use_bytes` is the resident memory, `heap_objects` the messages, the others are 0";

/// Flags of which an empty value means that they are not there.
const MAY_BE_EMPTY: [&str; 12] = [
    "access",
    "auth-http-address",
    "broadcast-address",
    "data-path",
    "https-address",
    "lookupd-tcp-address",
    "statsd-address",
    "tls-cert",
    "tls-client-auth-policy",
    "tls-key",
    "tls-min-version",
    "tls-root-ca-file",
];

/// nsqd 1.3.0's flags, whether they are switches, and their fate here; the last ones are of nsqd's later versions.
const FLAGS: &[Flag] = &[
    ("version", true, Own),
    ("config", false, Own),
    ("log-level", false, Own),
    ("log-prefix", false, Own),
    ("verbose", true, Ignored(NO_EFFECT)),
    ("node-id", false, Passed),
    ("worker-id", true, Ignored(NO_EFFECT)),
    ("https-address", false, Passed),
    ("http-address", false, PassedBut(NO_UNIX)),
    ("tcp-address", false, PassedBut(NO_UNIX)),
    ("auth-http-address", false, Passed),
    ("auth-http-request-method", false, Passed),
    ("broadcast-address", false, Passed),
    ("broadcast-tcp-port", false, Passed),
    ("broadcast-http-port", false, Passed),
    ("lookupd-tcp-address", false, Passed),
    ("http-client-connect-timeout", false, Passed),
    ("http-client-request-timeout", false, Passed),
    ("data-path", false, Passed),
    ("mem-queue-size", false, PassedBut(ONE_IN_MEMORY)),
    ("max-bytes-per-file", false, Passed),
    ("sync-every", false, Passed),
    ("sync-timeout", false, Passed),
    ("queue-scan-worker-pool-max", false, Ignored(NO_SCAN)),
    ("queue-scan-selection-count", false, Ignored(NO_SCAN)),
    ("msg-timeout", false, Passed),
    ("max-msg-timeout", false, Passed),
    ("max-msg-size", false, Passed),
    ("max-req-timeout", false, Passed),
    ("max-body-size", false, Passed),
    ("max-heartbeat-interval", false, Passed),
    ("max-rdy-count", false, Passed),
    ("max-output-buffer-size", false, Passed),
    ("max-output-buffer-timeout", false, Passed),
    ("min-output-buffer-timeout", false, Passed),
    ("output-buffer-timeout", false, Passed),
    ("max-channel-consumers", false, Passed),
    ("statsd-address", false, Passed),
    ("statsd-interval", false, Passed),
    ("statsd-mem-stats", true, PassedBut(NO_HEAP)),
    ("statsd-prefix", false, Passed),
    ("statsd-udp-packet-size", false, Passed),
    ("statsd-exclude-ephemeral", true, Passed),
    ("e2e-processing-latency-percentile", false, Passed),
    ("e2e-processing-latency-window-time", false, Passed),
    ("tls-cert", false, Passed),
    ("tls-key", false, Passed),
    ("tls-client-auth-policy", false, Passed),
    ("tls-root-ca-file", false, Passed),
    ("tls-required", true, Passed),
    ("tls-min-version", false, PassedBut(NO_OLD_TLS)),
    ("deflate", true, Passed),
    ("max-deflate-level", false, Passed),
    ("snappy", true, Passed),
    ("topology-region", false, Ignored(NO_TOPOLOGY)),
    ("topology-zone", false, Ignored(NO_TOPOLOGY)),
    ("enable-experiment", false, Ignored(NO_TOPOLOGY)),
];

/// The same with their names in files.
pub(crate) const TABLE: Table = Table {
    program: "nsqd",
    flags: FLAGS,
    keys: &[
        ("id", "node-id"),
        ("nsqlookupd_tcp_addresses", "lookupd-tcp-address"),
        ("auth_http_addresses", "auth-http-address"),
        (
            "e2e_processing_latency_percentiles",
            "e2e-processing-latency-percentile",
        ),
    ],
    keyless: &["version", "config", "verbose", "worker-id"],
    lists: &["auth-http-address"],
    own: Translated::command,
};

/// One line per flag, with its fate.
pub(super) fn help() -> String {
    let list = TABLE.help();
    format!("{list}srtm broker --help explains them, and has further ones that are taken here.\n")
}

impl Settings {
    /// What so many flags mean, behind what is to be warned of already.
    pub(super) fn of(given: Vec<Given>, warnings: Vec<String>) -> Result<Settings, String> {
        let mut settings = Settings {
            warnings,
            ..Settings::default()
        };
        given.into_iter().try_for_each(|each| settings.take(each))?;
        Ok(settings)
    }

    fn take(&mut self, given: Given) -> Result<(), String> {
        let argument = TABLE.argument(&given);
        let Given { name, value } = given;
        match TABLE.fate(&name).unwrap_or(Passed) {
            // An empty name is as good as none.
            Passed | PassedBut(_) if value.is_empty() && MAY_BE_EMPTY.contains(&name.as_str()) => {}
            PassedBut(but) if name == "mem-queue-size" && value == "0" => {
                self.broker.push(String::from("--mem-queue-size=1"));
                self.warnings.push(format!("-mem-queue-size={but}"));
            }
            PassedBut(_) if name == "tls-min-version" => self.take_least_version(&value)?,
            Passed | PassedBut(_) => self.broker.extend(argument),
            Own if name == "log-level" => self.log_level = Some(value),
            Own if name == "log-prefix" => self.log_prefix = Some(value),
            Own => {}
            Ignored(reason) => self.warnings.push(format!("-{name} is ignored: {reason}")),
        }
        Ok(())
    }

    fn take_least_version(&mut self, value: &str) -> Result<(), String> {
        let value = value.to_ascii_lowercase();
        let least = match value.as_str() {
            "ssl3.0" | "tls1.0" | "tls1.1" => {
                let warning =
                    format!("-tls-min-version={value} is ignored: less than TLS 1.2 is not spoken");
                self.warnings.push(warning);
                "tls1.2"
            }
            "tls1.2" | "tls1.3" => &value,
            _ => {
                return Err(format!(
                    "unknown TLS version {value:?} for -tls-min-version; use tls1.2 or tls1.3"
                ));
            }
        };
        self.broker.push(format!("--tls-min-version={least}"));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
