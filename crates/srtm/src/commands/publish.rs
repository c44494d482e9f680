//! `srtm pub`: publishes messages from standard input, or one message repeatedly.

use std::io::{self, BufRead};
use std::time::Duration;

use clap::Args;
use client::tempo::{Node, PublicationOptions};
use client::{Acknowledgement, Publisher, PublisherOptions};
use wire::TopicName;

use super::peer::PeerFlags;
use crate::error::Failure;
use crate::servers::tls;
use crate::time::{now, sleep_until};
use crate::token_flags::TokenFlags;

const EXAMPLES: &str = "\
Examples:
  echo 21.5 | srtm pub temperature
  srtm pub temperature --message 21.5 --count 10000 --rate 500
  srtm pub temperature --tcp 10.0.0.7:4150 < readings.txt
  srtm pub temperature --peer --message 21.5 --rate 10 --count 100
  srtm pub temperature --peer 10.0.0.7:4151 --key @/etc/srtm.key < readings.txt";

/// How long a subscriber is waited for before anything is published to one.
const SUBSCRIBER_WAIT: Duration = Duration::from_secs(10);
/// How long the last messages may take to be written.
const FLUSH_WAIT: Duration = Duration::from_secs(60);

/// Flags of `srtm pub`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// The topic.
    topic: TopicName,
    /// Publishes this text instead of the lines of standard input.
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// Number of messages to publish [default: all lines, or the message once].
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Messages per second, evenly spaced [default: as fast as the broker accepts them].
    #[arg(long, value_name = "MSG/S", value_parser = rate)]
    rate: Option<f64>,
    /// NSQ address of the broker.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4150")]
    tcp: String,
    #[command(flatten)]
    token: TokenFlags,
    #[command(flatten)]
    peer: PeerFlags,
}

/// Publishes and says how much.
pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    match flags.peer.start()? {
        Some(node) => run_peer(flags, &node),
        None => run_client(flags),
    }
}

/// To a broker, with its acknowledgement.
fn run_client(flags: &Flags) -> Result<(), Failure> {
    let options = PublisherOptions {
        client_id: "srtm-pub".to_owned(),
        token: flags.token.token()?,
        // Stock brokers answer each message instead.
        acknowledgement: Acknowledgement::Cumulative {
            every_messages: 64,
            interval_ms: 5,
        },
        tls: tls(&flags.tcp),
        ..PublisherOptions::default()
    };
    let mut publisher =
        Publisher::connect(&flags.tcp, options).map_err(Failure::client(&flags.tcp))?;
    publish_all(flags, |body| {
        publisher
            .publish(flags.topic.as_str(), body)
            .map_err(Failure::client(&flags.tcp))
    })?;
    publisher.flush().map_err(Failure::client(&flags.tcp))?;
    eprintln!(
        "{} messages accepted on {}",
        publisher.acknowledged(),
        flags.topic
    );
    Ok(())
}

/// To whoever subscribes on the channel.
fn run_peer(flags: &Flags, node: &Node) -> Result<(), Failure> {
    let (topic, place) = (&flags.topic, flags.peer.place());
    let failed = || Failure::client(&place);
    let publisher = node
        .publisher(topic.as_str(), PublicationOptions::default())
        .map_err(failed())?;
    if !publisher.wait_for_subscriber(SUBSCRIBER_WAIT) {
        let what = format!(
            "{place}: waiting for a subscriber of {topic} (messages are not kept for later; start `srtm sub {topic} --peer` \
             with the same --peer, --key and --interface)"
        );
        return Err(Failure::io(what)(io::ErrorKind::TimedOut.into()));
    }
    publish_all(flags, |body| publisher.publish(body).map_err(failed()))?;
    let is_flushed = publisher.flush(FLUSH_WAIT);
    let counts = publisher.counts();
    let lost = counts.unheard;
    eprintln!(
        "{} messages published on {topic}, subscribers: {}{}{}",
        counts.published,
        counts.subscribers,
        if lost > 0 {
            format!("; {lost} had no subscriber")
        } else {
            String::new()
        },
        if is_flushed {
            ""
        } else {
            "; the last ones could not be sent"
        },
    );
    Ok(())
}

/// Publishes what the flags say, as fast as they say.
fn publish_all(
    flags: &Flags,
    publish: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut paced = Paced {
        publish,
        flags,
        start: now(),
        published: 0,
    };
    match &flags.message {
        Some(message) => {
            (0..flags.count.unwrap_or(1)).try_for_each(|_| paced.publish(message.as_bytes()))
        }
        None => paced.publish_lines(io::stdin().lock()),
    }
}

/// Spaces messages evenly from its start on; late ones are not waited for twice.
struct Paced<'a, P> {
    publish: P,
    flags: &'a Flags,
    start: std::time::Instant,
    published: u64,
}

impl<P: FnMut(&[u8]) -> Result<(), Failure>> Paced<'_, P> {
    fn publish(&mut self, body: &[u8]) -> Result<(), Failure> {
        if let Some(rate) = self.flags.rate {
            sleep_until(self.start + Duration::from_secs_f64(self.published as f64 / rate));
        }
        self.published += 1;
        (self.publish)(body)
    }

    /// Empty lines are no messages.
    fn publish_lines(&mut self, mut input: impl BufRead) -> Result<(), Failure> {
        let mut line = Vec::new();
        while self.flags.count.is_none_or(|count| self.published < count) {
            line.clear();
            if input
                .read_until(b'\n', &mut line)
                .map_err(Failure::io("reading standard input"))?
                == 0
            {
                return Ok(());
            }
            let body = line.strip_suffix(b"\n").unwrap_or(&line);
            if !body.is_empty() {
                self.publish(body)?;
            }
        }
        Ok(())
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text
        .parse::<f64>()
        .ok()
        .filter(|rate| (0.001..=1e9).contains(rate));
    rate.ok_or_else(|| format!("{text:?} is not a rate; give messages per second, 0.001 to 1e9"))
}
