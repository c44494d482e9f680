//! Limits that brokers share by gossip (DRL): estimate intervals, and the demand that brokers tell
//! each other.
//!
//! The reactor that owns a topic owns its policy. At the end of each interval it is asked for an
//! update and given what is known of the others; both are values in its post, and nothing is done
//! per message. Gossip goes through a UDP port of the broker's own and the state machine of
//! [`gossip::Node`]. The controller sends the list of participants ([`link::Sharers`]); without the
//! controller the last list stays. Brokers without a controller find each other from a few
//! addresses ([`gossip::Roster`]), make the list themselves, and compare what each was told of a
//! limit (`agreement`). A broker with neither is alone, and its limits are whole.
//!
//! Not here: what a policy makes of an update ([`limit::sharing`]), and what it does to a message
//! (`topic`).

mod agreement;
mod gathering;
mod gossiper;
mod intervals;
mod port;
mod rounds;
mod sharer;

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use link::{Round, Sharers};
use rustc_hash::FxHashMap;
use tokio::sync::{Notify, mpsc, watch};
use topics::{Known, LimitNumber};
use wire::gossip::Key;

use crate::{BrokerError, Handle, sys};
pub use gathering::Resolved;
use intervals::Intervals;
pub use rounds::Held;
pub use sharer::{Moment, Sharer};

/// What is known of the others, by limit.
pub type Remotes = FxHashMap<LimitNumber, Known>;

/// How a broker shares limits with others.
#[derive(Clone, Debug, Default)]
pub struct SharingConfig {
    /// UDP address for gossip, as others reach it; `None`: that of the NSQ listener, by UDP.
    pub address: Option<SocketAddr>,
    /// What signs gossip; `None`: what the controller hands out.
    pub key: Option<Key>,
    /// Gossip addresses, `host:port`, of brokers to share limits with where no controller says with whom; none: with nobody.
    pub join: Vec<String>,
}

/// Figures of gossip.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharingFigures {
    /// Brokers on the list, this one included; 0 without a list.
    pub brokers: u32,
    /// Of those, the ones that gossip is exchanged with, this one included.
    pub connected: u32,
    /// Number of the list.
    pub generation: u64,
    /// Intervals that were ended.
    pub intervals: u64,
    /// Counts of datagrams by outcome.
    pub datagrams: Vec<(&'static str, u64)>,
    /// Bytes sent with the headers of IP and UDP, by what they were for.
    pub sent_bytes: Vec<(&'static str, u64)>,
    /// Why the list in force cannot be followed, if it cannot.
    pub problem: Option<String>,
    /// The brokers that this one found by itself, this one left out.
    pub found: Vec<Found>,
    /// Where brokers that found each other were told different things.
    pub disagreements: Vec<String>,
}

/// A broker that shares limits with this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Found {
    /// Its gossip address.
    pub address: SocketAddr,
    /// Since its last word, milliseconds; `None`: it was never heard.
    pub heard_ms: Option<u64>,
}

/// Where lists of brokers come in and figures are to be seen.
#[derive(Clone, Debug, Default)]
pub struct SharingBoard(Arc<Board>);

#[derive(Debug, Default)]
struct Board {
    sharers: watch::Sender<Option<Arc<Sharers>>>,
    figures: Mutex<SharingFigures>,
    began: Notify,
    /// Brokers that are to be forgotten.
    forgotten: Mutex<Vec<SocketAddr>>,
    /// What this broker vouches for.
    held: Mutex<Held>,
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

    /// Takes a broker that this one found off the list, at all brokers; one that still is there comes back. False: it is not on
    /// the list.
    #[must_use]
    pub fn forget(&self, address: SocketAddr) -> bool {
        let is_listed = self
            .lock()
            .found
            .iter()
            .any(|found| found.address == address);
        if is_listed {
            self.forgotten().push(address);
        }
        is_listed
    }

    fn forgotten(&self) -> std::sync::MutexGuard<'_, Vec<SocketAddr>> {
        self.0
            .forgotten
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The controller began a round: this broker vouches for it, and for none before.
    pub(crate) fn told_round(&self, round: &Round) {
        self.held().told(round, sys::monotonic_now());
        self.0.began.notify_one();
    }

    /// The round before which this broker has left all.
    pub(crate) fn left_rounds(&self) -> u64 {
        self.held().left(sys::monotonic_now())
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
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
    socket: Option<port::Port>,
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
        let takes_part = takes_part || !config.join.is_empty();
        let socket = match (config.address, takes_part) {
            (_, false) => None,
            (Some(address), true) => Some(port::Port::bind(address).map_err(|source| {
                let what = format!("listening for gossip on {address}");
                BrokerError::Io { what, source }
            })?),
            (None, true) => reachable(tcp, host).and_then(|address| {
                let anywhere = SocketAddr::new(address.ip(), 0);
                let bound = port::Port::bind(address).or_else(|_| port::Port::bind(anywhere));
                bound.ok()
            }),
        };
        Ok(SharingPort { config, socket })
    }

    /// Where other brokers gossip with this one; `None`: they cannot.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.socket.as_ref().map(port::Port::address)
    }

    /// Shares limits until `stop` completes.
    pub async fn run(self, handle: Handle, stop: impl Future<Output = ()>) {
        let (found, resolved) = mpsc::channel(1);
        let (names, me) = (self.config.join.clone(), self.address());
        let mut intervals = Intervals::new(handle, self.config, self.socket, resolved);
        tokio::select! {
            () = stop => {}
            () = intervals.keep() => {}
            () = resolve(names, me, found) => {}
        }
        intervals.leave();
    }
}

/// Resolves names again and again, since their addresses may change; of a name's addresses it takes
/// the first of this broker's kind.
async fn resolve(names: Vec<String>, me: Option<SocketAddr>, found: mpsc::Sender<Resolved>) {
    let is_ipv4 = me.is_none_or(|me| me.is_ipv4());
    loop {
        for name in &names {
            let addresses = tokio::net::lookup_host(name).await;
            let address = addresses
                .ok()
                .and_then(|mut all| all.find(|address| address.is_ipv4() == is_ipv4));
            let Some(address) = address else {
                tracing::warn!(
                    "--gossip-join {name}: the name has no address; it is looked up again"
                );
                continue;
            };
            if found.send((name.clone(), address)).await.is_err() {
                break;
            }
        }
        tokio::time::sleep(RESOLVE_INTERVAL).await;
    }
}

/// Time between looks at what addresses names have.
const RESOLVE_INTERVAL: Duration = Duration::from_secs(5);

/// Where a broker that listens on `tcp` can be reached, if that is known: others compare addresses.
fn reachable(tcp: SocketAddr, host: &str) -> Option<SocketAddr> {
    if !tcp.ip().is_unspecified() {
        return Some(tcp);
    }
    let ip: IpAddr = host.parse().ok()?;
    Some(SocketAddr::new(ip, tcp.port()))
}

/// Length of an interval of a broker that is not told one; the paper's.
const INTERVAL: Duration = Duration::from_millis(50);

/// Lengths that a controller may ask for.
const INTERVALS_MS: std::ops::RangeInclusive<u64> = 10..=10_000;

#[cfg(test)]
mod tests;
