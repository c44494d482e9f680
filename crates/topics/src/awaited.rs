//! Topics that wait: they pass nothing on before their contract and channels are known.
//!
//! A broker that somebody tells what topics have (a controller; for channels alone, nsqlookupds)
//! must not take silence for "no limit" or "no further channel". A topic that it knows nothing of
//! waits: messages are accepted into the topic's queue, publishers wait when it is full, nothing is
//! dropped. It waits until everything has been told once, or until its own channels have been told,
//! which follow the contract. After that, a new topic is asked for and waits for the answer.

use link::TopicChange;
use rustc_hash::FxHashSet;
use wire::{ChannelName, TopicName};

use super::agenda::Agenda;
use super::told::Told;
use super::topic::{Topic, TopicKey};

/// The source of what topics have, and whether it is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Teller {
    /// Nobody: what is here is all there is.
    Nobody,
    /// Somebody who has not said everything yet.
    Silent,
    /// Somebody who has, and answers what it is asked.
    Answering,
    /// Somebody who has been away too long, so topics flow as they are.
    GivenUp,
}

/// What a waiting topic waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Whether it has a contract, and its channels.
    Contract,
    /// Its channels.
    Channels,
}

/// The source's word about a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownTopic {
    /// Its name.
    pub name: TopicName,
    /// Whether it passes nothing on.
    pub is_paused: bool,
    /// Its channels, and whether each is paused.
    pub channels: Vec<(ChannelName, bool)>,
}

/// The state of the source, and the questions to it.
#[derive(Debug)]
pub(super) struct Telling {
    /// The source, and whether it has spoken.
    pub(super) teller: Teller,
    /// What happens now was ordered by it, so it is not told of it again.
    pub(super) is_ordered: bool,
    /// How often it was announced that no topic waits any more; each hears it when it is looked at.
    said: u64,
    /// Up to that one, no topic has a limit that was not known here.
    judged: u64,
    /// Topics that were asked for since the last report.
    asked: FxHashSet<TopicName>,
    /// Those before it.
    asked_before: FxHashSet<TopicName>,
}

impl Default for Telling {
    fn default() -> Self {
        Telling {
            teller: Teller::Nobody,
            is_ordered: false,
            said: 0,
            judged: 0,
            asked: FxHashSet::default(),
            asked_before: FxHashSet::default(),
        }
    }
}

impl Teller {
    /// What a new topic waits for.
    pub(super) fn awaited(self) -> Option<Awaited> {
        match self {
            Teller::Nobody | Teller::GivenUp => None,
            Teller::Silent => Some(Awaited::Contract),
            Teller::Answering => Some(Awaited::Channels),
        }
    }

    /// Whether a topic without a limit may have one that is not known here.
    pub(super) fn may_hide_limits(self) -> bool {
        matches!(self, Teller::Silent | Teller::GivenUp)
    }
}

impl Awaited {
    /// Why a topic is held, for people.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Awaited::Contract => "no word from the controller",
            Awaited::Channels => "its channels are asked for",
        }
    }
}

impl Telling {
    /// Notes the state of the source; returns whether it has told everything, so that no topic
    /// waits any more once it hears of that ([`Telling::catch_up`]).
    pub(super) fn hear(&mut self, teller: Teller) -> bool {
        self.teller = teller;
        if teller == Teller::Silent {
            return false;
        }
        self.asked.clear();
        self.asked_before.clear();
        self.said += 1;
        if !teller.may_hide_limits() {
            self.judged = self.said;
        }
        true
    }

    /// A topic comes into being: it is held where somebody is to say what it has.
    pub(super) fn hold(&self, topic: &mut Topic) {
        topic.awaited = self.teller.awaited();
        topic.heard = self.said;
    }

    /// Has a topic hear what was said of all since it was last looked at. A topic that is no longer held has to run.
    #[inline]
    pub(super) fn catch_up(&self, key: TopicKey, topic: &mut Topic, agenda: &mut Agenda) {
        if topic.heard != self.said {
            self.tell_all(key, topic, agenda);
        }
    }

    #[cold]
    fn tell_all(&self, key: TopicKey, topic: &mut Topic, agenda: &mut Agenda) {
        if topic.heard < self.judged {
            topic.reported.unjudged = None;
        }
        topic.heard = self.said;
        if topic.awaited.take().is_some() {
            agenda.mark(key, topic);
        }
    }

    /// Reports a change of an existing topic; of ordered changes, that deletions are carried out.
    pub(super) fn tell(&self, topic: &TopicName, change: TopicChange, told: &mut Vec<Told>) {
        if !self.is_ordered {
            self.tell_anyway(topic, change, told);
        } else if change.is_deletion() && self.teller != Teller::Nobody {
            told.push(Told::Followed(topic.clone(), change));
        }
    }

    /// The same, even if it follows from an order.
    pub(super) fn tell_anyway(&self, topic: &TopicName, change: TopicChange, told: &mut Vec<Told>) {
        if self.teller != Teller::Nobody {
            told.push(Told::Changed(topic.clone(), change));
        }
    }

    /// Asks which channels a topic has that came into being. At most `asked_max` are remembered.
    pub(super) fn ask(&mut self, topic: TopicName, asked_max: usize, told: &mut Vec<Told>) {
        // Beyond the bound an answer makes a topic that was deleted meanwhile.
        if self.asked.len() < asked_max {
            self.asked.insert(topic.clone());
        }
        told.push(Told::Asked(topic));
    }

    /// Whether it was asked for a moment ago.
    pub(super) fn was_asked(&self, topic: &TopicName) -> bool {
        self.asked.contains(topic) || self.asked_before.contains(topic)
    }

    /// It is answered.
    pub(super) fn answered(&mut self, topic: &TopicName) {
        self.asked.remove(topic);
    }

    /// Called with each report: what was asked for two reports ago has been answered.
    pub(super) fn forget_asked(&mut self) {
        self.asked_before = std::mem::take(&mut self.asked);
    }
}
