//! What was heard and is still believed: who publishes and who subscribes, as soft state.
//!
//! Every announcement holds for the time that it says, from when it was heard. What is not repeated
//! is forgotten, topic by topic; an endpoint that says that it leaves is forgotten at once. So no
//! error lasts: a lost datagram costs nothing as long as one of those within the expiry arrives,
//! and a dead endpoint disappears by itself.
//!
//! Refused are one's own words, which multicast brings back; an announcement that is not newer than
//! the last of its instance, a replay or one overtaken on its way; and a new instance where there
//! is no room. The last sequence numbers of forgotten instances are remembered,
//! [`DirectoryConfig::instances_max`] of them, so that a late or replayed datagram does not bring
//! them back.
//!
//! A restarted endpoint is a new instance at the same data address; it takes the place of the old
//! one at once.
//!
//! It cannot tell whether anybody speaks the truth (with a key [`wire::announce`] can), and a
//! replay of an instance whose last number is forgotten is believed for one expiry.

mod change;
mod counters;
mod departed;
mod forgetting;
mod hearing;
mod instance;

pub use change::Change;
pub use counters::Counters;

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};

use clock::Instant;
use wire::TopicName;
use wire::announce::{AnnounceError, Announcement, InstanceId, Role, TopicId};

use crate::{Peer, Refused};
use departed::Departed;
use instance::{ByRole, Instance, Line};

/// Announcements that are read from a socket at most before [`Directory::expire`]: more than a buffer of the usual size holds.
pub const HEARD_BEFORE_FORGETTING: usize = 1024;

/// How much a directory remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryConfig {
    /// Instances; a further one is refused.
    pub instances_max: usize,
    /// Entries of one instance; further ones are refused, the rest of its announcement counts.
    pub entries_per_instance_max: usize,
    /// Entries of all instances; likewise.
    pub entries_max: usize,
}

impl Default for DirectoryConfig {
    /// 4,096 instances, 4,096 entries of each, 65,536 of all.
    fn default() -> Self {
        DirectoryConfig {
            instances_max: 4096,
            entries_per_instance_max: 4096,
            entries_max: 65_536,
        }
    }
}

/// Somebody who publishes or subscribes a topic, as believed at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Who.
    pub instance: InstanceId,
    /// Where it takes data, by TCP.
    pub data: SocketAddr,
    /// Takes data by UDP there as well.
    pub udp: bool,
    /// It is a broker and speaks for those behind it.
    pub is_proxy: bool,
    /// The identifier under which it knows the topic.
    pub id: TopicId,
    /// Where its announcements come from, and where to answer.
    pub announces_from: SocketAddr,
}

/// Who is there, by instance and by topic.
#[derive(Clone, Debug)]
pub struct Directory {
    own: InstanceId,
    config: DirectoryConfig,
    instances: BTreeMap<InstanceId, Instance>,
    by_topic: BTreeMap<TopicName, ByRole<BTreeSet<InstanceId>>>,
    by_data: BTreeMap<SocketAddr, InstanceId>,
    /// When something of an instance expires next, one element per instance.
    deadlines: BTreeSet<(Instant, InstanceId)>,
    entries: usize,
    departed: Departed,
    /// What expired to make room, not told yet.
    untold: Change,
    counters: Counters,
}

impl Directory {
    /// An empty directory of the endpoint `own`.
    #[must_use]
    pub fn new(own: InstanceId, config: DirectoryConfig) -> Directory {
        Directory {
            own,
            config,
            instances: BTreeMap::new(),
            by_topic: BTreeMap::new(),
            by_data: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            entries: 0,
            departed: Departed::new(config.instances_max),
            untold: Change::default(),
            counters: Counters::default(),
        }
    }

    /// Takes an announcement that came from `from`; says what it changed.
    ///
    /// # Errors
    /// [`Refused::Own`], [`Refused::Replayed`], [`Refused::Full`].
    pub fn hear(
        &mut self,
        announcement: &Announcement,
        from: SocketAddr,
        now: Instant,
    ) -> Result<Change, Refused> {
        if announcement.instance == self.own {
            self.counters.own += 1;
            return Err(Refused::Own);
        }
        self.refuse_replayed(announcement)?;
        let mut change = Change::default();
        if announcement.is_leaving {
            self.let_leave(announcement, &mut change);
        } else {
            self.make_room(announcement.instance, now)?;
            self.refresh(announcement, from, now, &mut change);
        }
        self.counters.accepted += 1;
        change.merge(std::mem::take(&mut self.untold));
        Ok(change)
    }

    /// Counts a datagram that is no announcement that may be believed.
    pub fn note_undecodable(&mut self, error: &AnnounceError) {
        self.counters.note(error);
    }

    /// Forgets what has expired by `now`; says what that changed.
    ///
    /// Whoever was kept from running hears what has arrived meanwhile first, so as not to forget the living.
    pub fn expire(&mut self, now: Instant) -> Change {
        let mut change = std::mem::take(&mut self.untold);
        while let Some(&(at, instance)) = self.deadlines.first()
            && at <= now
        {
            self.expire_of(instance, now, &mut change);
        }
        change
    }

    /// When [`Directory::expire`] is of use next.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Instant> {
        if !self.untold.is_empty() {
            return Some(Instant::ZERO);
        }
        self.deadlines.first().map(|&(at, _)| at)
    }

    /// Who is ready to take messages of `topic`, in the order of instances.
    pub fn subscribers_of(&self, topic: &TopicName) -> impl Iterator<Item = Endpoint> + '_ {
        self.users(topic, Role::Subscriber)
            .map(|(endpoint, _)| endpoint)
    }

    /// Who is able to send messages of `topic`, in the order of instances.
    pub fn publishers_of(&self, topic: &TopicName) -> impl Iterator<Item = Endpoint> + '_ {
        self.users(topic, Role::Publisher)
            .map(|(endpoint, _)| endpoint)
    }

    /// The publishers of `topic` that divide its limit among themselves: those that say what they hold, brokers apart.
    pub fn peers_of(&self, topic: &TopicName) -> impl Iterator<Item = Peer> + '_ {
        self.users(topic, Role::Publisher)
            .filter(|(endpoint, _)| !endpoint.is_proxy)
            .filter_map(|(endpoint, line)| {
                let instance = endpoint.instance;
                line.held.map(|held| Peer { instance, held })
            })
    }

    /// Whether anybody publishes or subscribes `topic`.
    #[must_use]
    pub fn knows(&self, topic: &TopicName) -> bool {
        self.by_topic.contains_key(topic)
    }

    /// Whether the instance is believed to be there.
    #[must_use]
    pub fn is_there(&self, instance: InstanceId) -> bool {
        self.instances.contains_key(&instance)
    }

    /// Instances believed to be there.
    #[must_use]
    pub fn instances(&self) -> usize {
        self.instances.len()
    }

    /// Entries of all instances.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// What came in so far, by what became of it.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Each instance that speaks for itself: where its announcements come from, and its roles and topics.
    pub(crate) fn speakers(
        &self,
    ) -> impl Iterator<Item = (SocketAddr, impl Iterator<Item = (Role, &TopicName)>)> {
        self.instances
            .values()
            .filter(|instance| !instance.is_proxy)
            .map(|instance| (instance.announces_from, instance.topics()))
    }

    fn users(&self, topic: &TopicName, role: Role) -> impl Iterator<Item = (Endpoint, &Line)> + '_ {
        let topic = topic.clone();
        let users = self.by_topic.get(&topic).map(|users| users.of(role));
        users.into_iter().flatten().filter_map(move |id| {
            let instance = self.instances.get(id)?;
            let line = instance.lines.of(role).get(&topic)?;
            Some((instance.endpoint(*id, line), line))
        })
    }
}

#[cfg(test)]
mod tests;
