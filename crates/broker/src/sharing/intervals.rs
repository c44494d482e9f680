//! Ends estimate intervals: asks the reactors, passes on what they say and what others said.

use std::sync::Arc;
use std::time::Duration;

use link::{Door, Sharers};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use topics::{Group, IntervalEnd};

use super::agreement::Agreement;
use super::gathering::{Gathering, Resolved};
use super::gossiper::Gossiper;
use super::port::Port;
use super::rounds::{ASK_INTERVAL, Speaker};
use super::{INTERVAL, Remotes, SharingConfig, SharingFigures};
use crate::agent::answer_at;
use crate::{BrokerError, Handle, sys};

/// A reactor that is too busy for the end of an interval hears of the next one; one that exits is asked no more.
#[derive(Debug)]
pub(super) struct Intervals {
    handle: Handle,
    config: SharingConfig,
    port: Option<Port>,
    listed: watch::Receiver<Option<Arc<Sharers>>>,
    gossiper: Option<Gossiper>,
    /// Of a broker that finds the others by itself.
    gathering: Option<Gathering>,
    resolved: mpsc::Receiver<Resolved>,
    agreement: Agreement,
    /// Of a broker that can be reached by others.
    speaker: Option<Speaker>,
    next_question: clock::Instant,
    interval: Duration,
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
        let mut figures = SharingFigures::default();
        let me = port.as_ref().map(Port::address);
        let gathering = (!config.join.is_empty()).then(|| Gathering::new(&config, me));
        let gathering = gathering.transpose().unwrap_or_else(|problem| {
            tracing::error!(
                "limits cannot be shared by gossip, so topics with such limits pass nothing here: {problem}"
            );
            figures.problem = Some(problem);
            None
        });
        let speaker = me.map(|me| Speaker::new(me, config.key.clone(), sys::wall_now().as_nanos()));
        let mut listed = handle.sharing.0.sharers.subscribe();
        // One that came before counts too.
        listed.mark_changed();
        Intervals {
            handle,
            config,
            port,
            listed,
            gossiper: None,
            gathering,
            resolved,
            agreement: Agreement::default(),
            speaker,
            next_question: sys::monotonic_now(),
            interval: INTERVAL,
            figures,
        }
    }

    /// Ends intervals for as long as there are limits to share, and waits for some.
    pub(super) async fn keep(&mut self) {
        let mut end_at = Instant::now() + self.interval;
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
                Event::Resolved(resolved) => {
                    if let Some(gathering) = &mut self.gathering {
                        gathering.add(resolved);
                    }
                }
                Event::Heard => {
                    self.exchange();
                    self.hold().await;
                    let has_news = self.gather().await;
                    if is_idle {
                        self.show();
                        is_idle = !has_news && !self.hears_of_limits();
                        end_at = Instant::now() + self.interval;
                    }
                }
                Event::Began => {
                    is_idle = false;
                    end_at = Instant::now() + self.interval;
                }
                Event::Ended => {
                    let ended = self.share_estimates().await;
                    if matches!(ended, Err(BrokerError::Exiting)) {
                        return;
                    }
                    // Without a limit nothing is to be said; who gossips keeps an eye on the others all the same.
                    is_idle = ended.is_ok_and(|limits| limits == 0) && !self.hears_of_limits();
                    end_at = (end_at + self.interval).max(Instant::now() + self.interval / 2);
                }
            }
        }
    }

    /// Takes leave of the others.
    pub(super) fn leave(&mut self) {
        let Some(port) = &mut self.port else {
            return;
        };
        if let Some(gossiper) = &mut self.gossiper {
            gossiper.leave();
            port.flush(gossiper);
        }
        let farewells = self.gathering.as_mut().map(Gathering::leave);
        for (to, bytes) in farewells.unwrap_or_default() {
            port.send(to, &bytes);
        }
    }

    /// Asks all reactors once and tells the others what they say; how many limits are shared.
    async fn share_estimates(&mut self) -> Result<usize, BrokerError> {
        self.exchange();
        let remotes = self
            .gossiper
            .as_ref()
            .map_or_else(Remotes::default, |gossiper| {
                gossiper.remotes(&self.agreement)
            });
        let ends = self
            .handle
            .shared_limits()
            .collect_estimates(remotes)
            .await?;
        self.compare(&ends);
        self.tell(&ends);
        self.figures.intervals += u64::from(!ends.is_empty());
        self.show();
        Ok(ends.len())
    }

    /// Compares what was declared here with what was elsewhere, and says what differs.
    fn compare(&mut self, ends: &[IntervalEnd]) {
        let Some(gathering) = &mut self.gathering else {
            return;
        };
        let agreement = gathering.agree(sys::monotonic_now(), ends);
        for problem in &agreement.disagreements {
            if !self.agreement.disagreements.contains(problem) {
                tracing::warn!("{problem}");
            }
        }
        self.agreement = agreement;
    }

    fn tell(&mut self, ends: &[IntervalEnd]) {
        if let Some(gossiper) = &mut self.gossiper {
            gossiper.tell_estimates(sys::monotonic_now(), ends, &self.agreement);
            self.interval = gossiper.interval();
        }
        self.exchange();
    }

    /// Hears what has come and sends what is due.
    fn exchange(&mut self) {
        let Some(port) = &mut self.port else {
            return;
        };
        let now = sys::monotonic_now();
        let (gossiper, gathering) = (&mut self.gossiper, &mut self.gathering);
        let (speaker, mut held) = (&mut self.speaker, self.handle.sharing.held());
        let mut answers = Vec::new();
        let handle = &self.handle;
        port.receive(|from, bytes| {
            if let Some(answer) = answer_at(Door::Gossip, &handle.config, &handle.link, bytes) {
                answers.push((from, answer));
                return;
            }
            if let Some(speaker) = speaker
                && let Some(answer) = speaker.take(&mut held, now, from, bytes)
            {
                answers.extend(answer.map(|answer| (from, answer)));
                return;
            }
            let is_notice = gathering
                .as_mut()
                .is_some_and(|gathering| gathering.take(now, from, bytes));
            if let Some(gossiper) = gossiper.as_mut().filter(|_| !is_notice) {
                gossiper.receive(now, from, bytes);
            }
        });
        drop(held);
        for (to, bytes) in answers {
            port.send(to, &bytes);
        }
        if let Some(gossiper) = gossiper {
            gossiper.wake(now);
            port.flush(gossiper);
        }
        if let Some(gathering) = gathering {
            for (to, bytes) in gathering.notices(now) {
                port.send(to, &bytes);
            }
        }
    }

    /// Asks the other brokers of the round, if it is time, and tells the reactors until when shares are held on to.
    async fn hold(&mut self) {
        let now = sys::monotonic_now();
        let (Some(speaker), Some(port)) = (&mut self.speaker, &mut self.port) else {
            return;
        };
        if now < self.next_question {
            return;
        }
        self.next_question = now + ASK_INTERVAL;
        let held = self.handle.sharing.held().clone();
        for (to, question) in speaker.questions(&held, now) {
            port.send(to, &question);
        }
        if let Some((round, until)) = held.until() {
            // A reactor that is too busy hears of the next one.
            let _ = self.handle.shared_limits().hold_leases(round, until).await;
        }
    }

    /// Follows the list of brokers that this one found, if that has changed; says whether it has.
    async fn gather(&mut self) -> bool {
        let Some(gathering) = &mut self.gathering else {
            return false;
        };
        for address in std::mem::take(&mut *self.handle.sharing.forgotten()) {
            gathering.forget(address);
        }
        let Some(sharers) = gathering.news(sys::monotonic_now()) else {
            return false;
        };
        let list = sharers.addresses.join(", ");
        tracing::info!("limits are shared by gossip among the brokers at {list}");
        self.follow(&sharers).await;
        true
    }

    /// Whether others have limits, which this broker takes part in whether it has them or not.
    fn hears_of_limits(&self) -> bool {
        let now = sys::monotonic_now();
        let gathering = self.gathering.as_ref();
        gathering.is_some_and(|gathering| gathering.hears_of_limits(now))
    }

    /// When something is to be done or said next.
    fn next_wake(&self) -> Option<clock::Instant> {
        let gossiper = self.gossiper.as_ref().and_then(Gossiper::next_wake);
        let gathering = self.gathering.as_ref().map(Gathering::next_notice);
        let asks = !self.handle.sharing.held().is_alone();
        let question = self.speaker.as_ref().filter(|_| asks);
        let question = question.map(|_| self.next_question);
        gossiper.into_iter().chain(gathering).chain(question).min()
    }

    /// Takes the newest list: who shares, and with whom this broker gossips from now on.
    async fn follow_list(&mut self) {
        let Some(sharers) = self.listed.borrow_and_update().clone() else {
            return;
        };
        if self.gossiper.is_some() && self.figures.generation == sharers.generation {
            return;
        }
        self.follow(&sharers).await;
    }

    async fn follow(&mut self, sharers: &Sharers) {
        self.figures.generation = sharers.generation;
        self.figures.brokers = sharers.addresses.len() as u32;
        let me = self.port.as_ref().map(Port::address);
        let born = (sys::wall_now().as_nanos(), sys::monotonic_now());
        let followed = Gossiper::new(sharers, self.config.key.as_ref(), me, born);
        self.figures.problem = None;
        match followed {
            Ok((gossiper, group)) => {
                self.interval = gossiper.interval();
                self.gossiper = Some(gossiper);
                self.join(Some(group)).await;
            }
            Err(problem) => {
                tracing::error!(
                    "limits cannot be shared by gossip, so topics with such limits pass nothing here: {problem}"
                );
                self.figures.problem = Some(problem);
                self.gossiper = None;
                // Who finds that nothing passes finds the reason too.
                self.show();
                self.join(None).await;
            }
        }
        self.show();
    }

    async fn join(&self, group: Option<Group>) {
        while let Err(BrokerError::Busy(_)) = self.handle.shared_limits().join(group).await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn show(&mut self) {
        if let Some(gossiper) = &self.gossiper {
            let socket = self.port.as_ref().map(Port::counters);
            self.figures.connected = gossiper.connected();
            self.figures.datagrams = gossiper.datagrams(socket.unwrap_or_default());
            self.figures.sent_bytes = gossiper.sent_bytes();
        }
        if let Some(gathering) = &self.gathering {
            self.figures.found = gathering.found(sys::monotonic_now());
            self.figures.disagreements = self.agreement.disagreements.clone();
            let unknown = gathering.unknown().iter();
            let unknown =
                unknown.map(|name| format!("--gossip-join {name}: the name has no address"));
            self.figures.disagreements.extend(unknown);
            let datagrams = self.figures.datagrams.iter_mut();
            for (_, count) in datagrams.filter(|(outcome, _)| *outcome == "refused") {
                *count += gathering.refused();
            }
        }
        self.handle.sharing.show(self.figures.clone());
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
