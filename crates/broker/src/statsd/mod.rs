//! Figures for statsd, as nsqd sends them: once per interval, over UDP, under nsqd's names.
//!
//! `figures` says what is sent, `packets` how it is divided; here is the socket. Packets of one interval are spread over it, so that a
//! statsd that is shared is not hit by all of them at once. What does not arrive is not sent again.

mod figures;
mod packets;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::MissedTickBehavior;

use crate::stats::StatsFilter;
use crate::{BrokerError, Config, Handle, http};
use figures::{Counted, Memory};
use packets::Packets;

/// Longest wait for the address of statsd.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(1);

/// Packets of an interval are sent within the interval but for this.
const QUIET: Duration = Duration::from_secs(1);

/// Largest packet that may be asked for: what UDP carries.
const PACKET_BYTES_MAX: usize = 65_507;

/// What is sent to statsd. Defaults are nsqd's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsdConfig {
    /// Where it is, `host:port`; `None`: nothing is sent.
    pub address: Option<String>,
    /// Time between two sendings.
    pub interval: Duration,
    /// What all names begin with; `%s` stands for this host and its HTTP port.
    pub prefix: String,
    /// Whether figures of the memory are sent.
    pub with_memory: bool,
    /// Largest packet in bytes; a longer line goes alone.
    pub packet_bytes: usize,
    /// Whether ephemeral topics and channels are left out.
    pub without_ephemeral: bool,
}

impl Default for StatsdConfig {
    fn default() -> StatsdConfig {
        StatsdConfig {
            address: None,
            interval: Duration::from_secs(60),
            prefix: String::from("nsq.%s"),
            with_memory: true,
            packet_bytes: 508,
            without_ephemeral: false,
        }
    }
}

impl StatsdConfig {
    /// Checks ranges.
    pub(crate) fn validate(&self) -> Result<(), BrokerError> {
        let bad = |option, reason| Err(BrokerError::Config { option, reason });
        if self.interval.is_zero() {
            return bad("--statsd-interval", String::from("it is zero; use 60s"));
        }
        if self.packet_bytes == 0 || self.packet_bytes > PACKET_BYTES_MAX {
            let bytes = self.packet_bytes;
            let reason = format!("{bytes} is not within 1..={PACKET_BYTES_MAX} bytes");
            return bad("--statsd-udp-packet-size", reason);
        }
        Ok(())
    }

    /// What names begin with on the broker of that address and HTTP port.
    #[must_use]
    pub fn prefix_on(&self, broadcast_address: &str, http_port: u16) -> String {
        let host = match broadcast_address.contains(':') {
            true => format!("[{broadcast_address}]"),
            false => broadcast_address.to_owned(),
        };
        let host = format!("{host}:{http_port}").replace(['.', ':'], "_");
        let prefix = self.prefix.replace("%s", &host);
        match prefix.is_empty() || prefix.ends_with('.') {
            true => prefix,
            false => format!("{prefix}."),
        }
    }
}

/// Sends figures until `stopped` completes; what was begun then goes out at once.
pub async fn run(handle: Handle, http_port: u16, stopped: impl Future<Output = ()>) {
    let config: &Config = &handle.config;
    let Some(address) = config.statsd.address.as_deref() else {
        return;
    };
    let port = config.lookupd.broadcast_http_port.unwrap_or(http_port);
    let prefix = config.statsd.prefix_on(&config.broadcast_address, port);
    let mut stopped = pin!(stopped);
    let mut ticks = tokio::time::interval(config.statsd.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first figures are of the first interval.
    ticks.tick().await;
    let mut before = Counted::default();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = &mut stopped => return,
        }
        let Some(packets) = collect(&handle, &prefix, &mut before).await else {
            continue;
        };
        tracing::info!("STATSD: pushing stats to {address}");
        let socket = match connect(address).await {
            Ok(socket) => socket,
            Err(error) => {
                tracing::error!("failed to create UDP socket to statsd({address}): {error}");
                continue;
            }
        };
        let packets = packets.all();
        let spread = config.statsd.interval.saturating_sub(QUIET);
        let pause = spread / u32::try_from(packets.len().max(1)).unwrap_or(u32::MAX);
        let mut is_stopped = false;
        for packet in packets {
            // A statsd that is away is no concern of the broker's.
            let _ = socket.send(packet).await;
            if !is_stopped && !pause.is_zero() {
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = &mut stopped => is_stopped = true,
                }
            }
        }
        if is_stopped {
            return;
        }
    }
}

/// What there is to send now; `None` where the broker does not answer.
async fn collect(handle: &Handle, prefix: &str, before: &mut Counted) -> Option<Packets> {
    let stats = handle.stats(StatsFilter::default()).await;
    let stats = stats
        .inspect_err(|error| tracing::warn!("statsd gets no figures this time: {error}"))
        .ok()?;
    let (last, config) = (std::mem::take(before), handle.config.statsd.clone());
    let prefix = prefix.to_owned();
    // Of many topics this takes a while.
    let told = tokio::task::spawn_blocking(move || {
        let mut packets = Packets::new(prefix, config.packet_bytes);
        let counted = figures::put(&stats, &last, config.without_ephemeral, &mut packets);
        if config.with_memory {
            let stored = stats.reactors.iter().map(|reactor| reactor.messages_stored);
            let memory = Memory {
                messages: stored.sum(),
                resident_bytes: http::resident_bytes(),
            };
            figures::put_memory(&memory, &mut packets);
        }
        (packets, counted)
    });
    let (packets, counted) = told.await.ok()?;
    *before = counted;
    Some(packets)
}

/// A socket that sends there.
async fn connect(address: &str) -> io::Result<UdpSocket> {
    let found = tokio::time::timeout(RESOLVE_TIMEOUT, tokio::net::lookup_host(address)).await;
    let found = found
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??
        .next();
    let to = found.ok_or_else(|| io::Error::other("the name has no address"))?;
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(to).await?;
    Ok(socket)
}

#[cfg(test)]
mod tests;
