//! Connections that have proved nothing yet: few, and none of them for long.
//!
//! Everybody is let in; at the bound the connection that has waited longest makes room. A broker
//! proves itself within a round trip, so it is through before as many strangers have come after it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Connections at a time.
const WAITING_MAX: usize = 256;
/// Those of them from one address; brokers and strangers of this machine share theirs, which is as good as none.
const WAITING_FROM_ONE_MAX: usize = WAITING_MAX / 10;

/// All that wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Lobby(Arc<Mutex<Waiting>>);

/// By number of the connection, which grows.
#[derive(Debug, Default)]
struct Waiting(BTreeMap<u64, (IpAddr, oneshot::Sender<()>)>);

/// One that waits; its place is free once this is dropped.
#[derive(Debug)]
pub(super) struct Newcomer {
    lobby: Lobby,
    link: u64,
    asked_to_leave: oneshot::Receiver<()>,
}

impl Lobby {
    /// Lets connection `link` in.
    pub(super) fn enter(&self, link: u64, from: IpAddr) -> Newcomer {
        let (ask, asked_to_leave) = oneshot::channel();
        self.waiting().enter(link, from, ask);
        Newcomer {
            lobby: self.clone(),
            link,
            asked_to_leave,
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Newcomer {
    /// Completes when it has to make room for others.
    pub(super) async fn asked_to_leave(&mut self) {
        // A place that was taken away has dropped the other end.
        let _ = (&mut self.asked_to_leave).await;
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        self.lobby.waiting().0.remove(&self.link);
    }
}

impl Waiting {
    fn enter(&mut self, link: u64, from: IpAddr, ask: oneshot::Sender<()>) {
        let same = self.0.iter().filter(|(_, (address, _))| *address == from);
        let mut same = same.map(|(link, _)| *link);
        let oldest_of_same = same.next();
        let is_crowded = !from.is_loopback() && same.count() + 1 >= WAITING_FROM_ONE_MAX;
        let leaves = match oldest_of_same {
            Some(oldest) if is_crowded => Some(oldest),
            _ if self.0.len() >= WAITING_MAX => self.0.keys().next().copied(),
            _ => None,
        };
        if let Some(leaves) = leaves {
            self.0.remove(&leaves);
        }
        self.0.insert(link, (from, ask));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(from: &[IpAddr]) -> Vec<u64> {
        let mut waiting = Waiting::default();
        for (link, from) in (0..).zip(from) {
            waiting.enter(link, *from, oneshot::channel().0);
        }
        waiting.0.into_keys().collect()
    }

    #[test]
    fn the_longest_wait_makes_room() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let all = waiting(&vec![here; WAITING_MAX + 10]);
        assert_eq!((all.len(), all[0]), (WAITING_MAX, 10));
    }

    #[test]
    fn one_address_has_a_tenth_of_the_places() {
        let (stranger, broker) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let mut from = vec![stranger; 1000];
        from[0] = broker;
        let all = waiting(&from);
        assert_eq!(all.len(), 1 + WAITING_FROM_ONE_MAX);
        assert_eq!(all[0], 0, "the broker does not make room for the stranger");
    }
}
