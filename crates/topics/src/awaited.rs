//! Topics that pass nothing on before somebody has said what they have: contract and channels.
//!
//! A broker that somebody tells what topics have (a controller; of channels alone, nsqlookupds) must not take silence for "no
//! limit" or "no further channel". A topic that it knows nothing of is held: messages are accepted and wait in the topic's queue, at its bound
//! publishers wait, nothing is dropped. It is held until the first complete word, or until its channels are said, which
//! come behind the contract. Afterwards a topic that comes into being here is asked for and held until the answer.

use link::TopicChange;
use rustc_hash::FxHashSet;
use wire::{ChannelName, TopicName};

use super::agenda::Agenda;
use super::told::Told;
use super::topic::{Topic, TopicKey};

/// Who says what topics have, and whether it does.
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

/// What a topic that is held waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Whether it has a contract, and its channels.
    Contract,
    /// Its channels.
    Channels,
}

/// What was said of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownTopic {
    /// Its name.
    pub name: TopicName,
    /// Whether it passes nothing on.
    pub is_paused: bool,
    /// Its channels, and whether each is paused.
    pub channels: Vec<(ChannelName, bool)>,
}

/// What is known of the teller, and what it was asked.
#[derive(Debug)]
pub(super) struct Telling {
    /// Who it is, and whether it has spoken.
    pub(super) teller: Teller,
    /// What happens now was ordered by it, so it is not told of it again.
    pub(super) is_ordered: bool,
    /// How often it was said that no topic is held any more; each hears it when it is looked at.
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
    /// What a topic that comes into being waits for.
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
    /// Notes how things stand with the one who says what topics have; whether it has said all that there is to be said, so that
    /// no topic is held any more once it hears of it ([`Telling::catch_up`]).
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

    /// Tells what became of a topic that is there; of what was ordered, that deletions are carried out.
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
