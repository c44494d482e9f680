//! What a broker announces in the name of those behind it.
//!
//! To publishers it is the one subscriber of their topics, to subscribers the one publisher,
//! however many there really are (Tempo, figure 1). Each endpoint hears only of its own topics, in
//! datagrams to the address that it announces from:
//!
//! * that the broker subscribes to a topic, if the endpoint publishes it and there is somebody to
//!   pass it on to: a subscriber that announced itself, or the broker itself (a channel of an NSQ
//!   client, say);
//! * that the broker publishes a topic, if the endpoint subscribes to it.
//!
//! It never speaks for other brokers: their announcements do not count here, so brokers on one
//! channel do not feed each other in circles.
//!
//! Its memory is that of the [`Directory`], and what it told each endpoint last.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use clock::{Instant, Xoshiro256PlusPlus};
use wire::TopicName;
use wire::announce::{Announcement, Entry, Role};

use crate::announcer::{Pace, Round};
use crate::{AnnouncerConfig, Directory, Names, Speaker};

/// Datagrams to one endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Relayed {
    /// The address of the endpoint.
    pub to: SocketAddr,
    /// The announcements, in the order of sending.
    pub announcements: Vec<Announcement>,
}

/// Decides what a broker announces to whom, and when.
#[derive(Clone, Debug)]
pub struct Proxy {
    speaker: Speaker,
    pace: Pace,
    told: BTreeMap<SocketAddr, Topics>,
}

/// What one endpoint is told.
type Topics = BTreeMap<(Role, TopicName), Entry>;

impl Proxy {
    /// A broker that has told nobody anything yet.
    #[must_use]
    pub fn new(
        speaker: Speaker,
        config: AnnouncerConfig,
        random: Xoshiro256PlusPlus,
        now: Instant,
    ) -> Proxy {
        Proxy {
            speaker: speaker.as_proxy().with_expiry_ms(config.expiry_ms()),
            pace: Pace::new(&config, random, now),
            told: BTreeMap::new(),
        }
    }

    /// Tells those whom it concerns soon: the directory, the identifiers or the broker's own topics have changed.
    pub fn changed(&mut self, now: Instant) {
        self.pace.hasten(1, now);
    }

    /// When [`Proxy::due`] has something to send.
    #[must_use]
    pub fn next_due(&self) -> Instant {
        self.pace.next()
    }

    /// The datagrams to send at `now`; `None` before [`Proxy::next_due`].
    ///
    /// Once an interval everybody is told everything; in between, only those are told for whom something changed.
    /// `takes` says of which topics the broker takes messages whoever else subscribes.
    pub fn due(
        &mut self,
        directory: &Directory,
        names: &mut Names,
        takes: impl Fn(&TopicName) -> bool,
        now: Instant,
    ) -> Option<Vec<Relayed>> {
        let round = self.pace.due(now)?;
        if round == Round::Regular {
            self.pace.restart(now);
        }
        let mut relayed = Vec::new();
        let mut before = std::mem::take(&mut self.told);
        for (to, topics) in concerns(directory, names, takes) {
            let former = before.remove(&to);
            let is_told = former.as_ref() == Some(&topics);
            if round == Round::Hastened && is_told {
                self.told.insert(to, topics);
                continue;
            }
            let announcements = self.tell(former.unwrap_or_default(), &topics);
            relayed.push(Relayed { to, announcements });
            self.told.insert(to, topics);
        }
        Some(relayed)
    }

    /// The last words to everybody who was told anything.
    pub fn leave(&mut self) -> Vec<Relayed> {
        let told = std::mem::take(&mut self.told);
        let leaving = self.speaker.leave();
        let to_each = |to| Relayed {
            to,
            announcements: leaving.clone(),
        };
        told.into_keys().map(to_each).collect()
    }

    fn tell(&mut self, mut former: Topics, topics: &Topics) -> Vec<Announcement> {
        former.retain(|key, _| !topics.contains_key(key));
        let mut announcements = Vec::new();
        if !former.is_empty() {
            announcements = self.speaker.withdraw(former.into_values().collect());
        }
        let entries = topics.values().cloned().collect();
        announcements.extend(self.speaker.say(entries));
        announcements
    }
}

/// What each endpoint is to be told; those whom nothing concerns hear at least that the broker is there.
fn concerns(
    directory: &Directory,
    names: &mut Names,
    takes: impl Fn(&TopicName) -> bool,
) -> BTreeMap<SocketAddr, Topics> {
    let mut concerns: BTreeMap<SocketAddr, Topics> = BTreeMap::new();
    for (to, topics) in directory.speakers() {
        let told = concerns.entry(to).or_default();
        for (role, topic) in topics {
            let answer = match role {
                Role::Subscriber => Role::Publisher,
                Role::Publisher if has_taker(directory, topic) || takes(topic) => Role::Subscriber,
                Role::Publisher => continue,
            };
            let entry = Entry {
                role: answer,
                id: names.id_of(topic),
                topic: topic.clone(),
                held: None,
            };
            told.insert((answer, topic.clone()), entry);
        }
    }
    concerns
}

fn has_taker(directory: &Directory, topic: &TopicName) -> bool {
    directory
        .subscribers_of(topic)
        .any(|endpoint| !endpoint.is_proxy)
}

#[cfg(test)]
mod tests;
