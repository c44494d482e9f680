//! The broker under load: started anew for each run, or one that is already running.
//!
//! A fresh broker has no leftovers of the run before. A running one gets a topic for the run alone,
//! `#ephemeral` where NSQ is spoken, so nothing stays behind in it.

use std::net::TcpStream;
use std::time::Duration;

use super::options::{FitOptions, Speech};
use crate::error::BenchError;
use crate::generator::{self, Outcome, RunOptions, Target};
use crate::peers::Peer;
use crate::protocol::Protocol;
use crate::protocol::mqtt::Mqtt;
use crate::protocol::nats::Nats;
use crate::protocol::nsq::{Acknowledgement, Nsq};
use crate::sys;
use crate::workload::Workload;

/// How long messages under way may take after the last send; later ones count as lost.
const DRAIN: Duration = Duration::from_millis(500);
/// Time for a running broker to get rid of a run's connections.
const REST: Duration = Duration::from_millis(300);
/// How long a running broker may take to accept the first connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// One broker of the comparison.
#[derive(Debug)]
pub struct Subject<'a> {
    options: &'a FitOptions,
    relaunch: &'a [String],
    broker: Broker,
    runs: u64,
}

/// The outcome of one load.
#[derive(Debug)]
pub enum Loaded {
    /// It ran to its end.
    Whole(Box<Outcome>),
    /// The broker closed connections, answered an error, or died under it.
    Broken(BenchError),
}

#[derive(Debug)]
enum Broker {
    Started(Peer),
    Running(Target, Speech),
}

impl<'a> Subject<'a> {
    /// The brokers that `options` name.
    pub fn all(options: &'a FitOptions, relaunch: &'a [String]) -> Vec<Self> {
        let subject = |broker| Self {
            options,
            relaunch,
            broker,
            runs: 0,
        };
        match (options.address, options.protocol) {
            (Some(address), Some(speech)) => {
                let target = Target {
                    address,
                    protocol: speech.protocol(0),
                    trust: None,
                    pid: options.pid,
                    core: options.programs.broker_core,
                };
                vec![subject(Broker::Running(target, speech))]
            }
            _ => {
                let peers = options.peers.iter();
                peers.map(|peer| subject(Broker::Started(*peer))).collect()
            }
        }
    }

    /// The name in tables and results.
    pub fn name(&self) -> String {
        match &self.broker {
            Broker::Started(peer) => peer.name().to_owned(),
            Broker::Running(target, _) => target.address.to_string(),
        }
    }

    /// Whether there is something to load, before anything is.
    ///
    /// # Errors
    /// When the program is missing (the text says how it is made), nothing accepts connections at the address, or the
    /// load cannot be sent in the broker's protocol.
    pub fn check(&self) -> Result<(), BenchError> {
        let protocol = match &self.broker {
            Broker::Started(peer) => {
                peer.program(&self.options.programs)
                    .map_err(|error| with_remedy(*peer, error))?;
                peer.protocol()
            }
            Broker::Running(target, speech) => {
                TcpStream::connect_timeout(&target.address, CONNECT_TIMEOUT)
                    .map_err(BenchError::io(format!("connect to {}", target.address)))?;
                speech.protocol(0)
            }
        };
        if self.options.workload.mpub && !matches!(protocol, Protocol::Nsq(_)) {
            let text = "--mpub needs a broker that speaks NSQ".to_owned();
            return Err(BenchError::Options(text));
        }
        Ok(())
    }

    /// Loads the broker once. Every run has a seed of its own, so that repetitions are not the same schedule.
    ///
    /// # Errors
    /// When the broker cannot be started or the load is out of range.
    pub fn load(&mut self, rate: f64) -> Result<(Workload, Loaded), BenchError> {
        self.runs += 1;
        let load = self.options.load(rate);
        let load = Workload {
            seed: load.seed.wrapping_add(self.runs),
            ..load
        };
        let options = RunOptions {
            drain: DRAIN,
            keep_samples: false,
        };
        let outcome = match &self.broker {
            Broker::Started(peer) => {
                let running = peer.start(&self.options.programs, self.relaunch)?;
                generator::run(&load, &running.target, options)
            }
            Broker::Running(target, speech) => {
                sys::pause_for(REST);
                let target = Target {
                    protocol: speech.protocol(self.runs),
                    ..target.clone()
                };
                generator::run(&load, &target, options)
            }
        };
        match outcome {
            Ok(outcome) => Ok((load, Loaded::Whole(Box::new(outcome)))),
            Err(error @ BenchError::Options(_)) => Err(error),
            Err(error) => Ok((load, Loaded::Broken(error))),
        }
    }
}

impl Speech {
    /// The protocol of the generator in run `run`.
    fn protocol(self, run: u64) -> Protocol {
        let topic = format!("fit-{}-{run}", std::process::id());
        let nsq = |acknowledgement| {
            Protocol::Nsq(Nsq {
                topic: format!("{topic}#ephemeral"),
                channel: "fit#ephemeral".to_owned(),
                acknowledgement,
                unbuffered: true,
            })
        };
        match self {
            Self::Nsq => nsq(Acknowledgement::Each),
            Self::NsqAcks => nsq(Acknowledgement::Cumulative),
            Self::Nats => Protocol::Nats(Nats { subject: topic }),
            Self::Mqtt => Protocol::Mqtt(Mqtt {
                topic,
                acknowledged: false,
            }),
            Self::MqttQos1 => Protocol::Mqtt(Mqtt {
                topic,
                acknowledged: true,
            }),
        }
    }
}

/// The same error with what makes the program appear.
fn with_remedy(peer: Peer, error: BenchError) -> BenchError {
    let remedy = match peer {
        _ if peer.is_srtm() => "`cargo build --release -p srtm` makes it, or name one by --srtm",
        Peer::MosquittoQos0 | Peer::MosquittoQos1 => {
            "install mosquitto (bench/peers/build.sh does as root), or name one by --mosquitto"
        }
        Peer::Relay | Peer::RelayOk => return error,
        _ => "bench/peers/build.sh makes it, as `make bench` does",
    };
    match error {
        BenchError::Broker { name, text } => BenchError::Broker {
            name,
            text: format!("{text}; {remedy}"),
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_of_a_running_broker_has_a_topic_of_its_own() {
        for speech in [
            Speech::Nsq,
            Speech::NsqAcks,
            Speech::Nats,
            Speech::Mqtt,
            Speech::MqttQos1,
        ] {
            assert_ne!(speech.protocol(1), speech.protocol(2));
        }
        let Protocol::Nsq(nsq) = Speech::Nsq.protocol(3) else {
            panic!("another protocol");
        };
        assert!(nsq.topic.ends_with("-3#ephemeral") && nsq.topic.len() <= 64);
        assert!(nsq.channel.ends_with("#ephemeral"));
    }

    #[test]
    fn a_missing_program_comes_with_its_remedy() {
        for (peer, remedy) in [
            (Peer::Srtm, "cargo build --release -p srtm"),
            (Peer::Nsqd, "bench/peers/build.sh"),
            (Peer::Nats, "make bench"),
            (Peer::MosquittoQos1, "install mosquitto"),
        ] {
            let missing = BenchError::Broker {
                name: peer.name().to_owned(),
                text: "not found: x".to_owned(),
            };
            let text = with_remedy(peer, missing).to_string();
            assert!(
                text.contains("not found: x; ") && text.contains(remedy),
                "{text}"
            );
        }
    }
}
