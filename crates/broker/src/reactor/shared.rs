//! What all reactors of a broker share: settings, inboxes, and reports to the threads beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::{Mutex, Notify};
use topics::{MemoryBudget, NameBudget};

use super::inbox::Inbox;
use crate::Config;
use crate::agent::{ChangeLog, LinkBoard};
use crate::announce::AnnounceBoard;
use crate::auth::AuthServers;
use crate::backlog::BacklogHealth;
use crate::catalog_file::KeptCatalog;
use crate::handover::HandoverBoard;
use crate::lookupd::LookupdList;
use crate::sharing::SharingBoard;
use crate::tls::Handshakes;

/// What all reactors of a broker share.
#[derive(Debug)]
pub struct Shared {
    /// Settings.
    pub config: Arc<Config>,
    /// The reactors' post, by number.
    pub inboxes: Arc<[Arc<Inbox>]>,
    /// Poked when a catalog changed.
    pub changed: Arc<Notify>,
    /// Poked when the controller should hear of something soon.
    pub report_wanted: Arc<Notify>,
    /// Changes to topics and channels, until the controller is told.
    pub changes: ChangeLog,
    /// The file that contracts are kept in.
    pub kept: KeptCatalog,
    /// Figures of announcements.
    pub announcements: AnnounceBoard,
    /// What went over the link to a controller.
    pub link: LinkBoard,
    /// Queues that are handed over to other brokers, or come from them.
    pub handing: HandoverBoard,
    /// Who shares limits by gossip.
    pub sharing: SharingBoard,
    /// Memory that all of it may hold.
    pub memory: MemoryBudget,
    /// Topics and channels that each address has made.
    pub names: NameBudget,
    /// Held by who declares a share.
    pub declaring: Arc<Mutex<()>>,
    /// How the disk of backlogs fares; `None`: there are none.
    pub backlog: Option<BacklogHealth>,
    /// The nsqlookupds that the broker registers with.
    pub lookupds: LookupdList,
    /// Who does TLS handshakes; `None`: there is no TLS.
    pub handshakes: Option<Handshakes>,
    /// Who asks auth servers; `None`: there are none.
    pub auth: Option<AuthServers>,
    /// Set once: there is, or was, a durable topic.
    pub durable: AtomicBool,
    /// Connections open on all reactors.
    pub connections: AtomicUsize,
    /// Set once: connections are accepted from now on.
    pub open: AtomicBool,
    /// Set once: drain and end.
    pub stop: AtomicBool,
    /// Reactors that have nothing left to drain, or do not wait for it any longer.
    pub drained: AtomicUsize,
}

impl Shared {
    /// Whether there is, or was, a durable topic.
    pub fn has_durable_topics(&self) -> bool {
        self.durable.load(Ordering::Relaxed)
    }

    /// Notes that there is a durable topic.
    pub fn note_durable_topics(&self) {
        if !self.has_durable_topics() {
            self.durable.store(true, Ordering::Relaxed);
        }
    }

    /// Of reactors with these `inboxes`; connections are not accepted yet.
    pub fn new(config: Config, inboxes: impl Into<Arc<[Arc<Inbox>]>>) -> Shared {
        Shared {
            lookupds: LookupdList::new(config.lookupd.tcp_addresses.clone()),
            memory: MemoryBudget::new(config.memory_budget_bytes),
            names: NameBudget::new(config.max_names_per_address, config.names_window),
            config: Arc::new(config),
            inboxes: inboxes.into(),
            changed: Arc::new(Notify::new()),
            report_wanted: Arc::new(Notify::new()),
            changes: ChangeLog::default(),
            kept: KeptCatalog::default(),
            announcements: AnnounceBoard::default(),
            link: LinkBoard::default(),
            handing: HandoverBoard::default(),
            sharing: SharingBoard::default(),
            declaring: Arc::default(),
            handshakes: None,
            auth: None,
            backlog: None,
            durable: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            open: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            drained: AtomicUsize::new(0),
        }
    }
}
