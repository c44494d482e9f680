//! The part of queues that is not in memory: one thread keeps it on disk for all reactors, and
//! reactors never wait for it.
//!
//! A reactor's [orders](topics::BacklogOrder) are carried out in their order; answers go into its
//! inbox. At most [`topics::ORDERS_MAX`] orders of a reactor wait for answers, which bounds what is
//! under way. Only a reactor that has ended waits, until what it has in memory is written. Without
//! a [`BacklogConfig`] there is no such thread, and queues hold only what fits into memory.

mod adoption;
mod found;
mod journal;
mod keeper;
mod kept_message;
pub(crate) mod segments;
mod state;
mod worker;

use std::path::PathBuf;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use disk::{DiskError, Folder};
use topics::{BacklogBounds, BacklogOrder, KnownLog, LogOrder, Outside, QueueName};
use wire::TopicName;

use crate::reactor::Inbox;
use crate::{BrokerError, sys};
pub use keeper::{Keeper, Recovered};
#[cfg(test)]
pub use state::LogsState;
pub use state::{BacklogHealth, BacklogState};
use worker::Worker;

/// The folder of segments inside the data folder.
pub const FOLDER_NAME: &str = "srtm.queues";

/// The folder of logs inside that.
pub const LOGS_FOLDER_NAME: &str = "logs";

/// What queues may have on disk, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BacklogConfig {
    /// Where: a folder of its own.
    pub folder: PathBuf,
    /// Messages of a queue that go out together; of short queues a quarter.
    pub segment_messages: usize,
    /// Bytes of a segment's messages, without heads: a queue with this many is written out, however
    /// few messages they are.
    pub segment_bytes: u64,
    /// Messages of one queue outside; at the bound its publishers wait, as without a backlog.
    pub messages_max: usize,
    /// Bytes of all files; what is beyond stays in memory, and its publishers wait.
    pub bytes_max: u64,
    /// A file that is as long is not appended to any more.
    pub file_bytes_max: u64,
    /// Messages written between two syncs.
    pub sync_every: usize,
    /// And at the latest after so long.
    pub sync_timeout: Duration,
}

/// A reactor's way to the thread.
#[derive(Clone, Debug)]
pub struct Orders {
    reactor: usize,
    works: Sender<Work>,
    /// The highest id that a message on disk has.
    highest_id: u64,
    /// The logs that are there.
    known: Arc<[KnownLog]>,
}

/// The thread, and what it is given to do.
#[derive(Debug)]
pub struct Backlog {
    works: Sender<Work>,
    thread: JoinHandle<bool>,
    health: BacklogHealth,
    /// Queues found at the start, until they have been taken up.
    found: Mutex<Vec<Found>>,
    highest_id: u64,
    known: Arc<[KnownLog]>,
}

/// A queue with what it had outside when the broker began.
pub type Found = (QueueName, Vec<Outside>);

/// A job for the thread.
#[derive(Debug)]
enum Work {
    /// An order of this reactor, which gets the answer.
    Order(usize, BacklogOrder),
    /// For a reactor that has ended and waits for it: whether a segment is kept.
    Save(BacklogOrder, SyncSender<bool>),
    /// For that reactor, which hears of it.
    Log(usize, LogOrder),
    /// For a reactor that has ended: topics with messages that the disk has not taken, and how many.
    Unwritten(SyncSender<Vec<(TopicName, u64)>>),
}

impl BacklogConfig {
    /// With nsqd's defaults, in `folder`.
    #[must_use]
    pub fn within(folder: PathBuf) -> BacklogConfig {
        BacklogConfig {
            folder,
            segment_messages: 2500,
            segment_bytes: 1024 * 1024,
            messages_max: usize::MAX / 2,
            bytes_max: u64::MAX,
            file_bytes_max: 100 * 1024 * 1024,
            sync_every: 2500,
            sync_timeout: Duration::from_secs(2),
        }
    }

    /// As the topics need to know it.
    #[must_use]
    pub fn bounds(&self) -> BacklogBounds {
        BacklogBounds {
            segment_messages: self.segment_messages,
            segment_bytes: self.segment_bytes,
            outside_max: self.messages_max,
            logged_bytes_max: found::logs_config(self).message_bytes_max(),
        }
    }
}

impl Orders {
    /// Has an order carried out, after those before it.
    pub fn give(&self, order: BacklogOrder) {
        // The thread ends after its last reactor.
        let _ = self.works.send(Work::Order(self.reactor, order));
    }

    /// Has an order of a reactor that has ended carried out, and waits for that; says whether a segment is kept.
    #[must_use]
    pub fn save(&self, order: BacklogOrder) -> bool {
        let (reply, replied) = sync_channel(1);
        let sent = self.works.send(Work::Save(order, reply));
        sent.is_ok() && replied.recv().unwrap_or(false)
    }

    /// Has something written to a log, after what was given before.
    pub fn log(&self, order: LogOrder) {
        // The thread ends after its last reactor.
        let _ = self.works.send(Work::Log(self.reactor, order));
    }

    /// What the disk has not taken of all that was given: topics and how many of their messages.
    #[must_use]
    pub fn unwritten(&self) -> Vec<(TopicName, u64)> {
        let (reply, replied) = sync_channel(1);
        let sent = self.works.send(Work::Unwritten(reply));
        match sent {
            Ok(()) => replied.recv().unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }

    /// The logs that were there when the thread began.
    #[must_use]
    pub fn known_logs(&self) -> &[KnownLog] {
        &self.known
    }

    /// The highest id that a message on disk has: new ones are to have others.
    #[must_use]
    pub fn highest_id(&self) -> u64 {
        self.highest_id
    }
}

impl Backlog {
    /// Opens what is on disk and starts the thread; it answers into `inboxes`, by the reactors' numbers.
    ///
    /// # Errors
    /// [`BrokerError::Disk`] where the folder cannot be used, [`BrokerError::Io`] where the system gives no thread.
    pub fn start(
        config: &BacklogConfig,
        inboxes: Arc<[Arc<Inbox>]>,
    ) -> Result<Backlog, BrokerError> {
        let io = |what: &'static str| {
            move |source| BrokerError::Io {
                what: String::from(what),
                source,
            }
        };
        let seed = sys::random().map_err(io("drawing a number for files"))?;
        let seed = u64::from_le_bytes(seed);
        let folders = (
            Folder::open(&config.folder)?,
            Folder::open(&config.folder.join(LOGS_FOLDER_NAME))?,
        );
        let health = BacklogHealth::default();
        let times = (sys::monotonic_now(), sys::wall_now());
        let (keeper, recovered) = Keeper::open(folders, config, seed, times, health.clone())?;
        let worker = Worker { keeper, inboxes };
        let (works, ordered) = channel();
        let thread = std::thread::Builder::new()
            .name(String::from("backlog"))
            .spawn(move || worker.run(&ordered))
            .map_err(io("starting the thread for backlogs"))?;
        Ok(Backlog {
            works,
            thread,
            health,
            found: Mutex::new(recovered.found),
            highest_id: recovered.highest_id,
            known: recovered.known.into(),
        })
    }

    /// The way to it of reactor `reactor`.
    #[must_use]
    pub fn orders(&self, reactor: usize) -> Orders {
        Orders {
            reactor,
            works: self.works.clone(),
            highest_id: self.highest_id,
            known: Arc::clone(&self.known),
        }
    }

    /// How it fares.
    #[must_use]
    pub fn health(&self) -> BacklogHealth {
        self.health.clone()
    }

    /// Takes what was there when it began.
    #[must_use]
    pub fn take_found(&self) -> Vec<Found> {
        let found = &mut *self.found.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(found)
    }

    /// Ends with the last reactor. False where what is on disk may not be all of what was written.
    #[must_use]
    pub fn join(self) -> bool {
        drop(self.works);
        self.thread.join().unwrap_or(false)
    }
}

impl From<DiskError> for BrokerError {
    fn from(error: DiskError) -> BrokerError {
        BrokerError::Disk(error)
    }
}
