//! Places for connections, none of which one address can take from all others.
//!
//! One address holds half of them at most. When places are short, the connection gives way whose peer keeps the server waiting longest:
//! idle between requests, within a head or within a body. Those whose peer waits for the server never give way.

mod table;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clock::Instant;
use tokio::sync::Notify;

use table::Table;

/// A number of places, half of them for one address at most.
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
    /// So many places.
    #[must_use]
    pub fn new(most: usize) -> Arc<Places> {
        Arc::new(Places {
            table: Mutex::new(Table::new(most)),
            zero: tokio::time::Instant::now(),
        })
    }

    /// A place for a connection from `address`, whose peer is waited for; `None` if all that it might have are of those that are
    /// being served.
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
    pub(crate) async fn gone(&self) {
        self.gone.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.table().free(self.number);
    }
}
