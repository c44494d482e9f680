//! The speed of one publisher and one subscriber without a broker: messages per second, and the
//! delay of messages.
//!
//! `cargo run --release -p client --example peer_speed [SECONDS [BODY_BYTES]]`
//!
//! Two endpoints in one process meet on the loopback interface. First the publisher sends as fast
//! as the subscriber takes; then at fixed rates, and marked messages measure their delay by UDP
//! echoes, as in Tempo's experiments (the datagram's way back is part of it).

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use client::tempo::{Channel, Node, NodeOptions, PublicationOptions, SubscriptionOptions};
use client::{EchoListener, Echoer};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let seconds: f64 = arguments.next().map_or(Ok(3.0), |text| text.parse())?;
    let body_bytes: usize = arguments.next().map_or(Ok(128), |text| text.parse())?;
    let time = Duration::from_secs_f64(seconds);
    // A port that nobody else has; the group is this run's alone.
    let port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
    let group = SocketAddr::from(([239, 255, 77, 77], port));
    saturate(group, time, body_bytes)?;
    println!("  rate msg/s      p50 us      p99 us    p99.9 us      max us   echoes");
    for rate in [100, 1_000, 10_000, 100_000] {
        pace(group, time, body_bytes, rate)?;
    }
    Ok(())
}

fn node(group: SocketAddr) -> Result<Node, Failure> {
    let options = NodeOptions {
        channel: Channel::Group(group),
        interface: Ipv4Addr::LOCALHOST,
        threads: 1,
        ..NodeOptions::default()
    };
    Ok(Node::start(options)?)
}

/// As many messages as get through.
fn saturate(group: SocketAddr, time: Duration, body_bytes: usize) -> Result<(), Failure> {
    let (publishing, subscribing) = (node(group)?, node(group)?);
    let subscription = subscribing.subscribe("speed", SubscriptionOptions::default(), |_| {})?;
    let publisher = publishing.publisher("speed", PublicationOptions::default())?;
    if !publisher.wait_for_subscriber(Duration::from_secs(10)) {
        return Err("the subscriber was not found within 10 s".into());
    }
    let body = vec![7; body_bytes];
    let start = now();
    while now() - start < time {
        for _ in 0..1000 {
            publisher.publish(&body)?;
        }
    }
    let received = subscription.counts().messages;
    let rate = received as f64 / (now() - start).as_secs_f64();
    println!("{rate:.0} msg/s of {body_bytes} bytes from one publisher to one subscriber");
    Ok(())
}

/// Delays at a fixed rate.
fn pace(group: SocketAddr, time: Duration, body_bytes: usize, rate: u32) -> Result<(), Failure> {
    let (publishing, subscribing) = (node(group)?, node(group)?);
    let mut echoer = Echoer::bind("0.0.0.0:0")?;
    let _subscription =
        subscribing.subscribe("delay", SubscriptionOptions::default(), move |message| {
            echoer.echo(message.body);
        })?;
    let publisher = publishing.publisher("delay", PublicationOptions::default())?;
    if !publisher.wait_for_subscriber(Duration::from_secs(10)) {
        return Err("the subscriber was not found within 10 s".into());
    }
    // At most 1,000 echoes a second are sent.
    let every = (rate / 500).max(1);
    let mut listener = EchoListener::bind("127.0.0.1:0", every)?;
    let body = vec![7; body_bytes];
    let start = now();
    let mut sent = 0;
    while now() - start < time {
        rest_until(start + Duration::from_secs_f64(f64::from(sent) / f64::from(rate)));
        publisher.publish_marked(&body, &mut listener)?;
        sent += 1;
    }
    let mut delays_us = Vec::new();
    while let Some(delay) = listener.next_latency(Duration::from_millis(200)) {
        delays_us.push(delay.as_secs_f64() * 1e6);
    }
    delays_us.sort_by(f64::total_cmp);
    let quantile = |part: f64| -> f64 {
        let last = delays_us.len().saturating_sub(1);
        let index = (part * last as f64).round() as usize;
        delays_us.get(index).copied().unwrap_or(f64::NAN)
    };
    println!(
        "{rate:>12} {:>11.0} {:>11.0} {:>11.0} {:>11.0} {:>8}",
        quantile(0.5),
        quantile(0.99),
        quantile(0.999),
        quantile(1.0),
        delays_us.len()
    );
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "speed is measured in real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the pace of a measurement is one of real time"
)]
fn rest_until(deadline: Instant) {
    let left = deadline.saturating_duration_since(now());
    if !left.is_zero() {
        std::thread::sleep(left);
    }
}
