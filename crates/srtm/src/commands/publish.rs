//! `srtm pub`: messages from standard input, or one message again and again.

use std::io::{self, BufRead};
use std::time::Duration;

use clap::Args;
use client::{Acknowledgement, Publisher, PublisherOptions};
use wire::TopicName;

use crate::error::Failure;
use crate::time::{now, sleep_until};

const EXAMPLES: &str = "\
Examples:
  echo 21.5 | srtm pub temperature
  srtm pub temperature --message 21.5 --count 10000 --rate 500
  srtm pub temperature --tcp 10.0.0.7:4150 < readings.txt";

/// Flags of `srtm pub`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// The topic.
    topic: TopicName,
    /// Publishes this instead of the lines of standard input.
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// Messages to publish [default: all lines, or the message once].
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Messages per second, evenly spaced [default: as fast as they are accepted].
    #[arg(long, value_name = "MSG/S", value_parser = rate)]
    rate: Option<f64>,
    /// NSQ address of the broker.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4150")]
    tcp: String,
}

/// Publishes and says how much.
pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    let options = PublisherOptions {
        client_id: "srtm-pub".to_owned(),
        // Stock brokers answer each message instead.
        acknowledgement: Acknowledgement::Cumulative {
            every_messages: 64,
            interval_ms: 5,
        },
        ..PublisherOptions::default()
    };
    let publisher = Publisher::connect(&flags.tcp, options).map_err(Failure::client(&flags.tcp))?;
    let mut paced = Paced {
        publisher,
        flags,
        start: now(),
        published: 0,
    };
    match &flags.message {
        Some(message) => {
            for _ in 0..flags.count.unwrap_or(1) {
                paced.publish(message.as_bytes())?;
            }
        }
        None => paced.publish_lines(io::stdin().lock())?,
    }
    paced
        .publisher
        .flush()
        .map_err(Failure::client(&flags.tcp))?;
    eprintln!(
        "{} messages accepted on {}",
        paced.publisher.acknowledged(),
        flags.topic
    );
    Ok(())
}

/// Spaces messages evenly from its start on; late ones are not waited for twice.
struct Paced<'a> {
    publisher: Publisher,
    flags: &'a Flags,
    start: std::time::Instant,
    published: u64,
}

impl Paced<'_> {
    fn publish(&mut self, body: &[u8]) -> Result<(), Failure> {
        if let Some(rate) = self.flags.rate {
            sleep_until(self.start + Duration::from_secs_f64(self.published as f64 / rate));
        }
        self.published += 1;
        self.publisher
            .publish(self.flags.topic.as_str(), body)
            .map_err(Failure::client(&self.flags.tcp))
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
    rate.ok_or_else(|| format!("{text:?} is no rate: give messages per second, 0.001 to 1e9"))
}
