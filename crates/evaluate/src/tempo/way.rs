//! The rows of a comparison, and the way on which the endpoints of each meet.
//!
//! Tempo's endpoints meet in a multicast group on the loopback interface or at a broker that takes
//! announcements; the other brokers are spoken to in their own protocols. Where two cores are
//! enough for all, publishers run on the first. In the peer-to-peer row the subscriber has the
//! second; otherwise the broker has it alone, and the subscriber shares the first with the
//! publishers.

use std::net::{SocketAddr, UdpSocket};

use clap::ValueEnum;
use client::tempo::Channel;
use serde::{Deserialize, Serialize};

use bench::BenchError;
use bench::peers::{Peer, PeerOptions, RunningPeer};
use bench::protocol::Protocol;
use bench::protocol::nats::Nats;
use bench::protocol::nsq::{Acknowledgement, Nsq};

/// Channel of all subscribers that speak NSQ.
const CHANNEL: &str = "tempo";

/// A system in one configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Row {
    /// Tempo's endpoints, from peer to peer.
    SrtmPeer,
    /// Tempo's endpoints and a broker between them.
    SrtmBroker,
    /// nsqd, output buffer off; what is due at once is one MPUB.
    Nsqd,
    /// NATS core; what is due at once is written at once.
    Nats,
}

/// How endpoints find each other and what they speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Tempo, announcements to this multicast group on the loopback interface.
    Group(SocketAddr),
    /// Tempo, announcements to the broker at this address.
    Broker(SocketAddr),
    /// NSQ V2.
    Nsq(SocketAddr),
    /// NATS core.
    Nats(SocketAddr),
}

/// What runs between the endpoints of a row.
#[derive(Debug)]
pub struct Between {
    /// The way that endpoints take.
    pub way: Way,
    /// The broker, if there is one; it ends with this.
    pub broker: Option<RunningPeer>,
}

impl Row {
    /// The name in tables and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::SrtmPeer => "srtm-peer",
            Self::SrtmBroker => "srtm-broker",
            Self::Nsqd => "nsqd",
            Self::Nats => "nats",
        }
    }

    /// The core that the subscriber runs on.
    pub fn subscriber_core(self, programs: &PeerOptions) -> usize {
        match self {
            Self::SrtmPeer => programs.broker_core,
            Self::SrtmBroker | Self::Nsqd | Self::Nats => programs.generator_core,
        }
    }

    /// Starts what runs between the endpoints.
    ///
    /// # Errors
    /// When the broker is missing or does not start.
    pub fn start(self, programs: &PeerOptions) -> Result<Between, BenchError> {
        let with = |peer: Peer, programs: &PeerOptions| peer.start(programs, &[]);
        match self {
            Self::SrtmPeer => Ok(Between {
                way: Way::Group(SocketAddr::from(([239, 255, 77, 78], free_udp_port()?))),
                broker: None,
            }),
            Self::SrtmBroker => {
                let announce = SocketAddr::from(([127, 0, 0, 1], free_udp_port()?));
                let mut programs = programs.clone();
                let flags = ["--announce-address".to_owned(), announce.to_string()];
                programs.srtm_args.extend(flags);
                Ok(Between {
                    way: Way::Broker(announce),
                    broker: Some(with(Peer::Srtm, &programs)?),
                })
            }
            Self::Nsqd => {
                let broker = with(Peer::Nsqd, programs)?;
                Ok(Between {
                    way: Way::Nsq(broker.target.address),
                    broker: Some(broker),
                })
            }
            Self::Nats => {
                let broker = with(Peer::Nats, programs)?;
                Ok(Between {
                    way: Way::Nats(broker.target.address),
                    broker: Some(broker),
                })
            }
        }
    }
}

impl Way {
    /// Where Tempo's endpoints announce themselves; `None` for other protocols.
    pub fn channel(self) -> Option<Channel> {
        match self {
            Self::Group(group) => Some(Channel::Group(group)),
            Self::Broker(broker) => Some(Channel::Broker(broker)),
            Self::Nsq(_) | Self::Nats(_) => None,
        }
    }

    /// The broker's address and protocol for `topic`; `None` for Tempo.
    pub fn protocol(self, topic: &str) -> Option<(SocketAddr, Protocol)> {
        match self {
            Self::Group(_) | Self::Broker(_) => None,
            Self::Nsq(address) => {
                let nsq = Nsq {
                    topic: topic.to_owned(),
                    channel: CHANNEL.to_owned(),
                    acknowledgement: Acknowledgement::Each,
                    unbuffered: true,
                };
                Some((address, Protocol::Nsq(nsq)))
            }
            Self::Nats(address) => {
                let subject = topic.to_owned();
                Some((address, Protocol::Nats(Nats { subject })))
            }
        }
    }
}

/// A UDP port that was free a moment ago.
fn free_udp_port() -> Result<u16, BenchError> {
    let bound = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    bound
        .map(|address| address.port())
        .map_err(BenchError::io("find a free UDP port"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for row in Row::value_variants() {
            let value = row.to_possible_value().expect("every row can be chosen");
            assert_eq!(value.get_name(), row.name());
        }
    }

    #[test]
    fn a_way_is_tempo_or_another_protocol() {
        let address: SocketAddr = "127.0.0.1:9".parse().expect("an address");
        for (way, is_tempo) in [
            (Way::Group(address), true),
            (Way::Broker(address), true),
            (Way::Nsq(address), false),
            (Way::Nats(address), false),
        ] {
            assert_eq!(way.channel().is_some(), is_tempo, "{way:?}");
            assert_eq!(way.protocol("t").is_none(), is_tempo, "{way:?}");
            let text = serde_json::to_string(&way).expect("plain data");
            let read: Way = serde_json::from_str(&text).expect("as written");
            assert_eq!(read, way);
        }
    }
}
