//! The thread that does handshakes for all reactors and watches the files.
//!
//! A handshake is away from its connection while the thread answers the peer. A connection has one
//! at a time, so no more wait than there are connections; one that waits for longer than its
//! connection may take is dropped.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use clock::Instant;

use super::{Credentials, TlsConfig};
use crate::BrokerError;
use crate::connection::ConnectionKey;
use crate::reactor::{Inbox, Mail};
use crate::sys;
use crate::transport::Handshake;

/// Interval at which the files are checked.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The way to the thread, and what handshakes are done with.
#[derive(Debug)]
pub struct Handshakes {
    credentials: Arc<Credentials>,
    orders: Sender<Order>,
}

/// A handshake that is to go on.
#[derive(Debug)]
struct Order {
    reactor: usize,
    shaken: Shaken,
    /// After that it is useless.
    until: Instant,
}

/// A handshake that went on.
#[derive(Debug)]
pub struct Shaken {
    /// Whose it is.
    pub connection: ConnectionKey,
    /// As far as it has come.
    pub handshake: Box<Handshake>,
}

impl Handshakes {
    /// Reads the files and starts the thread; it answers into `inboxes`, by the reactors' numbers, and ends when nobody can ask it any
    /// more.
    ///
    /// # Errors
    /// [`BrokerError::Config`] naming a file that is of no use, [`BrokerError::Io`] where the system gives no thread.
    pub fn start(files: &TlsConfig, inboxes: &[Arc<Inbox>]) -> Result<Handshakes, BrokerError> {
        let credentials = Arc::new(Credentials::load(files.clone())?);
        let (orders, ordered) = channel();
        let (looked_after, inboxes) = (Arc::clone(&credentials), inboxes.to_vec());
        std::thread::Builder::new()
            .name(String::from("tls"))
            .spawn(move || serve(&ordered, &looked_after, &inboxes))
            .map_err(|source| BrokerError::Io {
                what: String::from("starting the thread for TLS"),
                source,
            })?;
        Ok(Handshakes {
            credentials,
            orders,
        })
    }

    /// The configuration that they use.
    #[must_use]
    pub fn credentials(&self) -> &Arc<Credentials> {
        &self.credentials
    }

    /// Has a handshake go on for reactor `reactor`, unless it is later than `until` when its turn comes.
    pub fn go_on(&self, reactor: usize, shaken: Shaken, until: Instant) {
        let order = Order {
            reactor,
            shaken,
            until,
        };
        // The thread ends after all who can ask it.
        let _ = self.orders.send(order);
    }
}

/// Handshakes that go on when a test says so.
#[cfg(test)]
pub struct ByHand {
    ordered: Receiver<Order>,
    inboxes: Vec<Arc<Inbox>>,
}

#[cfg(test)]
impl Handshakes {
    /// Without a thread.
    pub(crate) fn by_hand(
        credentials: Arc<Credentials>,
        inboxes: &[Arc<Inbox>],
    ) -> (Handshakes, ByHand) {
        let (orders, ordered) = channel();
        let inboxes = inboxes.to_vec();
        let handshakes = Handshakes {
            credentials,
            orders,
        };
        (handshakes, ByHand { ordered, inboxes })
    }
}

#[cfg(test)]
impl ByHand {
    /// Does what has been asked for; gives how much that was.
    pub(crate) fn go_on(&mut self) -> usize {
        let orders = self.ordered.try_iter();
        orders.map(|order| carry_out(order, &self.inboxes)).count()
    }
}

fn serve(ordered: &Receiver<Order>, credentials: &Credentials, inboxes: &[Arc<Inbox>]) {
    let mut look_at = sys::monotonic_now() + LOOK_INTERVAL;
    loop {
        let now = sys::monotonic_now();
        if now >= look_at {
            credentials.look_again();
            look_at = now + LOOK_INTERVAL;
        }
        match ordered.recv_timeout(look_at.saturating_since(now)) {
            Ok(order) => carry_out(order, inboxes),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn carry_out(order: Order, inboxes: &[Arc<Inbox>]) {
    let Order {
        reactor,
        mut shaken,
        until,
    } = order;
    if sys::monotonic_now() > until {
        return;
    }
    shaken.handshake.go_on();
    if let Some(inbox) = inboxes.get(reactor) {
        inbox.post(&mut vec![Mail::Shaken(Box::new(shaken))]);
    }
}
