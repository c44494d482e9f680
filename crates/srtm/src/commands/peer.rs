//! `srtm pub --peer` and `srtm sub --peer`: endpoints of Tempo, on a group or at a broker.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use clap::Args;
use client::tempo::{Channel, DEFAULT_GROUP, Key, Node, NodeOptions, ThreadStart};

use crate::broker_flags::RealtimeFlags;
use crate::error::Failure;

/// Where a broker takes announcements unless told otherwise.
const BROKER_PORT: u16 = 4151;

/// Flags of both commands.
#[derive(Args, Debug)]
pub(crate) struct PeerFlags {
    /// Speaks Tempo: without a broker, found through a multicast or broadcast group, or through a
    /// broker, given the address it takes announcements on. `BROKER,GROUP` uses the broker while it
    /// is heard and the group otherwise [default group: 239.255.77.77:4177]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "", conflicts_with = "tcp")]
    pub(crate) peer: Option<PeerAddress>,
    /// Address of the interface for multicast [default: the system's choice].
    #[arg(long, value_name = "IP", requires = "peer")]
    interface: Option<Ipv4Addr>,
    /// Secret that all endpoints share, or @FILE that holds it.
    #[arg(long, value_name = "TEXT", requires = "peer")]
    key: Option<String>,
    /// Controller that assigns topic identifiers; several have commas between them [default: they are hashed from the names].
    #[arg(long, value_name = "URL", requires = "peer")]
    controller: Option<String>,
    #[command(flatten)]
    realtime: RealtimeFlags,
}

/// An address on the command line, as the channel that it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerAddress(Channel);

impl PeerFlags {
    /// The endpoint that the flags ask for; none without `--peer`.
    pub(crate) fn start(&self) -> Result<Option<Node>, Failure> {
        let on_thread_start = self.on_thread_start()?;
        let Some(PeerAddress(channel)) = self.peer else {
            return match on_thread_start {
                Some(_) => Err(Failure::Usage(
                    "--realtime needs --peer: only then this program has threads of the messaging kernel"
                        .to_owned(),
                )),
                None => Ok(None),
            };
        };
        let options = NodeOptions {
            channel,
            interface: self.interface.unwrap_or(Ipv4Addr::UNSPECIFIED),
            // One may be held up by standard output, and the endpoint must go on announcing itself.
            threads: 2,
            key: self.key()?,
            controller: self.controller.clone(),
            on_thread_start,
            ..NodeOptions::default()
        };
        let node = Node::start(options).map_err(Failure::client(&self.place()))?;
        Ok(Some(node))
    }

    /// Where the endpoint meets others, for messages.
    pub(crate) fn place(&self) -> String {
        match self.peer {
            Some(PeerAddress(Channel::Broker(broker))) => format!("broker {broker}"),
            Some(PeerAddress(Channel::Auto { broker, group })) => {
                format!("broker {broker} or group {group}")
            }
            Some(PeerAddress(Channel::Group(group))) => format!("group {group}"),
            None => "nowhere".to_owned(),
        }
    }

    /// What makes scheduling threads real-time ones, where that is asked for and permitted.
    fn on_thread_start(&self) -> Result<Option<ThreadStart>, Failure> {
        let Some(realtime) = self.realtime.realtime()? else {
            return Ok(None);
        };
        let refused = |error| Failure::Usage(format!("--realtime: {error}"));
        realtime.check().map_err(refused)?;
        realtime.lock_memory().map_err(refused)?;
        let start = move |number| {
            let applied = realtime.apply_to_this_thread(number);
            applied.map_err(std::io::Error::other)
        };
        Ok(Some(ThreadStart::new(start)))
    }

    fn key(&self) -> Result<Option<Key>, Failure> {
        let Some(text) = &self.key else {
            return Ok(None);
        };
        let text = match text.strip_prefix('@') {
            Some(file) => std::fs::read_to_string(file)
                .map_err(Failure::io(format!("reading the key from {file}")))?,
            None => text.clone(),
        };
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() {
            return Err(Failure::Usage("--key: the key is empty".to_owned()));
        }
        Ok(Some(Key::from_text(text)))
    }
}

impl FromStr for PeerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<PeerAddress, String> {
        if text.is_empty() {
            return Ok(PeerAddress(Channel::Group(DEFAULT_GROUP)));
        }
        let Some((broker, group)) = text.split_once(',') else {
            let address = resolve(text)?;
            return Ok(PeerAddress(if is_group(address) {
                Channel::Group(address)
            } else {
                Channel::Broker(address)
            }));
        };
        let (broker, group) = (resolve(broker)?, resolve(group)?);
        if is_group(broker) || !is_group(group) {
            return Err(format!(
                "{text:?}: write the broker's address, a comma and the group's, as in 10.0.0.7:4151,239.255.77.77:4177"
            ));
        }
        Ok(PeerAddress(Channel::Auto { broker, group }))
    }
}

/// Multicast, or what looks like a broadcast address: no broker has one that ends in 255.
fn is_group(address: SocketAddr) -> bool {
    match address.ip() {
        IpAddr::V4(ip) => ip.is_multicast() || ip.octets()[3] == 255,
        IpAddr::V6(ip) => ip.is_multicast(),
    }
}

/// `host:port`; without a port the usual one of what it is.
fn resolve(text: &str) -> Result<SocketAddr, String> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        let port = if is_group(SocketAddr::new(ip, 0)) {
            DEFAULT_GROUP.port()
        } else {
            BROKER_PORT
        };
        return Ok(SocketAddr::new(ip, port));
    }
    let wrong = |reason: String| {
        format!(
            "{text:?} is not an address: {reason}; give a group as 239.255.77.77:4177, or a broker as host:{BROKER_PORT}"
        )
    };
    let mut found = text
        .to_socket_addrs()
        .map_err(|error| wrong(error.to_string()))?;
    found.next().ok_or_else(|| wrong("it has none".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_who_carries_the_messages() {
        for (text, expected) in [
            ("", "Group(239.255.77.77:4177)"),
            ("239.1.2.3", "Group(239.1.2.3:4177)"),
            ("239.1.2.3:5000", "Group(239.1.2.3:5000)"),
            ("192.168.1.255:5000", "Group(192.168.1.255:5000)"),
            ("ff02::77", "Group([ff02::77]:4177)"),
            ("10.0.0.7", "Broker(10.0.0.7:4151)"),
            ("localhost:4151", "Broker"),
            (
                "10.0.0.7,239.1.2.3",
                "Auto { broker: 10.0.0.7:4151, group: 239.1.2.3:4177 }",
            ),
        ] {
            let PeerAddress(channel) = text.parse().expect(text);
            let found = format!("{channel:?}");
            assert!(found.starts_with(expected), "{text}: {found}");
        }
        for text in [
            "10.0.0.7:",
            "temperature",
            "239.1.2.3,10.0.0.7",
            "10.0.0.7,10.0.0.8",
        ] {
            let error = text.parse::<PeerAddress>().expect_err(text);
            assert!(error.contains("239.255.77.77:4177"), "{error}");
        }
    }
}
