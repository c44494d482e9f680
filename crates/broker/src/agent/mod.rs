//! The broker's side of the link to its controller.
//!
//! It dials, says hello, reports once per interval, and carries out orders through the [`Handle`] as
//! anybody else would. A lost link is dialled anew for ever, with growing pauses, to whichever of its controllers leads; orders of
//! one that led before are none. The data path
//! notices nothing of it: messages flow with the shares that are held, and leases end by themselves. Topics that nobody here
//! knows wait for the controller's word (`absence`).
//!
//! Deliberately not here: what a share means (`topic`), who publishes (`reactor`), any decision.

mod absence;
mod changes;
mod contracts;
mod controllers;
mod doors;
mod epoch;
mod grants;
mod identity;
mod orders;
mod proof;
mod session;
mod topics;

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use link::{Hello, LinkKey};
use tokio::net::TcpStream;

use crate::{ControllerLink, Handle, sys};
use absence::Presence;
pub use changes::ChangeLog;
pub use controllers::CONTROLLERS_MAX;
use controllers::Controllers;
pub(crate) use doors::answer_at;
pub use epoch::{EPOCH_NAME, EpochFile};
pub use identity::identity;
pub(crate) use orders::persist;
use session::{Ended, Session};

/// The longest that a dial may take.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// A controller whose host reads nothing for this long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Pauses between dials double from the first to the second.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Pause after the controller has refused: somebody has to change something first.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);

/// Bytes that went over the link, lengths included (headers of TCP and IP are not), whether it is missed for too long, and the
/// number that the controller gave to this process.
#[derive(Clone, Debug, Default)]
pub struct LinkBoard(Arc<LinkFigures>);

#[derive(Debug, Default)]
struct LinkFigures {
    sent: AtomicU64,
    received: AtomicU64,
    is_given_up: AtomicBool,
    life: AtomicU64,
    epoch: AtomicU64,
    /// Where the epoch outlives the process, if it does.
    epoch_file: Mutex<Option<EpochFile>>,
}

impl LinkBoard {
    /// Bytes said to the controller.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.0.sent.load(Ordering::Relaxed)
    }

    /// Bytes heard of it.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.0.received.load(Ordering::Relaxed)
    }

    /// Whether topics flow without the controller's word, which did not come in time.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.0.is_given_up.load(Ordering::Relaxed)
    }

    /// Number of this process's life, as the controller gave it; 0 before.
    pub(crate) fn life(&self) -> u64 {
        self.0.life.load(Ordering::Relaxed)
    }

    fn set_life(&self, life: u64) {
        self.0.life.store(life, Ordering::Relaxed);
    }

    /// The latest life of a controller is kept in `file` from now on, and no order of one before what is kept there is carried out.
    fn keep_epoch_in(&self, file: EpochFile) {
        self.0.epoch.fetch_max(file.epoch(), Ordering::Relaxed);
        *self.epoch_file() = Some(file);
    }

    /// Makes the latest life of a controller durable, before the first order of a link is carried out. Where that cannot be, it counts
    /// for this process, and is tried again with the next link.
    async fn keep_epoch(&self) {
        let board = self.clone();
        let written = tokio::task::spawn_blocking(move || {
            let epoch = board.0.epoch.load(Ordering::Relaxed);
            let mut file = board.epoch_file();
            let file = file.as_mut().filter(|file| file.epoch() < epoch);
            file.map_or(Ok(()), |file| file.write(epoch))
        });
        // A runtime that ends keeps nothing.
        if let Ok(Err(error)) = written.await {
            tracing::warn!(
                "the controller's epoch is not kept in {EPOCH_NAME}: {error}; after a restart this broker may obey a controller that was deposed"
            );
        }
    }

    fn epoch_file(&self) -> MutexGuard<'_, Option<EpochFile>> {
        let file = self.0.epoch_file.lock();
        file.unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether orders of a controller's life are to be carried out: those of the latest that this broker has heard of.
    fn admits(&self, epoch: u64) -> Result<(), Ended> {
        let latest = self.0.epoch.fetch_max(epoch, Ordering::Relaxed);
        match latest <= epoch {
            true => Ok(()),
            false => Err(Ended::Outdated { epoch, latest }),
        }
    }

    fn note_sent(&self, bytes: usize) {
        self.0.sent.fetch_add(framed(bytes), Ordering::Relaxed);
    }

    fn note_received(&self, bytes: usize) {
        self.0.received.fetch_add(framed(bytes), Ordering::Relaxed);
    }

    fn set_given_up(&self, is_given_up: bool) {
        self.0.is_given_up.store(is_given_up, Ordering::Relaxed);
    }
}

/// A message with its length of four bytes.
fn framed(bytes: usize) -> u64 {
    bytes as u64 + 4
}

/// Keeps the link of `handle`'s broker to its controller until `stop` completes. The addresses are those
/// that the listeners are bound to; what `link` advertises goes before them.
///
/// One call is one life of the process in the eyes of the controller.
pub async fn run(
    handle: Handle,
    link: ControllerLink,
    tcp_address: String,
    http_address: Option<String>,
    stop: impl Future<Output = ()>,
) {
    let hello = Hello {
        broker: link.broker_name.clone(),
        identity: link.identity,
        life: 0,
        tcp_address: link.advertised_tcp_address.unwrap_or(tcp_address),
        http_address: link.advertised_http_address.or(http_address),
        gossip_address: link.gossip_address,
        mcap: link.mcap,
        model: link.model.or(handle.config().service_time),
    };
    if let Some(file) = link.epoch_file {
        handle.link.keep_epoch_in(file);
    }
    absence::log_what_is_held(&link.addresses, link.pass_after);
    let controllers = Controllers::new(link.addresses);
    let presence = Presence::new();
    let giving_up = async {
        match link.pass_after {
            Some(longest) => presence.give_up_after(&handle, longest).await,
            None => std::future::pending().await,
        }
    };
    let handing = crate::handover::run(handle.clone(), &link.broker_name);
    tokio::select! {
        () = stop => {}
        () = handing => {}
        () = keep(&handle, (controllers, &link.key), hello, &presence) => {}
        () = giving_up => {}
    }
}

async fn keep(
    handle: &Handle,
    (mut controllers, key): (Controllers, &LinkKey),
    hello: Hello,
    presence: &Presence,
) {
    let mut session = Session::new(handle, hello, presence);
    let mut pause = SHORTEST_PAUSE;
    let mut is_silent = false;
    loop {
        let address = controllers.address().to_owned();
        let ended = match dial(&address).await {
            Ok(stream) => session.run(stream, key).await,
            Err(error) => Ended::Unreachable(error),
        };
        presence.ends();
        let is_round = match ended {
            Ended::Exiting => return,
            Ended::Refused(reason) => {
                tracing::error!("controller {address} refuses this broker: {reason}");
                pause = REFUSED_PAUSE;
                controllers.failed()
            }
            Ended::NotYet(reason) => {
                tracing::info!("controller {address} does not take this broker yet: {reason}");
                pause = pause.min(LONGEST_PAUSE);
                controllers.failed()
            }
            Ended::NotLeading(leader) => {
                let at = leader
                    .as_deref()
                    .unwrap_or("an address that it does not know");
                tracing::info!("controller {address} does not lead; the leader is at {at}");
                controllers.does_not_lead(leader)
            }
            Ended::Outdated { epoch, latest } => {
                tracing::warn!(
                    "controller {address} gives orders of epoch {epoch}, but epoch {latest} has begun since, so they are not carried out; \
                     if no other controller leads, its store or its clock was set back: then remove {EPOCH_NAME} from the data folder and restart this broker"
                );
                controllers.failed()
            }
            Ended::Lost(reason) => {
                tracing::warn!("lost the controller at {address}: {reason}");
                (pause, is_silent) = (SHORTEST_PAUSE, false);
                controllers.lost();
                true
            }
            Ended::Unreachable(reason) => {
                let is_round = controllers.failed();
                // Once, not with every attempt of an outage.
                if !is_silent {
                    tracing::warn!("cannot reach the controller at {address}: {reason}");
                }
                is_silent |= is_round;
                is_round
            }
        };
        if is_round {
            tokio::time::sleep(jittered(pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// A connection to `address` whose silence is noticed.
///
/// # Errors
/// Why there is none.
pub(crate) async fn dial(address: &str) -> Result<TcpStream, String> {
    let dialled = tokio::time::timeout(DIAL_TIMEOUT, TcpStream::connect(address)).await;
    let stream = dialled.map_err(|_| format!("no answer within {DIAL_TIMEOUT:?}"))?;
    let stream = stream.map_err(|error| error.to_string())?;
    let set = stream
        .set_nodelay(true)
        .and_then(|()| sys::give_up_after(&stream, SILENCE_MAX));
    set.map_err(|error| error.to_string())?;
    Ok(stream)
}

/// Between half the pause and all of it, so that brokers that lost one controller do not come back as one. The
/// clock's lowest digits are random enough.
pub(crate) fn jittered(pause: Duration) -> Duration {
    let fraction = (sys::wall_now().as_nanos() / 1000 % 1024) as f64 / 1024.0;
    pause.mul_f64(0.5 + 0.5 * fraction)
}

#[cfg(test)]
mod tests;
