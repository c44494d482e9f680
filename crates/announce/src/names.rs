//! Which four-byte identifier stands for a topic.
//!
//! Where there is a service, it gives identifiers out ([`Names::assign`]). Otherwise endpoints
//! agree by themselves: the identifier of a name at its k-th attempt is a hash that everybody can
//! compute ([`TopicId::hashed`]), and everybody begins with k = 0. An endpoint that knows two names
//! with one identifier raises k of both, and one that hears a name at a greater k than its own
//! follows. So k only grows, and everybody ends at the greatest that anyone found necessary, in
//! whatever order they hear of each other.
//!
//! A name goes on claiming the identifiers that it has left, since messages under them may still
//! come. An identifier that a single name claims means that name; one that several claim means
//! nothing: such a message is dropped and counted, rather than delivered to a topic that it may not
//! belong to. That is why *both* names leave. A subscriber that is sent messages under the
//! identifier that it announced itself therefore never takes one for another topic's.
//!
//! Identifiers of a service win over hashed ones: an endpoint that cannot reach the service follows
//! those that can.
//!
//! It forgets only what it is told to ([`Names::forget`]), and it does not decide whom to believe.

mod claims;
mod settling;

use std::collections::BTreeMap;

use wire::TopicName;
use wire::announce::TopicId;

use crate::Refused;
use claims::Claims;

/// Tries that a name has. That two names meet at one is a matter of 1 in 2^31; beyond the last a name has no identifier
/// that is its own.
const ATTEMPTS_MAX: u8 = 16;

/// Where a topic's identifier comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The name service gave it out.
    Service,
    /// It was computed from the name.
    Hash,
}

/// What hearing a topic under an identifier came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The identifier is the one that is known here.
    Known,
    /// The topic was not known, or had another identifier; the one that was heard counts from now on.
    Learnt,
    /// The speaker uses an identifier that this endpoint has left. It will follow once it hears this endpoint: announce
    /// soon.
    Behind,
    /// Another topic claims the identifier too; both have left it. Announce soon.
    Collision {
        /// The other topic.
        with: TopicName,
    },
    /// The topic cannot have this identifier: it is neither hashed from its name nor free. What is known here stays.
    Foreign,
    /// There is no room for a further topic.
    Full,
}

/// Counts of what went wrong with identifiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameCounts {
    /// Times that two names met at one identifier.
    pub collisions: u64,
    /// Identifiers that were heard for topics that cannot have them.
    pub foreign: u64,
    /// Topics that were heard and for which there was no room.
    pub full: u64,
    /// Names that have used up their attempts.
    pub exhausted: u64,
}

/// The identifiers of the topics that an endpoint has or has heard of.
#[derive(Clone, Debug)]
pub struct Names {
    topics_max: usize,
    by_topic: BTreeMap<TopicName, Name>,
    claims: Claims,
    generation: u64,
    counts: NameCounts,
}

#[derive(Clone, Copy, Debug)]
struct Name {
    id: TopicId,
    source: Source,
    /// By the service itself, not by another instance.
    is_assigned: bool,
    /// Hashed identifiers up to this attempt are claimed, whatever the source.
    attempt: u8,
}

impl Names {
    /// No topics, with room for `topics_max` in all; one's own are always taken.
    #[must_use]
    pub fn new(topics_max: usize) -> Names {
        Names {
            topics_max,
            by_topic: BTreeMap::new(),
            claims: Claims::default(),
            generation: 0,
            counts: NameCounts::default(),
        }
    }

    /// The identifier of `topic`; makes one by hashing if there is none yet.
    ///
    /// It may change by what is heard or assigned later, see [`Names::generation`]. One's own topics are asked for here, so
    /// this is not bounded.
    pub fn id_of(&mut self, topic: &TopicName) -> TopicId {
        if let Some(name) = self.by_topic.get(topic) {
            return name.id;
        }
        self.settle(topic, 0);
        self.by_topic[topic].id
    }

    /// The topic that messages under `id` belong to; `None` if no topic claims it, or several do.
    #[inline]
    #[must_use]
    pub fn topic_of(&self, id: TopicId) -> Option<&TopicName> {
        self.claims.sole(id)
    }

    /// Where the identifier of `topic` comes from; `None` if the topic is not known.
    #[must_use]
    pub fn source_of(&self, topic: &TopicName) -> Option<Source> {
        self.by_topic.get(topic).map(|name| name.source)
    }

    /// Takes an identifier that the service gave out; says whether the topic had another one before.
    ///
    /// # Errors
    /// [`Refused::HashedId`], [`Refused::IdTaken`]: the service contradicts the protocol or itself.
    pub fn assign(&mut self, topic: &TopicName, id: TopicId) -> Result<bool, Refused> {
        if id.is_hashed() {
            let topic = topic.clone();
            return Err(Refused::HashedId { id, topic });
        }
        if let Some(other) = self.claims.sole(id).filter(|&other| other != topic) {
            let other = other.clone();
            if self.by_topic[&other].is_assigned {
                return Err(Refused::IdTaken {
                    id,
                    topic: topic.clone(),
                    taken_by: other,
                });
            }
            // What another instance says does not count against the service itself.
            self.leave_service(&other);
        }
        let before = self.by_topic.get(topic).map(|name| name.id);
        self.put_service(topic, id, true);
        Ok(before.is_some_and(|before| before != id))
    }

    /// Takes note that somebody announces `topic` under `id`.
    pub fn hear(&mut self, topic: &TopicName, id: TopicId) -> Heard {
        let known = self.by_topic.get(topic).copied();
        match known {
            Some(name) if name.id == id => return Heard::Known,
            None if self.by_topic.len() >= self.topics_max => {
                self.counts.full += 1;
                return Heard::Full;
            }
            _ => {}
        }
        if id.is_hashed() {
            self.hear_hashed(topic, id, known)
        } else {
            self.hear_service(topic, id, known)
        }
    }

    /// Forgets `topic`: nobody here has it any more and nobody heard announces it.
    pub fn forget(&mut self, topic: &TopicName) {
        let Some(name) = self.by_topic.remove(topic) else {
            return;
        };
        self.claims.release(name.id, topic);
        for attempt in 0..=name.attempt {
            self.claims.release(TopicId::hashed(topic, attempt), topic);
        }
    }

    /// Grows whenever a topic gets another identifier than it had: entries that name it are to be announced anew.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Counts of what went wrong so far.
    #[must_use]
    pub fn counts(&self) -> NameCounts {
        self.counts
    }

    /// The number of topics that are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_topic.len()
    }

    /// Whether no topic is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_topic.is_empty()
    }

    fn hear_service(&mut self, topic: &TopicName, id: TopicId, known: Option<Name>) -> Heard {
        let is_settled = known.is_some_and(|name| name.source == Source::Service);
        if is_settled || self.claims.is_claimed(id) {
            self.counts.foreign += 1;
            return Heard::Foreign;
        }
        self.put_service(topic, id, false);
        Heard::Learnt
    }

    fn hear_hashed(&mut self, topic: &TopicName, id: TopicId, known: Option<Name>) -> Heard {
        let Some(attempt) =
            (0..ATTEMPTS_MAX).find(|&attempt| TopicId::hashed(topic, attempt) == id)
        else {
            self.counts.foreign += 1;
            return Heard::Foreign;
        };
        if known.is_some_and(|name| attempt <= name.attempt) {
            return Heard::Behind;
        }
        let met = self.settle(topic, attempt);
        match (known, met) {
            (_, Some(with)) => Heard::Collision { with },
            (Some(name), None) if name.source == Source::Service => Heard::Behind,
            (_, None) => Heard::Learnt,
        }
    }
}

#[cfg(test)]
mod tests;
