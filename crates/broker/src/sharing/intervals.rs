//! Ends estimate intervals: collects the updates of the reactors and distributes those of the
//! others.

use std::sync::Arc;
use std::time::Duration;

use link::{Door, Sharers};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use topics::Group;

use super::gathering::Resolved;
use super::port::Port;
use super::sharer::{Moment, Sharer};
use super::{SharingConfig, SharingFigures};
use crate::agent::answer_at;
use crate::{BrokerError, Handle, sys};

/// A reactor that is too busy for the end of an interval hears of the next one; one that exits is asked no more.
#[derive(Debug)]
pub(super) struct Intervals {
    handle: Handle,
    port: Option<Port>,
    listed: watch::Receiver<Option<Arc<Sharers>>>,
    sharer: Sharer,
    resolved: mpsc::Receiver<Resolved>,
    figures: SharingFigures,
}

/// What happened next.
enum Event {
    Listed,
    Resolved(Resolved),
    Heard,
    Ended,
    Began,
}

impl Intervals {
    /// Of a broker with this port; `resolved` says what addresses the names of [`SharingConfig::join`] have.
    pub(super) fn new(
        handle: Handle,
        config: SharingConfig,
        port: Option<Port>,
        resolved: mpsc::Receiver<Resolved>,
    ) -> Intervals {
        let me = port.as_ref().map(Port::address);
        let sharer = Sharer::new(&config, me, moment());
        warn(sharer.problem());
        let mut listed = handle.sharing.0.sharers.subscribe();
        // One that came before counts too.
        listed.mark_changed();
        Intervals {
            handle,
            port,
            listed,
            sharer,
            resolved,
            figures: SharingFigures::default(),
        }
    }

    /// Ends intervals for as long as there are limits to share, and waits for some.
    pub(super) async fn keep(&mut self) {
        let mut end_at = Instant::now() + self.sharer.interval();
        let mut is_idle = false;
        loop {
            let next_wake = self.next_wake();
            let event = tokio::select! {
                biased;
                changed = self.listed.changed() => match changed {
                    Ok(()) => Event::Listed,
                    Err(_) => return,
                },
                () = sleep_until(end_at), if !is_idle => Event::Ended,
                Some(resolved) = self.resolved.recv() => Event::Resolved(resolved),
                () = heard(next_wake, self.port.as_ref()) => Event::Heard,
                () = self.handle.sharing.0.began.notified(), if is_idle => Event::Began,
            };
            match event {
                Event::Listed => {
                    self.follow_list().await;
                    is_idle = false;
                }
                Event::Resolved(resolved) => self.sharer.resolved(resolved, sys::monotonic_now()),
                Event::Heard => {
                    self.exchange();
                    self.hold().await;
                    let has_news = self.gather().await;
                    if is_idle {
                        self.show();
                        is_idle = !has_news && !self.hears_of_limits();
                        end_at = Instant::now() + self.sharer.interval();
                    }
                }
                Event::Began => {
                    is_idle = false;
                    end_at = Instant::now() + self.sharer.interval();
                }
                Event::Ended => {
                    let ended = self.share_estimates().await;
                    if matches!(ended, Err(BrokerError::Exiting)) {
                        return;
                    }
                    // Without a limit nothing is to be said; who gossips keeps an eye on the others all the same.
                    is_idle = ended.is_ok_and(|limits| limits == 0) && !self.hears_of_limits();
                    let interval = self.sharer.interval();
                    end_at = (end_at + interval).max(Instant::now() + interval / 2);
                }
            }
        }
    }

    /// Takes leave of the others.
    pub(super) fn leave(&mut self) {
        self.sharer.leave();
        self.flush();
    }

    /// Asks all reactors once and tells the others what they say; how many limits are shared.
    async fn share_estimates(&mut self) -> Result<usize, BrokerError> {
        self.exchange();
        let remotes = self.sharer.remotes();
        let ends = self.handle.shared_limits();
        let ends = ends.collect_estimates(remotes).await?;
        for problem in self.sharer.ended(&ends, sys::monotonic_now()) {
            tracing::warn!("{problem}");
        }
        self.exchange();
        self.figures.intervals += u64::from(!ends.is_empty());
        self.show();
        Ok(ends.len())
    }

    /// Hears what has come and sends what is due.
    fn exchange(&mut self) {
        let Some(port) = &mut self.port else {
            return;
        };
        let now = sys::monotonic_now();
        let (sharer, handle) = (&mut self.sharer, &self.handle);
        let (mut held, mut answers) = (handle.sharing.held(), Vec::new());
        port.receive(|from, bytes| {
            match answer_at(Door::Gossip, &handle.config, &handle.link, bytes) {
                Some(answer) => answers.push((from, answer)),
                None => sharer.receive(&mut held, now, from, bytes),
            }
        });
        drop(held);
        for (to, bytes) in answers {
            port.send(to, &bytes);
        }
        sharer.wake(now);
        self.flush();
    }

    fn flush(&mut self) {
        if let Some(port) = &mut self.port {
            port.flush(&mut self.sharer);
        }
    }

    /// Asks the other brokers of the round, if it is time, and tells the reactors until when shares are held on to.
    async fn hold(&mut self) {
        let now = sys::monotonic_now();
        let until = self.sharer.ask(&self.handle.sharing.held(), now);
        self.flush();
        if let Some((round, until)) = until {
            // A reactor that is too busy hears of the next one.
            let _ = self.handle.shared_limits().hold_leases(round, until).await;
        }
    }

    /// Follows the list of brokers that this one found, if that has changed; says whether it has.
    async fn gather(&mut self) -> bool {
        let now = sys::monotonic_now();
        for address in std::mem::take(&mut *self.handle.sharing.forgotten()) {
            self.sharer.forget(address, now);
        }
        let Some(sharers) = self.sharer.gather(now) else {
            return false;
        };
        let list = sharers.addresses.join(", ");
        tracing::info!("limits are shared by gossip among the brokers at {list}");
        self.follow(&sharers).await;
        true
    }

    /// Whether others have limits; this broker takes part in them whether it has them or not.
    fn hears_of_limits(&self) -> bool {
        self.sharer.hears_of_limits(sys::monotonic_now())
    }

    /// When something is to be done or said next.
    fn next_wake(&self) -> Option<clock::Instant> {
        self.sharer.next_wake(&self.handle.sharing.held())
    }

    /// Takes the newest list: who shares, and with whom this broker gossips from now on.
    async fn follow_list(&mut self) {
        let Some(sharers) = self.listed.borrow_and_update().clone() else {
            return;
        };
        if self.sharer.follows() != Some(sharers.generation) {
            self.follow(&sharers).await;
        }
    }

    async fn follow(&mut self, sharers: &Sharers) {
        let group = self.sharer.follow(sharers, moment());
        warn(self.sharer.problem());
        // Who finds that nothing passes finds the reason too.
        self.show();
        self.join(group).await;
        self.show();
    }

    async fn join(&self, group: Option<Group>) {
        while let Err(BrokerError::Busy(_)) = self.handle.shared_limits().join(group).await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn show(&mut self) {
        let socket = self.port.as_ref().map(Port::counters);
        self.sharer
            .show(&mut self.figures, socket, sys::monotonic_now());
        self.handle.sharing.show(self.figures.clone());
    }
}

/// This moment by both clocks.
fn moment() -> Moment {
    (sys::wall_now().as_nanos(), sys::monotonic_now())
}

fn warn(problem: Option<&str>) {
    if let Some(problem) = problem {
        tracing::error!(
            "limits cannot be shared by gossip, so topics with such limits pass nothing here: {problem}"
        );
    }
}

/// Completes when a datagram waits, or it is time for something to be done. The controller may ask at any time who is here.
async fn heard(next_wake: Option<clock::Instant>, port: Option<&Port>) {
    let Some(port) = port else {
        return std::future::pending().await;
    };
    let due = async {
        match next_wake {
            Some(at) => tokio::time::sleep(at.saturating_since(sys::monotonic_now())).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = port.readable() => {}
        () = due => {}
    }
}
