//! nsqd's flags: which there are, how Go reads them, and what becomes of each.

/// What a command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request {
    Start(Settings),
    Version,
    Help,
}

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

/// What becomes of a flag.
#[derive(Clone, Copy)]
enum Fate {
    /// The broker has the same flag.
    Passed,
    /// Handled here.
    Own,
    /// Accepted without effect, for this reason.
    Ignored(&'static str),
    /// Accepted when it switches something off, otherwise refused for this reason.
    Refused(&'static str),
}

use Fate::{Ignored, Own, Passed, Refused};

const NO_AUTH: &str = "this broker does not ask an auth server, so it would let everybody in";
const NO_CONFIG: &str =
    "this broker does not read configuration files, so their settings would be missing; use flags";
const NO_STATSD: &str = "nothing is sent to statsd; /metrics has the figures";
const NO_SCAN: &str = "timeouts are kept in order and need no scan";
const NO_TOPOLOGY: &str = "consumers are not preferred by zone";
const NO_PERCENTILES: &str = "latencies are always measured; /stats has them under srtm.latency_us";
const NO_EFFECT: &str = "it has no effect in nsqd either";

/// The third word of `-tls-required`.
const TCP_HTTPS: &str = "tcp-https";

/// Flags of which an empty value means that they are not there.
const MAY_BE_EMPTY: [&str; 6] = [
    "https-address",
    "tls-cert",
    "tls-client-auth-policy",
    "tls-key",
    "tls-min-version",
    "tls-root-ca-file",
];

/// nsqd 1.3.0's flags and SRTM's own, whether they are switches, and their fate here.
const FLAGS: &[(&str, bool, Fate)] = &[
    ("abandoned-after", false, Passed),
    ("arrival-clock", false, Passed),
    ("disk-budget", false, Passed),
    ("drain-timeout", false, Passed),
    ("handshake-timeout", false, Passed),
    ("http-host", false, Passed),
    ("max-deferred", false, Passed),
    ("max-channels", false, Passed),
    ("max-connections", false, Passed),
    ("max-topics", false, Passed),
    ("memory-budget", false, Passed),
    ("metrics-max-topics", false, Passed),
    ("threads", false, Passed),
    ("turn-spacing", false, Passed),
    ("version", true, Own),
    ("config", false, Refused(NO_CONFIG)),
    ("log-level", false, Own),
    ("log-prefix", false, Own),
    ("verbose", true, Ignored(NO_EFFECT)),
    ("node-id", false, Passed),
    ("worker-id", true, Ignored(NO_EFFECT)),
    ("https-address", false, Passed),
    ("http-address", false, Passed),
    ("tcp-address", false, Passed),
    ("auth-http-address", false, Refused(NO_AUTH)),
    ("auth-http-request-method", false, Ignored(NO_AUTH)),
    ("broadcast-address", false, Passed),
    ("broadcast-tcp-port", false, Passed),
    ("broadcast-http-port", false, Passed),
    ("lookupd-tcp-address", false, Passed),
    ("http-client-connect-timeout", false, Passed),
    ("http-client-request-timeout", false, Passed),
    ("topology-region", false, Ignored(NO_TOPOLOGY)),
    ("topology-zone", false, Ignored(NO_TOPOLOGY)),
    ("data-path", false, Passed),
    ("mem-queue-size", false, Passed),
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
    ("statsd-address", false, Ignored(NO_STATSD)),
    ("statsd-interval", false, Ignored(NO_STATSD)),
    ("statsd-mem-stats", true, Ignored(NO_STATSD)),
    ("statsd-prefix", false, Ignored(NO_STATSD)),
    ("statsd-udp-packet-size", false, Ignored(NO_STATSD)),
    ("statsd-exclude-ephemeral", true, Ignored(NO_STATSD)),
    (
        "e2e-processing-latency-percentile",
        false,
        Ignored(NO_PERCENTILES),
    ),
    (
        "e2e-processing-latency-window-time",
        false,
        Ignored(NO_PERCENTILES),
    ),
    ("tls-cert", false, Passed),
    ("tls-key", false, Passed),
    ("tls-client-auth-policy", false, Passed),
    ("tls-root-ca-file", false, Passed),
    ("tls-required", true, Passed),
    ("tls-min-version", false, Own),
    ("deflate", true, Passed),
    ("max-deflate-level", false, Passed),
    ("snappy", true, Passed),
    ("enable-experiment", false, Ignored(NO_TOPOLOGY)),
];

/// Reads arguments by the rules of Go's flag package: one dash or two, `-name=value` or `-name value`,
/// switches without a value. What follows the flags is refused where Go would leave it unread.
pub(super) fn parse(arguments: &[String]) -> Result<Request, String> {
    let mut settings = Settings::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let Some(flag) = argument
            .strip_prefix("--")
            .or_else(|| argument.strip_prefix('-'))
        else {
            return Err(format!(
                "unexpected argument {argument:?}: nsqd takes flags only"
            ));
        };
        let (name, value) = flag
            .split_once('=')
            .map_or((flag, None), |(name, value)| (name, Some(value)));
        if matches!(name, "h" | "help") {
            return Ok(Request::Help);
        }
        let Some((_, is_switch, fate)) = FLAGS.iter().find(|(known, ..)| *known == name) else {
            return Err(format!(
                "flag provided but not defined: -{name}; nsqd -help lists the flags"
            ));
        };
        let value = match value {
            Some(value) => value.to_owned(),
            None if *is_switch => "true".to_owned(),
            None => rest
                .next()
                .ok_or_else(|| format!("flag needs an argument: -{name}"))?
                .clone(),
        };
        let is_off = *is_switch && is_false(name, &value)?;
        if name == "version" && !is_off {
            return Ok(Request::Version);
        }
        let value = match *is_switch {
            // Go has several words for each.
            true if is_off => "false".to_owned(),
            true if value != TCP_HTTPS => "true".to_owned(),
            _ => value,
        };
        settings.take(name, value, *fate, is_off)?;
    }
    Ok(Request::Start(settings))
}

/// One line per flag, with its fate.
pub(super) fn help() -> String {
    let mut text = String::from("Usage of nsqd, as srtm provides it:\n");
    for (name, is_switch, fate) in FLAGS {
        let note = match fate {
            Passed | Own => String::new(),
            Ignored(reason) => format!("   (ignored: {reason})"),
            Refused(reason) => format!("   (refused: {reason})"),
        };
        text.push_str(&format!(
            "  -{name}{}{note}\n",
            if *is_switch { "" } else { " value" }
        ));
    }
    text.push_str("srtm broker --help explains them.\n");
    text
}

impl Settings {
    fn take(&mut self, name: &str, value: String, fate: Fate, is_off: bool) -> Result<(), String> {
        match fate {
            // An empty name is as good as none.
            Passed | Own if value.is_empty() && MAY_BE_EMPTY.contains(&name) => {}
            Passed if name == "mem-queue-size" && value == "0" => {
                self.broker.push(String::from("--mem-queue-size=1"));
                let text = "-mem-queue-size=0 keeps one message of each queue in memory, the others on disk";
                self.warnings.push(String::from(text));
            }
            Passed => self.broker.push(format!("--{name}={value}")),
            Own if name == "tls-min-version" => self.take_least_version(&value)?,
            Own if name == "log-level" => self.log_level = Some(value),
            Own if name == "log-prefix" => self.log_prefix = Some(value),
            Own => {}
            Ignored(reason) => self.warnings.push(format!("-{name} is ignored: {reason}")),
            Refused(_) if is_off || value.is_empty() => {}
            Refused(reason) => return Err(format!("-{name} is not supported: {reason}")),
        }
        Ok(())
    }
}

impl Settings {
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

/// Go's words for a switch, and nsqd's third one for `-tls-required`, which is not off.
fn is_false(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(false),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(true),
        TCP_HTTPS if name == "tls-required" => Ok(false),
        _ => Err(format!("invalid boolean value {value:?} for -{name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request, String> {
        let arguments: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        parse(&arguments)
    }

    fn settings(line: &str) -> Settings {
        match parsed(line) {
            Ok(Request::Start(settings)) => settings,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn flags_are_read_as_go_reads_them() {
        let expected = ["--tcp-address=127.0.0.1:1", "--max-rdy-count=7"];
        for line in [
            "-tcp-address=127.0.0.1:1 -max-rdy-count=7",
            "--tcp-address=127.0.0.1:1 --max-rdy-count=7",
            "-tcp-address 127.0.0.1:1 --max-rdy-count 7",
            "-tcp-address 127.0.0.1:1 -version=false -max-rdy-count=7",
        ] {
            assert_eq!(settings(line).broker, expected, "{line}");
        }
        assert_eq!(parsed("-version"), Ok(Request::Version));
        assert_eq!(parsed("-tcp-address=x --version=1"), Ok(Request::Version));
        assert_eq!(parsed("-help"), Ok(Request::Help));
        let own = settings("-log-level=debug -log-prefix=x");
        assert_eq!(
            (own.log_level.as_deref(), own.log_prefix.as_deref()),
            (Some("debug"), Some("x"))
        );
    }

    #[test]
    fn what_we_lack_is_warned_of_or_refused() {
        let tuned = settings(
            "-topology-zone=a -statsd-address=b:1 -statsd-mem-stats -tls-min-version=tls1.0",
        );
        assert_eq!(tuned.warnings.len(), 4);
        assert_eq!(tuned.broker, ["--tls-min-version=tls1.2"]);
        assert!(
            tuned.warnings[0].contains("not preferred by zone"),
            "{:?}",
            tuned.warnings
        );
        for line in ["-tls-cert=", "-tls-min-version=", "-auth-http-address="] {
            assert_eq!(settings(line), Settings::default(), "{line}");
        }
        let cases = [
            ("-tls-required=maybe", "invalid boolean value"),
            ("-tls-min-version=tls2", "use tls1.2 or tls1.3"),
            (
                "-auth-http-address=127.0.0.1:1",
                "does not ask an auth server",
            ),
            ("-config=/etc/nsqd.cfg", "does not read configuration files"),
            ("-colour=red", "not defined: -colour"),
            ("-tcp-address", "needs an argument: -tcp-address"),
            ("-version=maybe", "invalid boolean value"),
            ("start", "unexpected argument"),
        ];
        for (line, expected) in cases {
            let error = parsed(line).expect_err(line);
            assert!(error.contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn switches_have_gos_words() {
        for (line, expected) in [
            ("-snappy", "--snappy=true"),
            ("-deflate=F", "--deflate=false"),
            ("-tls-required=0", "--tls-required=false"),
            ("--tls-required", "--tls-required=true"),
            ("-tls-required=tcp-https", "--tls-required=tcp-https"),
        ] {
            assert_eq!(settings(line).broker, [expected], "{line}");
        }
    }

    #[test]
    fn a_queue_without_memory_has_one_message_there() {
        let own = settings("-mem-queue-size=0");
        assert_eq!(own.broker, ["--mem-queue-size=1"]);
        assert!(
            own.warnings[0].contains("one message"),
            "{:?}",
            own.warnings
        );
        assert_eq!(
            settings("-mem-queue-size=10").broker,
            ["--mem-queue-size=10"]
        );
    }

    #[test]
    fn passed_flags_are_flags_of_the_broker() {
        const FILES: [&str; 2] = ["--tls-cert=c", "--tls-key=k"];
        for (name, is_switch, fate) in FLAGS {
            let value = match *name {
                "tcp-address" | "http-address" | "https-address" | "lookupd-tcp-address" => {
                    "127.0.0.1:0"
                }
                "tls-client-auth-policy" => "require",
                _ if *is_switch => "true",
                "arrival-clock" => "read",
                "turn-spacing" => "50us",
                "abandoned-after" => "1m",
                _ if name.ends_with("timeout") || name.ends_with("interval") => "30s",
                _ => "1",
            };
            if matches!(fate, Passed) {
                let mut all = vec!["nsqd".to_owned(), format!("--{name}={value}")];
                let needed = FILES
                    .iter()
                    .filter(|file| !file.starts_with(&format!("--{name}=")));
                all.extend(needed.map(|&file| file.to_owned()));
                let parsed = <super::super::Translated as clap::Parser>::try_parse_from(all);
                assert!(parsed.is_ok(), "{name}: {parsed:?}");
            }
        }
    }
}
