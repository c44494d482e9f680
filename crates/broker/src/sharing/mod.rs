//! Limits that brokers share by gossip (DRL): estimate intervals, and what brokers tell each other of them.
//!
//! The reactor that owns a topic owns its policy. At the end of each interval it is asked for an update, and given what is
//! known of the others; both are values in its post, and nothing is done per message. What is said and heard goes through
//! a UDP port of the broker's own and the state machine of [`gossip::Node`]. Who takes part is a list that the
//! controller sends ([`link::Sharers`]); without the controller the last one stays. A broker without a controller is alone,
//! and its limits are whole.
//!
//! Not here: what a policy makes of an update ([`limit::sharing`]), and what it does to a message (`topic`).

mod gossiper;
mod intervals;

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use limit::sharing::Remote;
use link::Sharers;
use rustc_hash::FxHashMap;
use tokio::sync::{Notify, watch};
use wire::gossip::Key;

use crate::topic::LimitNumber;
use crate::{BrokerError, Handle};
use intervals::Intervals;

/// What is known of the others, by limit.
pub type Remotes = FxHashMap<LimitNumber, Remote>;

/// How a broker shares limits with others.
#[derive(Clone, Debug, Default)]
pub struct SharingConfig {
    /// UDP address for gossip, as others reach it; `None`: that of the NSQ listener, by UDP.
    pub address: Option<SocketAddr>,
    /// What signs gossip; `None`: what the controller hands out.
    pub key: Option<Key>,
}

/// What became of gossip.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharingFigures {
    /// Brokers on the list, this one included; 0 without one.
    pub brokers: u32,
    /// Of those, the ones that gossip is exchanged with, this one included.
    pub connected: u32,
    /// Number of the list.
    pub generation: u64,
    /// Intervals that were ended.
    pub intervals: u64,
    /// Counts of datagrams, by what became of them.
    pub datagrams: Vec<(&'static str, u64)>,
    /// Bytes sent with the headers of IP and UDP, by what they were for.
    pub sent_bytes: Vec<(&'static str, u64)>,
    /// Why the list in force cannot be followed, if it cannot.
    pub problem: Option<String>,
}

/// Where lists of brokers come in and figures are to be seen.
#[derive(Clone, Debug, Default)]
pub struct SharingBoard(Arc<Board>);

#[derive(Debug, Default)]
struct Board {
    sharers: watch::Sender<Option<Arc<Sharers>>>,
    figures: Mutex<SharingFigures>,
    began: Notify,
}

impl SharingBoard {
    /// The figures at this moment.
    #[must_use]
    pub fn figures(&self) -> SharingFigures {
        self.lock().clone()
    }

    /// A list of brokers came from the controller; it takes the place of the one before.
    pub(crate) fn listed(&self, sharers: Sharers) {
        self.0.sharers.send_replace(Some(Arc::new(sharers)));
    }

    /// There is a limit to share.
    pub(crate) fn began(&self) {
        self.0.began.notify_one();
    }

    fn show(&self, figures: SharingFigures) {
        *self.lock() = figures;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, SharingFigures> {
        self.0
            .figures
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The UDP port for gossip, bound, and what is needed to use it.
#[derive(Debug)]
pub struct SharingPort {
    config: SharingConfig,
    socket: Option<gossiper::Port>,
}

impl SharingPort {
    /// Binds the port where `takes_part`: without an address of its own at that of the NSQ listener, or, where its number is
    /// taken or it listens on all addresses of `host`, at one that the system chooses.
    ///
    /// # Errors
    /// [`BrokerError::Io`] where an address that was asked for cannot be bound.
    pub fn bind(
        config: SharingConfig,
        tcp: SocketAddr,
        host: &str,
        takes_part: bool,
    ) -> Result<SharingPort, BrokerError> {
        let socket = match (config.address, takes_part) {
            (_, false) => None,
            (Some(address), true) => Some(gossiper::Port::bind(address).map_err(|source| {
                let what = format!("listening for gossip on {address}");
                BrokerError::Io { what, source }
            })?),
            (None, true) => reachable(tcp, host).and_then(|address| {
                let anywhere = SocketAddr::new(address.ip(), 0);
                let bound =
                    gossiper::Port::bind(address).or_else(|_| gossiper::Port::bind(anywhere));
                bound.ok()
            }),
        };
        Ok(SharingPort { config, socket })
    }

    /// Where other brokers gossip with this one; `None`: they cannot.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.socket.as_ref().map(gossiper::Port::address)
    }

    /// Shares limits until `stop` completes.
    pub async fn run(self, handle: Handle, stop: impl Future<Output = ()>) {
        let mut intervals = Intervals::new(handle, self.config, self.socket);
        tokio::select! {
            () = stop => {}
            () = intervals.keep() => {}
        }
        intervals.leave();
    }
}

/// Where a broker that listens on `tcp` can be reached, if that is known: others compare addresses.
fn reachable(tcp: SocketAddr, host: &str) -> Option<SocketAddr> {
    if !tcp.ip().is_unspecified() {
        return Some(tcp);
    }
    let ip: IpAddr = host.parse().ok()?;
    Some(SocketAddr::new(ip, tcp.port()))
}

/// Length of an interval of a broker that is told none; the paper's.
const INTERVAL: Duration = Duration::from_millis(50);

/// Lengths that a controller may ask for.
const INTERVALS_MS: std::ops::RangeInclusive<u64> = 10..=10_000;

#[cfg(test)]
mod tests;
