//! Ends estimate intervals: asks the reactors, passes on what they say and what others said.

use std::sync::Arc;
use std::time::Duration;

use link::Sharers;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::gossiper::{Gossiper, Port};
use super::{INTERVAL, Remotes, SharingConfig, SharingFigures};
use crate::topic::{Group, IntervalEnd};
use crate::{BrokerError, Handle, sys};

/// A reactor that is too busy for the end of an interval hears of the next one; one that exits is asked no more.
#[derive(Debug)]
pub(super) struct Intervals {
    handle: Handle,
    config: SharingConfig,
    port: Option<Port>,
    listed: watch::Receiver<Option<Arc<Sharers>>>,
    gossiper: Option<Gossiper>,
    interval: Duration,
    figures: SharingFigures,
}

/// What happened next.
enum Event {
    Listed,
    Heard,
    Ended,
    Began,
}

impl Intervals {
    pub(super) fn new(handle: Handle, config: SharingConfig, port: Option<Port>) -> Intervals {
        let mut listed = handle.sharing.0.sharers.subscribe();
        // One that came before counts too.
        listed.mark_changed();
        Intervals {
            handle,
            config,
            port,
            listed,
            gossiper: None,
            interval: INTERVAL,
            figures: SharingFigures::default(),
        }
    }

    /// Ends intervals for as long as there are limits to share, and waits for some.
    pub(super) async fn keep(&mut self) {
        let mut end_at = Instant::now() + self.interval;
        let mut is_idle = false;
        loop {
            let event = tokio::select! {
                biased;
                changed = self.listed.changed() => match changed {
                    Ok(()) => Event::Listed,
                    Err(_) => return,
                },
                () = sleep_until(end_at), if !is_idle => Event::Ended,
                () = heard(self.gossiper.as_ref(), self.port.as_ref()) => Event::Heard,
                () = self.handle.sharing.0.began.notified(), if is_idle => Event::Began,
            };
            match event {
                Event::Listed => {
                    self.follow_list().await;
                    is_idle = false;
                }
                Event::Heard => {
                    self.exchange();
                    if is_idle {
                        self.show();
                    }
                }
                Event::Began => {
                    is_idle = false;
                    end_at = Instant::now() + self.interval;
                }
                Event::Ended => {
                    let ended = self.end_interval().await;
                    if matches!(ended, Err(BrokerError::Exiting)) {
                        return;
                    }
                    // Without a limit nothing is to be said; who gossips keeps an eye on the others all the same.
                    is_idle = ended.is_ok_and(|limits| limits == 0);
                    end_at = (end_at + self.interval).max(Instant::now() + self.interval / 2);
                }
            }
        }
    }

    /// Takes leave of the others.
    pub(super) fn leave(&mut self) {
        if let (Some(gossiper), Some(port)) = (&mut self.gossiper, &mut self.port) {
            gossiper.leave(port);
        }
    }

    /// Asks all reactors once and tells the others what they say; how many limits are shared.
    async fn end_interval(&mut self) -> Result<usize, BrokerError> {
        self.exchange();
        let remotes = self
            .gossiper
            .as_ref()
            .map_or_else(Remotes::default, Gossiper::remotes);
        let ends = self.handle.end_interval(remotes).await?;
        self.tell(&ends);
        self.figures.intervals += u64::from(!ends.is_empty());
        self.show();
        Ok(ends.len())
    }

    fn tell(&mut self, ends: &[IntervalEnd]) {
        if let (Some(gossiper), Some(port)) = (&mut self.gossiper, &mut self.port) {
            gossiper.end_interval(sys::monotonic_now(), ends);
            gossiper.exchange(port, sys::monotonic_now());
        }
    }

    /// Hears what has come and sends what is due.
    fn exchange(&mut self) {
        if let (Some(gossiper), Some(port)) = (&mut self.gossiper, &mut self.port) {
            gossiper.exchange(port, sys::monotonic_now());
        }
    }

    /// Takes the newest list: who shares, and with whom this broker gossips from now on.
    async fn follow_list(&mut self) {
        let Some(sharers) = self.listed.borrow_and_update().clone() else {
            return;
        };
        if self.gossiper.is_some() && self.figures.generation == sharers.generation {
            return;
        }
        self.figures.generation = sharers.generation;
        self.figures.brokers = sharers.addresses.len() as u32;
        let followed = Gossiper::new(&sharers, &self.config, self.port.as_ref());
        self.figures.problem = None;
        match followed {
            Ok((gossiper, group)) => {
                self.gossiper = Some(gossiper);
                self.interval = interval_of(&sharers);
                self.join(Some(group)).await;
            }
            Err(problem) => {
                tracing::error!(
                    "limits cannot be shared by gossip, so nothing of them passes here: {problem}"
                );
                self.figures.problem = Some(problem);
                self.gossiper = None;
                self.join(None).await;
            }
        }
        self.show();
    }

    async fn join(&self, group: Option<Group>) {
        while let Err(BrokerError::Busy(_)) = self.handle.join(group).await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn show(&mut self) {
        if let Some(gossiper) = &self.gossiper {
            self.figures.connected = gossiper.connected();
            self.figures.datagrams = gossiper.datagrams(self.port.as_ref());
            self.figures.sent_bytes = gossiper.sent_bytes();
        }
        self.handle.sharing.show(self.figures.clone());
    }
}

fn interval_of(sharers: &Sharers) -> Duration {
    let (least, most) = (*super::INTERVALS_MS.start(), *super::INTERVALS_MS.end());
    Duration::from_millis(sharers.interval_ms.clamp(least, most))
}

/// Completes when a datagram waits, or membership has something to do.
async fn heard(gossiper: Option<&Gossiper>, port: Option<&Port>) {
    let (Some(gossiper), Some(port)) = (gossiper, port) else {
        return std::future::pending().await;
    };
    let wait = gossiper
        .next_wake()
        .map(|at| at.saturating_since(sys::monotonic_now()));
    tokio::select! {
        () = port.readable() => {}
        () = tokio::time::sleep(wait.unwrap_or(Duration::MAX / 4)) => {}
    }
}
