//! This broker among those that it shares limits with: everything that is decided of what it says and hears by UDP.
//!
//! Pure. Who drives it has the port, the clocks and the reactors ([`super::intervals`], or a simulation): it hands over what came
//! ([`Sharer::receive`]), the time when [`Sharer::next_wake`] says so ([`Sharer::wake`], [`Sharer::ask`], [`Sharer::gather`]) and the ends
//! of intervals ([`Sharer::ended`]), and after each of them sends what is to be said ([`Sharer::transmit`]).

use std::net::SocketAddr;
use std::time::Duration;

use clock::Instant;
use gossip::SocketCounters;
use link::Sharers;
use topics::{Group, IntervalEnd};
use wire::gossip::Key;

use super::agreement::Agreement;
use super::gathering::{Gathering, Resolved};
use super::gossiper::Gossiper;
use super::rounds::{ASK_INTERVAL, Held, Speaker};
use super::{INTERVAL, Remotes, SharingConfig, SharingFigures};

/// An instant by both clocks: nanoseconds of the wall clock, which no process before this one had, and the monotonic one.
pub type Moment = (u64, Instant);

/// What a process says to other brokers, and what it knows of them.
#[derive(Debug)]
pub struct Sharer {
    me: Option<SocketAddr>,
    key: Option<Key>,
    gossiper: Option<Gossiper>,
    /// Of a broker that finds the others by itself.
    gathering: Option<Gathering>,
    /// Of a broker that can be reached by others.
    speaker: Option<Speaker>,
    agreement: Agreement,
    next_question: Instant,
    /// The list that is followed, or was to be.
    generation: u64,
    brokers: u32,
    problem: Option<String>,
    unsaid: Vec<(SocketAddr, Vec<u8>)>,
}

impl Sharer {
    /// Of a process that others reach at `me` and that follows no list yet.
    #[must_use]
    pub fn new(config: &SharingConfig, me: Option<SocketAddr>, born: Moment) -> Sharer {
        let gathering = (!config.join.is_empty()).then(|| Gathering::new(config, me, born));
        let (gathering, problem) = match gathering.transpose() {
            Ok(gathering) => (gathering, None),
            Err(problem) => (None, Some(problem)),
        };
        let (incarnation, now) = born;
        Sharer {
            me,
            key: config.key.clone(),
            gossiper: None,
            gathering,
            speaker: me.map(|me| Speaker::new(me, config.key.clone(), incarnation)),
            agreement: Agreement::default(),
            next_question: now,
            generation: 0,
            brokers: 0,
            problem,
            unsaid: Vec::new(),
        }
    }

    /// Why limits cannot be shared, if they cannot.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// The number of the list that is followed; `None`: none is.
    #[must_use]
    pub fn follows(&self) -> Option<u64> {
        self.gossiper.as_ref().map(|_| self.generation)
    }

    /// Follows a list from `now` on. The group that reactors are to join; `None`: they share with nobody, and [`Sharer::problem`] says why.
    pub fn follow(&mut self, sharers: &Sharers, now: Moment) -> Option<Group> {
        self.generation = sharers.generation;
        self.brokers = sharers.addresses.len() as u32;
        let gathering = self.gathering.as_ref();
        let key = match gathering.is_some_and(|gathering| gathering.has_found(sharers)) {
            true => self.key_among(sharers),
            false => self.key.clone(),
        };
        match Gossiper::new(sharers, key.as_ref(), self.me, now) {
            Ok((gossiper, group)) => {
                self.problem = None;
                self.gossiper = Some(gossiper);
                Some(group)
            }
            Err(problem) => {
                self.problem = Some(problem);
                self.gossiper = None;
                None
            }
        }
    }

    /// Brokers that find each other have different lists for a while, and membership names them by their places in it: nobody is to believe what
    /// is said of others by who has another list.
    fn key_among(&self, sharers: &Sharers) -> Option<Key> {
        let list = sharers.addresses.iter().map(|address| address.parse());
        let list: Vec<SocketAddr> = list.collect::<Result<_, _>>().ok()?;
        self.key.as_ref().map(|key| key.among(&list))
    }

    /// The list of brokers that this one has found, where it is another than before: to be followed.
    pub fn gather(&mut self, now: Instant) -> Option<Sharers> {
        self.gathering.as_mut()?.news(now)
    }

    /// A name of `--gossip-join` has an address.
    pub fn resolved(&mut self, resolved: Resolved, now: Instant) {
        if let Some(gathering) = &mut self.gathering {
            gathering.add(resolved, now);
        }
    }

    /// Takes a broker off the list, at all brokers; one that still is there comes back.
    pub fn forget(&mut self, address: SocketAddr, now: Instant) {
        if let Some(gathering) = &mut self.gathering {
            gathering.forget(address, now);
        }
    }

    /// Whether others have limits, which this broker takes part in whether it has them or not.
    #[must_use]
    pub fn hears_of_limits(&self, now: Instant) -> bool {
        let gathering = self.gathering.as_ref();
        gathering.is_some_and(|gathering| gathering.hears_of_limits(now))
    }

    /// Takes in a datagram; `held` is what this broker vouches for.
    pub fn receive(&mut self, held: &mut Held, now: Instant, from: SocketAddr, bytes: &[u8]) {
        if let Some(speaker) = &mut self.speaker
            && let Some(answer) = speaker.take(held, now, from, bytes)
        {
            self.unsaid.extend(answer.map(|answer| (from, answer)));
            return;
        }
        let gathering = self.gathering.as_mut();
        let is_notice = gathering.is_some_and(|gathering| gathering.take(now, from, bytes));
        if let Some(gossiper) = self.gossiper.as_mut().filter(|_| !is_notice) {
            gossiper.receive(now, from, bytes);
        }
    }

    /// Does what is due of membership and notices.
    pub fn wake(&mut self, now: Instant) {
        if let Some(gossiper) = &mut self.gossiper {
            gossiper.wake(now);
        }
        if let Some(gathering) = &mut self.gathering {
            self.unsaid.extend(gathering.notices(now));
        }
    }

    /// Asks the other brokers of the round, if it is time. Then the round and until when its shares are held on to, if they are.
    pub fn ask(&mut self, held: &Held, now: Instant) -> Option<(u64, Instant)> {
        let speaker = self.speaker.as_mut()?;
        if now < self.next_question {
            return None;
        }
        self.next_question = now + ASK_INTERVAL;
        self.unsaid.extend(speaker.questions(held, now));
        held.until()
    }

    /// What is known of the others, by limit.
    #[must_use]
    pub fn remotes(&self) -> Remotes {
        let gossiper = self.gossiper.as_ref();
        gossiper.map_or_else(Remotes::default, |gossiper| {
            gossiper.remotes(&self.agreement)
        })
    }

    /// An interval is over, and this is what reactors found in it: it is compared with what others were told, and said. What differs is given,
    /// if it did not before.
    pub fn ended(&mut self, ends: &[IntervalEnd], now: Instant) -> Vec<String> {
        let mut news = Vec::new();
        if let Some(gathering) = &mut self.gathering {
            let agreement = gathering.agree(now, ends);
            let differs = agreement.disagreements.iter();
            let differs = differs.filter(|text| !self.agreement.disagreements.contains(text));
            news.extend(differs.cloned());
            self.agreement = agreement;
        }
        if let Some(gossiper) = &mut self.gossiper {
            gossiper.tell_estimates(now, ends, &self.agreement);
        }
        news
    }

    /// Hands over what is to be sent.
    pub fn transmit(&mut self, mut send: impl FnMut(SocketAddr, &[u8])) {
        for (to, bytes) in self.unsaid.drain(..) {
            send(to, &bytes);
        }
        if let Some(gossiper) = &mut self.gossiper {
            while let Some(transmit) = gossiper.next_transmit() {
                send(transmit.to, transmit.bytes());
            }
        }
    }

    /// Takes leave of the others.
    pub fn leave(&mut self) {
        if let Some(gossiper) = &mut self.gossiper {
            gossiper.leave();
        }
        if let Some(gathering) = &mut self.gathering {
            self.unsaid.extend(gathering.leave());
        }
    }

    /// Time between the ends of intervals.
    #[must_use]
    pub fn interval(&self) -> Duration {
        let gossiper = self.gossiper.as_ref();
        gossiper.map_or(INTERVAL, Gossiper::interval)
    }

    /// When something is to be done or said next.
    #[must_use]
    pub fn next_wake(&self, held: &Held) -> Option<Instant> {
        let gossiper = self.gossiper.as_ref().and_then(Gossiper::next_wake);
        let gathering = self.gathering.as_ref().map(Gathering::next_notice);
        let question = self.speaker.as_ref().filter(|_| !held.is_alone());
        let question = question.map(|_| self.next_question);
        gossiper.into_iter().chain(gathering).chain(question).min()
    }

    /// How it stands at `now`; `socket` is what became of datagrams at the port.
    pub(super) fn show(
        &self,
        figures: &mut SharingFigures,
        socket: Option<SocketCounters>,
        now: Instant,
    ) {
        (figures.generation, figures.brokers) = (self.generation, self.brokers);
        figures.problem.clone_from(&self.problem);
        if let Some(gossiper) = &self.gossiper {
            figures.connected = gossiper.connected();
            figures.datagrams = gossiper.datagrams(socket.unwrap_or_default());
            figures.sent_bytes = gossiper.sent_bytes();
        }
        if let Some(gathering) = &self.gathering {
            figures.found = gathering.found(now);
            figures.disagreements = self.agreement.disagreements.clone();
            let unknown = gathering.unknown().iter();
            let unknown =
                unknown.map(|name| format!("--gossip-join {name}: the name has no address"));
            figures.disagreements.extend(unknown);
            let datagrams = figures.datagrams.iter_mut();
            for (_, count) in datagrams.filter(|(outcome, _)| *outcome == "refused") {
                *count += gathering.refused();
            }
        }
    }
}
