//! A broker's topics and channels: those it reported, and those it was told since.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clock::Instant;
use link::{TopicChange, TopicState};
use wire::{ChannelName, TopicName};

use super::catalog::{Known, channel_name};

/// Topics with their channels.
pub type Topics = BTreeMap<TopicName, BTreeSet<ChannelName>>;

/// A topic, or one of its channels.
pub(super) type Subject = (TopicName, Option<ChannelName>);

/// Names of topics and channels that one broker is believed to have, at most.
const NAMES_MAX: usize = 1 << 18;
/// Changes that a broker says while it still says what it has, or that is still taken over, at most.
const EARLY_MAX: usize = 65_536;
/// Deletions that a broker has not confirmed, and is told again when it comes back, at most.
pub(super) const OWED_MAX: usize = 4096;
/// Tombstones of one broker at most.
const TOMBSTONES_MAX: usize = 1024;
/// Changes told that are remembered at most.
const TOLD_MAX: usize = 4096;
/// A change may have crossed one that the broker was told within this time: messages take
/// milliseconds.
const CROSSING: Duration = Duration::from_secs(2);

/// One broker's.
#[derive(Debug, Default)]
pub struct Inventory {
    topics: Topics,
    names: usize,
    /// All that it has was said on this link: the broker hears of changes from now on.
    pub(super) is_whole: bool,
    said: BTreeMap<TopicName, Known>,
    said_names: usize,
    /// What was said and has been taken over.
    taken: Topics,
    early: Vec<(String, TopicChange)>,
    /// Topics that it was told and has not confirmed.
    pub(super) preparing: BTreeMap<TopicName, Preparing>,
    /// Topics that publishers wait for, and since when.
    pub(super) waiting: BTreeMap<TopicName, Instant>,
    /// Where the look for those that they have waited for too long ended.
    pub(super) waited_last: Option<TopicName>,
    /// Those that they have waited for too long.
    pub(super) deaf: BTreeSet<TopicName>,
    told: BTreeMap<Subject, Instant>,
    tombstones: BTreeMap<TopicName, Instant>,
    owed: BTreeSet<Subject>,
    /// Deletions that it was told on this link and has not confirmed, with how often.
    unconfirmed: BTreeMap<Subject, u32>,
}

/// A topic that a broker was told and has not confirmed.
#[derive(Debug)]
pub(super) struct Preparing {
    pub(super) ticket: u64,
    pub(super) told_at: Instant,
    /// The channels that it will have.
    channels: BTreeSet<ChannelName>,
    /// It was told channels since that it may not have by the time it confirms.
    is_outdated: bool,
}

/// What it means that a broker confirms a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confirmation {
    /// Nothing: it was told the topic again since.
    Former,
    /// It has what it was told.
    Whole,
    /// So it has, and was told channels since: it is to be told the topic again.
    Outdated,
}

impl Inventory {
    /// Topics with their channels.
    #[must_use]
    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    /// Whether the broker has a topic, or was told to make it.
    pub(super) fn has(&self, topic: &TopicName) -> bool {
        self.topics.contains_key(topic) || self.preparing.contains_key(topic)
    }

    /// Whether the broker may be given publishers of a topic: it was not waited for in vain.
    pub(super) fn answers(&self, topic: &str) -> bool {
        !self.deaf.contains(topic)
    }

    /// Whether the broker has all channels of a topic.
    pub(super) fn has_all(&self, topic: &str, known: &Known) -> bool {
        let here = self.topics.get(topic);
        let mut channels = known.channels.keys();
        channels.all(|channel| here.is_some_and(|here| here.contains(channel)))
    }

    /// The link is gone: what the broker has is not known for certain any more.
    pub(super) fn leave(&mut self) {
        self.is_whole = false;
        self.said_names = 0;
        (self.said, self.taken) = (BTreeMap::new(), Topics::new());
        self.early.clear();
        self.preparing.clear();
        self.told.clear();
        self.unconfirmed.clear();
        self.waiting.clear();
        self.deaf.clear();
    }

    /// The process is gone, and what it had with it; gives that.
    pub(super) fn end(&mut self) -> Topics {
        self.leave();
        self.names = 0;
        std::mem::take(&mut self.topics)
    }

    /// A topic that the broker says it has.
    ///
    /// # Errors
    /// A text: a name that is not valid, or a bound that is reached.
    pub(super) fn say(&mut self, state: &TopicState) -> Result<(), String> {
        let topic = topic_name(&state.topic)?;
        if self.unconfirmed.contains_key(&(topic.clone(), None)) {
            return Ok(());
        }
        let mut known = Known::of(state).map_err(|text| format!("topic {topic}: {text}"))?;
        let of_topic = of_topic(&self.unconfirmed, &topic);
        for channel in of_topic.filter_map(|((_, channel), _)| channel.as_ref()) {
            known.channels.remove(channel);
        }
        let names = self.said_names + 1 + known.channels.len();
        if names > NAMES_MAX {
            return Err(format!(
                "topic {topic}: the inventory has {NAMES_MAX} names already"
            ));
        }
        self.said_names = names;
        self.said.insert(topic, known);
        Ok(())
    }

    /// Takes over the next `at_most` topics of what was said, and gives them.
    pub(super) fn take_said(&mut self, at_most: usize) -> Vec<(TopicName, Known)> {
        let mut part = Vec::new();
        while part.len() < at_most
            && let Some((topic, known)) = self.said.pop_first()
        {
            let channels = known.channels.keys().cloned().collect();
            self.taken.insert(topic.clone(), channels);
            part.push((topic, known));
        }
        part
    }

    /// Whether all that was said is taken over.
    pub(super) fn is_taken(&self) -> bool {
        self.said.is_empty()
    }

    /// Takes a topic or channel from what was said, for it was deleted meanwhile.
    pub(super) fn unsay(&mut self, (topic, channel): &Subject) {
        let Some(channel) = channel else {
            self.said.remove(topic);
            self.taken.remove(topic);
            return;
        };
        if let Some(known) = self.said.get_mut(topic) {
            known.channels.remove(channel);
        } else if let Some(taken) = self.taken.get_mut(topic) {
            taken.remove(channel);
        }
    }

    /// Replaces what was known by what was taken over; returns the former.
    pub(super) fn replace(&mut self) -> Topics {
        let topics = std::mem::take(&mut self.taken);
        // Deletions meanwhile make it an upper bound.
        self.names = std::mem::take(&mut self.said_names);
        self.is_whole = true;
        std::mem::replace(&mut self.topics, topics)
    }

    /// A change while the broker still says what it has.
    ///
    /// # Errors
    /// A text: the bound.
    pub(super) fn changed_early(&mut self, topic: &str, change: TopicChange) -> Result<(), String> {
        if self.early.len() >= EARLY_MAX {
            return Err(format!("{EARLY_MAX} changes and no inventory"));
        }
        self.early.push((topic.to_owned(), change));
        Ok(())
    }

    /// Takes those changes.
    pub(super) fn take_early(&mut self) -> Vec<(String, TopicChange)> {
        std::mem::take(&mut self.early)
    }

    /// Something became of a topic or channel here.
    ///
    /// # Errors
    /// A text: a name that is not valid, or a bound that is reached.
    pub(super) fn apply(&mut self, topic: &TopicName, change: &TopicChange) -> Result<(), String> {
        match change {
            TopicChange::TopicDeleted => {
                self.preparing.remove(topic);
                if self.topics.contains_key(topic) {
                    let gone = self.topics.remove(topic);
                    self.names -= 1 + gone.map_or(0, |channels| channels.len());
                }
            }
            TopicChange::TopicCreated => self.create(topic, None)?,
            TopicChange::ChannelCreated { channel } => {
                let channel = channel_name(channel)?;
                // Where its topic has been deleted since it is gone, and nobody makes it again.
                if !channel.is_ephemeral() || self.topics.contains_key(topic) {
                    self.create(topic, Some(channel))?;
                }
            }
            TopicChange::ChannelDeleted { channel } => {
                let channel = channel_name(channel)?;
                if let Some(preparing) = self.preparing.get_mut(topic) {
                    preparing.channels.remove(&channel);
                }
                let here = self.topics.get(topic);
                if here.is_some_and(|here| here.contains(&channel))
                    && let Some(here) = self.topics.get_mut(topic)
                {
                    here.remove(&channel);
                    self.names -= 1;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The broker was told a topic with these channels.
    pub(super) fn prepare(
        &mut self,
        topic: TopicName,
        ticket: u64,
        channels: BTreeSet<ChannelName>,
        now: Instant,
    ) {
        let preparing = Preparing {
            ticket,
            told_at: now,
            channels,
            is_outdated: false,
        };
        self.preparing.insert(topic, preparing);
    }

    /// The broker is told one more channel of a topic, which it does not confirm: that counts once it has confirmed the topic as it is told it
    /// behind. Whether it is to be told that now; otherwise, once it has confirmed what it was told before.
    pub(super) fn told_channel(&mut self, topic: &TopicName) -> bool {
        if let Some(preparing) = self.preparing.get_mut(topic) {
            preparing.is_outdated = true;
            return false;
        }
        self.topics.contains_key(topic)
    }

    /// The broker confirms what it was told.
    ///
    /// # Errors
    /// A text: the bound.
    pub(super) fn confirmed(
        &mut self,
        topic: &TopicName,
        ticket: u64,
    ) -> Result<Confirmation, String> {
        let Some(told) = self.preparing.remove(topic) else {
            return Ok(Confirmation::Former);
        };
        if told.ticket != ticket {
            self.preparing.insert(topic.clone(), told);
            return Ok(Confirmation::Former);
        }
        self.create(topic, None)?;
        for channel in told.channels {
            self.create(topic, Some(channel))?;
        }
        Ok(match told.is_outdated {
            true => Confirmation::Outdated,
            false => Confirmation::Whole,
        })
    }

    /// Notes that the broker is told a change.
    pub(super) fn note_told(&mut self, subject: Subject, now: Instant) {
        if self.told.len() >= TOLD_MAX {
            self.told.retain(|_, at| now - *at < CROSSING);
        }
        if self.told.len() < TOLD_MAX {
            self.told.insert(subject, now);
        }
    }

    /// Whether a change of the broker may have crossed one that it was told, or a topic that it has not confirmed.
    pub(super) fn may_cross(&self, subject: &Subject, now: Instant) -> bool {
        let mut of_topic = of_topic(&self.told, &subject.0);
        self.preparing.contains_key(&subject.0)
            || of_topic.any(|((_, channel), at)| {
                let is_same = channel.is_none() || subject.1.is_none() || *channel == subject.1;
                is_same && now - *at < CROSSING
            })
    }

    /// Notes that the broker is told a deletion: what it has said and says of it until it confirms that it said before it heard.
    ///
    /// Beyond [`OWED_MAX`] that is not remembered.
    pub(super) fn note_deletion(&mut self, subject: &Subject) {
        self.early.retain(|(topic, change)| {
            let said = topic_name(topic).and_then(|topic| subject_of(&topic, change));
            !said.is_ok_and(|said| is_within(&said, subject))
        });
        if let Some(times) = self.unconfirmed.get_mut(subject) {
            *times += 1;
        } else if self.unconfirmed.len() < OWED_MAX {
            self.unconfirmed.insert(subject.clone(), 1);
        }
    }

    /// The broker has carried out a deletion.
    pub(super) fn deletion_followed(&mut self, subject: &Subject) {
        if let Some(times) = self.unconfirmed.get_mut(subject) {
            *times -= 1;
            if *times == 0 {
                self.unconfirmed.remove(subject);
            }
        }
    }

    /// Whether it was told a deletion of this that it has not carried out.
    pub(super) fn awaits_deletion(&self, subject: &Subject) -> bool {
        self.unconfirmed.contains_key(subject)
    }

    /// Whether what the broker says of this was said before it heard of a deletion.
    pub(super) fn is_outdated(&self, subject: &Subject) -> bool {
        let topic = (subject.0.clone(), None);
        self.unconfirmed.contains_key(&topic) || self.unconfirmed.contains_key(subject)
    }

    /// Until `until` a deletion of the topic here concerns this broker alone.
    pub(super) fn place_tombstone(&mut self, topic: TopicName, until: Instant, now: Instant) {
        self.tombstones.retain(|_, until| now < *until);
        if self.tombstones.len() < TOMBSTONES_MAX {
            self.tombstones.insert(topic, until);
        }
    }

    /// Whether that is so.
    pub(super) fn is_tombstoned(&self, topic: &TopicName, now: Instant) -> bool {
        self.tombstones.get(topic).is_some_and(|until| now < *until)
    }

    /// Remembers a deletion that the broker is to be told again when it comes back before it has confirmed it; `false` at the bound.
    pub(super) fn owe(&mut self, subject: Subject) -> bool {
        let may_owe = self.may_owe(&subject);
        if may_owe {
            self.owed.insert(subject);
        }
        may_owe
    }

    /// Whether there is room to.
    pub(super) fn may_owe(&self, subject: &Subject) -> bool {
        self.owed.len() < OWED_MAX || self.owed.contains(subject)
    }

    /// Deletions that it has not on its disk, as far as it has said.
    pub(super) fn owed(&self) -> &BTreeSet<Subject> {
        &self.owed
    }

    /// A deletion is not owed any more; whether it was.
    pub(super) fn owe_no_more(&mut self, subject: &Subject) -> bool {
        self.owed.remove(subject)
    }

    /// Deletions that it was not told on this link.
    pub(super) fn owed_and_untold(&self) -> Vec<Subject> {
        let is_told = |subject: &&Subject| self.unconfirmed.contains_key(*subject);
        let untold = self.owed.iter().filter(|subject| !is_told(subject));
        untold.cloned().collect()
    }

    /// Takes the deletions that it has not confirmed.
    pub(super) fn take_owed(&mut self) -> BTreeSet<Subject> {
        std::mem::take(&mut self.owed)
    }

    fn create(&mut self, topic: &TopicName, channel: Option<ChannelName>) -> Result<(), String> {
        let here = self.topics.get(topic);
        let is_known = match (&channel, here) {
            (Some(channel), Some(here)) => here.contains(channel),
            (None, here) => here.is_some(),
            (Some(_), None) => false,
        };
        if is_known {
            return Ok(());
        }
        let more = usize::from(here.is_none()) + usize::from(channel.is_some());
        if self.names + more > NAMES_MAX {
            return Err(format!("{topic}: it has {NAMES_MAX} names already"));
        }
        self.names += more;
        let here = self.topics.entry(topic.clone());
        here.or_default().extend(channel);
        Ok(())
    }
}

/// What is noted of a topic and its channels.
fn of_topic<'a, T>(
    noted: &'a BTreeMap<Subject, T>,
    topic: &'a TopicName,
) -> impl Iterator<Item = (&'a Subject, &'a T)> {
    // In order of name: of a topic, the topic itself is first.
    let from_topic = noted.range((topic.clone(), None)..);
    from_topic.take_while(move |((other, _), _)| other == topic)
}

/// Whether one is the other, or one of its channels.
fn is_within(one: &Subject, other: &Subject) -> bool {
    one.0 == other.0 && (other.1.is_none() || one.1 == other.1)
}

/// Whether this comes and goes at each broker by itself.
pub(super) fn is_ephemeral(subject: &Subject) -> bool {
    let (topic, channel) = subject;
    let of_channel = channel.as_ref().map(ChannelName::is_ephemeral);
    of_channel.unwrap_or_else(|| topic.is_ephemeral())
}

/// A topic's name.
///
/// # Errors
/// A text.
pub(super) fn topic_name(name: &str) -> Result<TopicName, String> {
    name.parse().map_err(|_| {
        let shown: String = name.chars().take(70).collect();
        format!("{shown:?} is not a topic name")
    })
}

/// What a change is about.
///
/// # Errors
/// A text: a channel name that is not valid.
pub(super) fn subject_of(topic: &TopicName, change: &TopicChange) -> Result<Subject, String> {
    let channel = match change {
        TopicChange::ChannelCreated { channel }
        | TopicChange::ChannelDeleted { channel }
        | TopicChange::ChannelPaused { channel }
        | TopicChange::ChannelResumed { channel }
        | TopicChange::ChannelEmptied { channel } => Some(channel_name(channel)?),
        _ => None,
    };
    Ok((topic.clone(), channel))
}

/// The change that deletes it.
pub(super) fn deletion_of((_, channel): &Subject) -> TopicChange {
    match channel {
        None => TopicChange::TopicDeleted,
        Some(channel) => TopicChange::ChannelDeleted {
            channel: channel.to_string(),
        },
    }
}
