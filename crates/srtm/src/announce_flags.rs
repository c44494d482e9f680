//! Flags for Tempo's announcements: of one broker, and of those that `srtm up` starts.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use broker::announce::AnnounceConfig;
use clap::Args;
use wire::announce::Key;

use crate::address::ListenAddress;
use crate::duration::GoDuration;
use crate::error::Failure;

/// How a broker takes part in announcements.
#[derive(Args, Clone, Debug)]
pub(crate) struct AnnounceFlags {
    /// UDP address to take announcements of `srtm pub --peer` and `srtm sub --peer` on [default:
    /// none; the broker takes no part].
    #[arg(long, value_name = "ADDRESS")]
    announce_address: Option<ListenAddress>,
    /// Multicast group to listen to as well.
    #[arg(long, value_name = "ADDRESS", requires = "announce_address")]
    announce_group: Option<SocketAddr>,
    /// Secret that signs announcements, the same at all endpoints and brokers, or @FILE that holds
    /// it.
    #[arg(long, value_name = "TEXT", requires = "announce_address")]
    announce_key: Option<SharedKey>,
    /// Time between two announcements. Each expires after three intervals.
    #[arg(long, value_name = "DURATION", default_value_t = INTERVAL, requires = "announce_address")]
    announce_interval: GoDuration,
}

/// How the brokers of `srtm up` take part in announcements.
#[derive(Args, Clone, Debug)]
pub(crate) struct AnnouncePortFlags {
    /// UDP port of the first broker for announcements, on the address of --http. Each further
    /// broker takes the next port [default: none; brokers take no part].
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    announce_base_port: Option<u16>,
    /// Secret that signs announcements, the same at all endpoints and brokers, or @FILE that holds
    /// it.
    #[arg(long, value_name = "TEXT", requires = "announce_base_port")]
    announce_key: Option<SharedKey>,
    /// Time between two announcements. Each expires after three intervals.
    #[arg(long, value_name = "DURATION", default_value_t = INTERVAL, requires = "announce_base_port")]
    announce_interval: GoDuration,
}

/// A port for each broker of one machine, and what all announcements there have in common.
#[derive(Clone, Debug)]
pub(crate) struct AnnouncePorts {
    ip: IpAddr,
    base_port: u16,
    key: Option<SharedKey>,
    interval: GoDuration,
}

/// A key, and the text that stands for it on a command line. `Debug` shows neither.
#[derive(Clone)]
pub(crate) struct SharedKey {
    written: String,
    key: Key,
}

const INTERVAL: GoDuration = GoDuration(Duration::from_secs(1));

impl AnnounceFlags {
    /// What these flags describe, if they ask for it.
    pub(crate) fn config(self) -> Option<AnnounceConfig> {
        Some(AnnounceConfig {
            address: self.announce_address?.0,
            group: self.announce_group,
            key: self.announce_key.map(|shared| shared.key),
            interval: self.announce_interval.0,
        })
    }
}

impl AnnouncePortFlags {
    /// Whether they ask for it.
    pub(crate) fn is_given(&self) -> bool {
        self.announce_base_port.is_some()
    }

    /// What these flags describe on `ip`, if they ask for it.
    pub(crate) fn ports(&self, ip: IpAddr) -> Option<AnnouncePorts> {
        Some(AnnouncePorts {
            ip,
            base_port: self.announce_base_port?,
            key: self.announce_key.clone(),
            interval: self.announce_interval,
        })
    }
}

impl AnnouncePorts {
    /// Where broker `number`, counted from 0, takes announcements.
    ///
    /// # Errors
    /// [`Failure::Usage`] where there is no such port.
    pub(crate) fn address(&self, number: u32) -> Result<SocketAddr, Failure> {
        let port = u16::try_from(u32::from(self.base_port) + number);
        let port = port.map_err(|_| {
            let (base, broker) = (self.base_port, number + 1);
            Failure::Usage(format!(
                "--announce-base-port {base} leaves no port for broker {broker}; use a lower one"
            ))
        })?;
        Ok(SocketAddr::new(self.ip, port))
    }

    /// What broker `number` is set to.
    ///
    /// # Errors
    /// As [`AnnouncePorts::address`].
    pub(crate) fn config(&self, number: u32) -> Result<AnnounceConfig, Failure> {
        Ok(AnnounceConfig {
            address: self.address(number)?,
            group: None,
            key: self.key.as_ref().map(|shared| shared.key.clone()),
            interval: self.interval.0,
        })
    }

    /// The flags of broker `number` for that. A file that holds the key is named, not read out.
    ///
    /// # Errors
    /// As [`AnnouncePorts::address`].
    pub(crate) fn arguments(&self, number: u32) -> Result<Vec<String>, Failure> {
        let mut arguments = vec![
            format!("--announce-address={}", self.address(number)?),
            format!("--announce-interval={}", self.interval),
        ];
        let key = self.key.as_ref();
        arguments.extend(key.map(|shared| format!("--announce-key={}", shared.written)));
        Ok(arguments)
    }

    /// Whether a key is set.
    pub(crate) fn is_signed(&self) -> bool {
        self.key.is_some()
    }
}

impl FromStr for SharedKey {
    type Err = String;

    fn from_str(written: &str) -> Result<SharedKey, String> {
        let text = match written.strip_prefix('@') {
            Some(file) => std::fs::read_to_string(file)
                .map_err(|error| format!("reading the key from {file}: {error}"))?,
            None => written.to_owned(),
        };
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() {
            return Err(String::from("the key is empty"));
        }
        Ok(SharedKey {
            written: written.to_owned(),
            key: Key::from_text(text),
        })
    }
}

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use wire::announce::InstanceId;
    use wire::tempo::put_hello;

    use super::*;

    #[derive(Debug, Parser)]
    struct Broker {
        #[command(flatten)]
        announce: AnnounceFlags,
    }

    #[derive(Debug, Parser)]
    struct Up {
        #[command(flatten)]
        announce: AnnouncePortFlags,
    }

    fn broker(arguments: Vec<String>) -> AnnounceConfig {
        let all = [vec!["broker".to_owned()], arguments].concat();
        let broker = Broker::try_parse_from(all).expect("valid flags");
        broker.announce.config().expect("asked for")
    }

    fn ports(arguments: &[&str]) -> Option<AnnouncePorts> {
        let up = Up::try_parse_from(["up"].iter().chain(arguments));
        up.expect("valid flags")
            .announce
            .ports([127, 0, 0, 1].into())
    }

    /// Keys are equal that sign alike.
    fn signed(key: Option<&Key>) -> Vec<u8> {
        let mut hello = Vec::new();
        put_hello(&mut hello, InstanceId(1), key);
        hello
    }

    #[test]
    fn brokers_are_set_to_what_up_was_told() {
        assert!(ports(&[]).is_none());
        let word = Key::from_text("- a word");
        for (arguments, interval_ms, key) in [
            (&["--announce-base-port=5001"][..], 1000, None),
            (
                &[
                    "--announce-base-port=5001",
                    "--announce-key=- a word",
                    "--announce-interval=60500ms",
                ],
                60_500,
                Some(&word),
            ),
        ] {
            let ports = ports(arguments).expect("asked for");
            for number in [0, 3] {
                let told = broker(ports.arguments(number).expect("there are ports"));
                let address = SocketAddr::from(([127, 0, 0, 1], 5001 + number as u16));
                assert_eq!((told.address, told.group), (address, None));
                assert_eq!(told.interval, Duration::from_millis(interval_ms));
                assert_eq!(signed(told.key.as_ref()), signed(key));
                let config = ports.config(number).expect("there are ports");
                assert_eq!(format!("{told:?}"), format!("{config:?}"));
                assert_eq!(signed(config.key.as_ref()), signed(key));
            }
        }
    }

    #[test]
    fn a_key_is_a_word_or_stands_in_a_file() {
        let path = std::env::temp_dir().join(format!("srtm-announce-key-{}", std::process::id()));
        let written = format!("@{}", path.display());
        std::fs::write(&path, "secret\n").expect("written");
        let shared: SharedKey = written.parse().expect("there is a file");
        let secret = Key::from_text("secret");
        assert_eq!(signed(Some(&shared.key)), signed(Some(&secret)));
        let flag = format!("--announce-key={written}");
        let ports = ports(&["--announce-base-port=1", &flag]).expect("asked for");
        let arguments = ports.arguments(0).expect("there is a port");
        assert!(
            arguments.contains(&flag),
            "the file is named: {arguments:?}"
        );
        assert!(!format!("{ports:?}").contains("secret"));
        std::fs::write(&path, "\n").expect("written");
        for (text, expected) in [(written.as_str(), "empty"), ("", "empty")] {
            let error = text.parse::<SharedKey>().expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
        std::fs::remove_file(&path).expect("there is a file");
        let error = written.parse::<SharedKey>().expect_err("no file");
        assert!(error.contains("reading the key from"), "{error}");
    }

    #[test]
    fn the_last_port_is_the_last() {
        let ports = ports(&["--announce-base-port=65534"]).expect("asked for");
        assert_eq!(ports.address(1).expect("there is one").port(), u16::MAX);
        let error = ports.arguments(2).expect_err("there is none").to_string();
        assert!(
            error.contains("--announce-base-port 65534 leaves no port for broker 3"),
            "{error}"
        );
    }
}
