//! One instance as the directory knows it: where it was heard from last, and its entries with their
//! expiries.

use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::time::Duration;

use clock::Instant;
use wire::TopicName;
use wire::announce::{Announcement, Held, InstanceId, Role, TopicId};

use super::Endpoint;

/// One value for each role.
#[derive(Clone, Debug, Default)]
pub(super) struct ByRole<T> {
    pub(super) publishers: T,
    pub(super) subscribers: T,
}

/// What an instance announced about one topic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) id: TopicId,
    pub(super) held: Option<Held>,
    pub(super) expires_at: Instant,
}

#[derive(Clone, Debug)]
pub(super) struct Instance {
    pub(super) data: SocketAddr,
    pub(super) announces_from: SocketAddr,
    pub(super) udp: bool,
    pub(super) is_proxy: bool,
    pub(super) sequence: u32,
    pub(super) expires_at: Instant,
    /// Its element of the directory's deadlines.
    pub(super) deadline: Instant,
    pub(super) lines: ByRole<BTreeMap<TopicName, Line>>,
}

impl<T> ByRole<T> {
    pub(super) fn of(&self, role: Role) -> &T {
        match role {
            Role::Publisher => &self.publishers,
            Role::Subscriber => &self.subscribers,
        }
    }

    pub(super) fn of_mut(&mut self, role: Role) -> &mut T {
        match role {
            Role::Publisher => &mut self.publishers,
            Role::Subscriber => &mut self.subscribers,
        }
    }
}

impl Instance {
    pub(super) fn new(announcement: &Announcement, data: SocketAddr, from: SocketAddr) -> Instance {
        Instance {
            data,
            announces_from: from,
            udp: announcement.udp,
            is_proxy: announcement.is_proxy,
            sequence: announcement.sequence,
            expires_at: Instant::ZERO,
            deadline: Instant::ZERO,
            lines: ByRole::default(),
        }
    }

    /// Takes what an announcement says apart from its entries; says until when they hold.
    pub(super) fn hear(
        &mut self,
        announcement: &Announcement,
        data: SocketAddr,
        from: SocketAddr,
        now: Instant,
    ) -> Instant {
        self.data = data;
        self.announces_from = from;
        self.udp = announcement.udp;
        self.is_proxy = announcement.is_proxy;
        self.sequence = announcement.sequence;
        self.expires_at = now + Duration::from_millis(u64::from(announcement.expiry_ms));
        self.expires_at
    }

    /// Whether the announcement changes how all its topics are reached.
    pub(super) fn speaks_otherwise(
        &self,
        announcement: &Announcement,
        data: SocketAddr,
        from: SocketAddr,
    ) -> bool {
        (self.data, self.announces_from, self.udp, self.is_proxy)
            != (data, from, announcement.udp, announcement.is_proxy)
    }

    pub(super) fn endpoint(&self, instance: InstanceId, line: &Line) -> Endpoint {
        Endpoint {
            instance,
            data: self.data,
            udp: self.udp,
            is_proxy: self.is_proxy,
            id: line.id,
            announces_from: self.announces_from,
        }
    }

    pub(super) fn entries(&self) -> usize {
        self.lines.publishers.len() + self.lines.subscribers.len()
    }

    pub(super) fn topics(&self) -> impl Iterator<Item = (Role, &TopicName)> {
        let publishers = self.lines.publishers.keys();
        let subscribers = self.lines.subscribers.keys();
        publishers
            .map(|topic| (Role::Publisher, topic))
            .chain(subscribers.map(|topic| (Role::Subscriber, topic)))
    }

    /// When the first of its entries expires, or the instance itself.
    pub(super) fn next_expiry(&self) -> Instant {
        let publishers = self.lines.publishers.values();
        publishers
            .chain(self.lines.subscribers.values())
            .map(|line| line.expires_at)
            .fold(self.expires_at, Instant::min)
    }

    /// Removes entries that were not announced again in time.
    pub(super) fn take_expired(&mut self, now: Instant) -> Vec<(Role, TopicName)> {
        let mut expired = Vec::new();
        for role in [Role::Publisher, Role::Subscriber] {
            self.lines.of_mut(role).retain(|topic, line| {
                let holds = line.expires_at > now;
                if !holds {
                    expired.push((role, topic.clone()));
                }
                holds
            });
        }
        expired
    }
}
