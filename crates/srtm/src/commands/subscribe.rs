//! `srtm sub`: prints the messages of a channel, or how many arrive per second.

use std::io::{self, Write};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use clap::Args;
use client::tempo::{Node, SubscriptionOptions};
use client::{ClientError, Subscriber, SubscriberOptions};
use hdrhistogram::Histogram;
use wire::{ChannelName, TopicName};

use super::peer::PeerFlags;
use crate::error::Failure;
use crate::servers::tls;
use crate::time::{now, unix_time};
use crate::token_flags::TokenFlags;

const EXAMPLES: &str = "\
Examples:
  srtm sub temperature archive
  srtm sub temperature tail#ephemeral --count 10
  srtm sub temperature archive --no-print --tcp 10.0.0.7:4150
  srtm sub temperature --peer
  srtm sub temperature --peer 10.0.0.7:4151 --key @/etc/srtm.key --no-print";

/// Messages that wait for standard output; beyond, the publishers wait.
const WAITING_MAX: usize = 1024;

/// How long to wait for a message before the output is looked after.
const TURN: Duration = Duration::from_millis(100);
/// Interval of the summary.
const SECOND: Duration = Duration::from_secs(1);
/// Highest age that the histogram tells apart.
const AGE_MAX_US: u64 = 3_600_000_000;

/// Flags of `srtm sub`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// The topic.
    topic: TopicName,
    /// The channel. With --peer it is ignored, because every subscriber gets every message.
    #[arg(required_unless_present = "peer")]
    channel: Option<ChannelName>,
    /// Exits after this many messages.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Prints a summary each second instead of the messages.
    #[arg(long)]
    no_print: bool,
    /// Messages that the broker may send before the first is finished (RDY).
    #[arg(long, value_name = "N", default_value_t = 256)]
    ready: u32,
    /// NSQ address of the broker.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4150")]
    tcp: String,
    #[command(flatten)]
    token: TokenFlags,
    #[command(flatten)]
    peer: PeerFlags,
}

/// Receives until the count is reached or a signal ends the process.
pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    match (flags.peer.start()?, &flags.channel) {
        (Some(node), channel) => {
            if let Some(channel) = channel {
                eprintln!(
                    "srtm: channel {channel} is ignored: with --peer every subscriber gets every message"
                );
            }
            run_peer(flags, &node)
        }
        (None, Some(channel)) => run_client(flags, channel),
        (None, None) => Err(Failure::Usage(
            "the channel is missing; give one, as in `srtm sub temperature archive`, or use --peer"
                .to_owned(),
        )),
    }
}

/// From a broker's channel.
fn run_client(flags: &Flags, channel: &ChannelName) -> Result<(), Failure> {
    let client_failed = || Failure::client(&flags.tcp);
    let options = SubscriberOptions {
        client_id: "srtm-sub".to_owned(),
        token: flags.token.token()?,
        ready_messages: flags.ready,
        output_buffer_timeout: Some(Duration::ZERO),
        tls: tls(&flags.tcp),
        ..SubscriberOptions::default()
    };
    let mut subscriber =
        Subscriber::connect(&flags.tcp, flags.topic.as_str(), channel.as_str(), options)
            .map_err(client_failed())?;
    let mut output = Output::new(flags.no_print)?;
    let mut left = flags.count.unwrap_or(u64::MAX);
    while left > 0 {
        match subscriber.next_message_within(TURN) {
            Ok(Some(message)) => {
                let id = message.id;
                // Finished only when it is out: what was not printed is sent again to the next one.
                if output.take(message.body, Some(message.timestamp_ns))? == Reader::Gone {
                    return Ok(());
                }
                subscriber.finish(id).map_err(client_failed())?;
                left -= 1;
            }
            Ok(None) => {}
            Err(error @ ClientError::Refused { .. }) if !error.is_fatal() => {
                eprintln!("srtm: {error}")
            }
            Err(error) => return Err(client_failed()(error)),
        }
        output.summarise_when_due();
    }
    output.summarise();
    subscriber.close().map_err(client_failed())
}

/// From whoever publishes on the channel.
fn run_peer(flags: &Flags, node: &Node) -> Result<(), Failure> {
    let mut output = Output::new(flags.no_print)?;
    let (bodies, received) = sync_channel::<Vec<u8>>(WAITING_MAX);
    let options = SubscriptionOptions::default();
    let _subscription = node
        .subscribe(flags.topic.as_str(), options, move |message| {
            // The command may have all that it wanted.
            let _ended = bodies.send(message.body.to_vec());
        })
        .map_err(Failure::client(&flags.peer.place()))?;
    let mut left = flags.count.unwrap_or(u64::MAX);
    while left > 0 {
        if let Ok(body) = received.recv_timeout(TURN) {
            if output.take(&body, None)? == Reader::Gone {
                break;
            }
            left -= 1;
        }
        output.summarise_when_due();
    }
    output.summarise();
    // Before the endpoint ends, so that its threads do not wait for room.
    drop(received);
    Ok(())
}

/// Whether anybody reads standard output.
#[derive(PartialEq, Eq)]
enum Reader {
    There,
    Gone,
}

/// Where messages go: to standard output, or into a summary.
struct Output {
    summary: Option<Summary>,
}

struct Summary {
    since: Instant,
    messages: u64,
    ages_us: Histogram<u64>,
}

impl Output {
    fn new(is_summary: bool) -> Result<Output, Failure> {
        let summary = if is_summary {
            Some(Summary {
                since: now(),
                messages: 0,
                ages_us: histogram()?,
            })
        } else {
            None
        };
        Ok(Output { summary })
    }

    /// Prints a message or counts it, with its age where it says when it was published.
    fn take(&mut self, body: &[u8], timestamp_ns: Option<i64>) -> Result<Reader, Failure> {
        if let Some(summary) = &mut self.summary {
            summary.messages += 1;
            if let Some(timestamp_ns) = timestamp_ns {
                let age_ns = unix_time()
                    .as_nanos()
                    .saturating_sub(u128::try_from(timestamp_ns).unwrap_or(0));
                let age_us = u64::try_from(age_ns / 1000).unwrap_or(u64::MAX);
                summary.ages_us.saturating_record(age_us);
            }
            return Ok(Reader::There);
        }
        let mut out = io::stdout().lock();
        match out.write_all(body).and_then(|()| out.write_all(b"\n")) {
            Ok(()) => Ok(Reader::There),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
            Err(error) => Err(Failure::io("writing to standard output")(error)),
        }
    }

    fn summarise_when_due(&mut self) {
        if self
            .summary
            .as_ref()
            .is_some_and(|summary| now() - summary.since >= SECOND)
        {
            self.summarise();
        }
    }

    fn summarise(&mut self) {
        let Some(summary) = &mut self.summary else {
            return;
        };
        let elapsed_s = (now() - summary.since).as_secs_f64();
        println!("{}", line(summary.messages, &summary.ages_us, elapsed_s));
        summary.messages = 0;
        summary.ages_us.reset();
        summary.since = now();
    }
}

/// One line of the summary.
fn line(messages: u64, ages_us: &Histogram<u64>, elapsed_s: f64) -> String {
    let rate = messages as f64 / elapsed_s.max(1e-9);
    if ages_us.is_empty() {
        return format!("{rate:>10.0} msg/s");
    }
    let ms = |quantile: f64| ages_us.value_at_quantile(quantile) as f64 / 1000.0;
    format!(
        "{rate:>10.0} msg/s   age p50 {:>9.3} ms   p99 {:>9.3} ms   max {:>9.3} ms",
        ms(0.5),
        ms(0.99),
        ms(1.0)
    )
}

/// Ages of messages in microseconds.
pub(super) fn histogram() -> Result<Histogram<u64>, Failure> {
    let made = Histogram::new_with_bounds(1, AGE_MAX_US, 3);
    made.map_err(|error| Failure::io("making a histogram")(io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_give_rate_and_ages() {
        let mut ages_us = histogram().expect("bounds are valid");
        assert_eq!(line(0, &ages_us, 1.0).trim(), "0 msg/s");
        for _ in 0..500 {
            ages_us.saturating_record(2000);
        }
        let line = line(500, &ages_us, 0.5);
        assert!(
            line.contains("1000 msg/s") && line.contains("p99     2.0"),
            "{line}"
        );
    }
}
