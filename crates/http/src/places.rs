//! Places for connections, none of which one address can take from all others.
//!
//! One address holds a part of them at most, a half at HTTP ports. When places are short, the connection gives way whose peer keeps the server waiting longest:
//! idle between requests, within a head or within a body. Those whose peer waits for the server never give way.

mod table;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clock::Instant;
use tokio::sync::Notify;

pub use table::{Given, Party, Shares, Table};

/// A number of places, of which one address has a part at most.
#[derive(Debug)]
pub struct Places {
    table: Mutex<Table<Arc<Notify>>>,
    zero: tokio::time::Instant,
}

/// A place, until it is dropped or goes over to somebody else.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    number: u64,
    gone: Arc<Notify>,
}

impl Places {
    /// So many places, half of them for one address.
    #[must_use]
    pub fn new(most: usize) -> Arc<Places> {
        Places::of(Shares::halves(most))
    }

    /// Places that are shared so.
    #[must_use]
    pub fn of(shares: Shares) -> Arc<Places> {
        Arc::new(Places {
            table: Mutex::new(Table::new(shares)),
            zero: tokio::time::Instant::now(),
        })
    }

    /// A place for a connection from `address`, whose peer is waited for; `None` if all places that
    /// it might have belong to peers that are being served.
    pub fn enter(self: &Arc<Places>, address: IpAddr) -> Option<Place> {
        let gone = Arc::new(Notify::new());
        let given = self
            .table()
            .give(address.into(), Arc::clone(&gone), self.now())?;
        if let Some(former) = given.from {
            former.notify_one();
        }
        Some(Place {
            places: Arc::clone(self),
            number: given.number,
            gone,
        })
    }

    /// Has the connection leave whose peer is waited for longest; says whether there is one.
    pub fn make_room(&self) -> bool {
        let former = self.table().take_longest_waiting();
        if let Some(gone) = &former {
            gone.notify_one();
        }
        former.is_some()
    }

    /// Places that are held.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.table().taken()
    }

    fn table(&self) -> MutexGuard<'_, Table<Arc<Notify>>> {
        // Whole after every call, so a panic elsewhere does not spoil it.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.zero.elapsed()
    }
}

impl Place {
    /// From now on the peer waits for the server, and the place stays; `false` if it went over before.
    #[must_use]
    pub fn serve(&self) -> bool {
        self.places.table().serve(self.number)
    }

    /// From now on the server waits for the peer.
    pub(crate) fn wait(&self) {
        let now = self.places.now();
        self.places.table().wait(self.number, now);
    }

    /// Completes when the place has gone over to somebody else.
    pub async fn gone(&self) {
        self.gone.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.table().free(self.number);
    }
}
