//! Topics that pass nothing on before somebody has said what they have: contract and channels.
//!
//! A broker that somebody tells what topics have (a controller; of channels alone, nsqlookupds) must not take silence for "no
//! limit" or "no further channel". A topic that it knows nothing of is held: messages are accepted and wait in the topic's queue, at its bound
//! publishers wait, nothing is dropped. It is held until the first complete word, or until its channels are said, which
//! come behind the contract. Afterwards a topic that comes into being here is asked for and held until the answer.

use rustc_hash::FxHashSet;
use wire::{ChannelName, TopicName};

use super::refusal::Refusal;
use super::table::{TopicKey, TopicTable};
use super::told::Told;

/// Who says what topics have, and whether it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Teller {
    /// Nobody: what is here is all there is.
    Nobody,
    /// Somebody who has not said everything yet.
    Silent,
    /// Somebody who has, and answers what it is asked.
    Answering,
    /// Somebody who has stayed away for so long that topics flow as they are.
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

impl TopicTable {
    /// Notes how things stand with the one who says what topics have. When it has said everything, and when it is given
    /// up, no topic is held any more.
    pub fn hear(&mut self, teller: Teller) {
        self.telling.teller = teller;
        if teller == Teller::Silent {
            return;
        }
        self.telling.asked.clear();
        self.telling.asked_before.clear();
        let keys: Vec<TopicKey> = self.topics.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.let_flow(key);
            if let Some(topic) = self.topics.get_mut(key)
                && !teller.may_hide_limits()
            {
                topic.reported.unjudged = None;
            }
        }
    }

    /// Takes what was said of a topic. It is made unless the broker asked for it a moment ago: then it was here, and is gone
    /// since. Channels that it lacks are made, none is taken away, pauses become as said, and it is held no longer. An
    /// ephemeral channel is where its consumers are. False where nothing was made.
    ///
    /// # Errors
    /// [`Refusal`] at a bound; a topic that was held stays held.
    pub fn learn(&mut self, known: &KnownTopic) -> Result<bool, Refusal> {
        let was_asked = self.telling.asked.contains(&known.name)
            || self.telling.asked_before.contains(&known.name);
        if was_asked && self.find(known.name.as_str()).is_none() {
            return Ok(false);
        }
        self.begin_order();
        let made = self.make_as_said(known);
        self.end_order();
        self.let_flow(made?);
        Ok(true)
    }

    /// Holds a topic no longer that was asked for: its channels were made. One that is gone since is not made again.
    pub fn answered(&mut self, name: &TopicName) {
        self.telling.asked.remove(name);
        if let Some(key) = self.find(name.as_str()) {
            self.let_flow(key);
        }
    }

    /// Asks which channels a topic has that came into being.
    pub(super) fn ask(&mut self, name: TopicName) {
        // Beyond the bound an answer makes a topic that was deleted meanwhile.
        if self.telling.asked.len() < self.bounds.topics_max {
            self.telling.asked.insert(name.clone());
        }
        self.effects.told.push(Told::Asked(name));
    }

    /// Called with each report: what was asked for two reports ago has been answered.
    pub(super) fn forget_asked(&mut self) {
        self.telling.asked_before = std::mem::take(&mut self.telling.asked);
    }

    fn make_as_said(&mut self, known: &KnownTopic) -> Result<TopicKey, Refusal> {
        let key = self.find_or_create(known.name.as_str())?;
        let lasting = known.channels.iter();
        for (name, is_paused) in lasting.filter(|(name, _)| !name.is_ephemeral()) {
            let channel = self.find_or_create_channel(key, name)?;
            self.pause_channel(channel, *is_paused);
        }
        self.pause(key, known.is_paused);
        Ok(key)
    }

    fn let_flow(&mut self, key: TopicKey) {
        if let Some(topic) = self.topics.get_mut(key)
            && topic.awaited.take().is_some()
        {
            self.mark_dirty(key);
        }
    }
}
