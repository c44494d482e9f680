//! Who takes part, where no list is handed out: everybody tells everybody whom it knows.
//!
//! A roster begins with the addresses that its owner was told, and each *notice* brings those that
//! its sender knows. So all rosters become the same within a few notices, and the list that
//! [`crate::Node`] wants is the roster in the order of addresses. Everybody on it counts, reachable
//! or not: that keeps parts of a network that cannot hear each other within the limit together. A
//! limiter leaves the roster when it says so itself, or when an operator does.
//!
//! Of two notices about a limiter the one about its later life counts; of two about the same life,
//! the one that it is gone. A limiter that is called gone, or called by a later life than its own,
//! answers with a life beyond that: rosters only grow in this order, so they agree whatever is
//! lost, late or said twice.
//!
//! Notices are signed like membership. A recorded one says nothing new; a sender's limits count
//! only with a greater counter than before.

use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::time::Duration;

use clock::Instant;
use wire::gossip::{
    Endpoint, Key, NOTICE_BYTES, NOTICED_LIMIT_BYTES, NOTICED_MEMBER_BYTES, Notice, NoticedLimit,
    NoticedMember, SealedMembership, put_notice,
};

/// A roster's configuration; the key is that of all others.
#[derive(Clone, Debug)]
pub struct RosterConfig {
    /// Where this limiter receives, as the others see it.
    pub me: SocketAddr,
    /// Greater after every start: the wall clock's nanoseconds will do.
    pub incarnation: u64,
    /// The secret that all know.
    pub key: Key,
}

/// The participants, as one limiter knows them.
#[derive(Debug)]
pub struct Roster {
    me: SocketAddr,
    incarnation: u64,
    key: Key,
    life: u64,
    has_left: bool,
    members: BTreeMap<SocketAddr, Member>,
    counter: u64,
    /// Notices to everybody so far.
    rounds: u64,
    /// Where the next notice goes on in the members, and in the limits.
    next: (usize, usize),
    next_notice: Instant,
    began: Instant,
    /// When the list was last another one.
    changed: Instant,
    has_settled: bool,
    refused: u64,
}

/// A limiter that was heard of.
#[derive(Clone, Debug, Default)]
struct Member {
    life: u64,
    is_gone: bool,
    heard: Option<Heard>,
    limits: BTreeMap<u16, (NoticedLimit, Instant)>,
}

/// The latest notice of a limiter.
#[derive(Clone, Copy, Debug)]
struct Heard {
    number: (u64, u64),
    at: Instant,
}

/// A limiter on the roster, for statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RosterMember {
    /// Where it is reached.
    pub address: SocketAddr,
    /// When it was heard last; `None`: never.
    pub heard_at: Option<Instant>,
}

/// The most limiters of a roster, those that have left included.
pub const MAX_MEMBERS: usize = 1024;

/// Limits of one limiter that are remembered; as many as a node keeps apart.
const MAX_LIMITS: usize = 1024;

/// Time between two notices to everybody.
const NOTICE_INTERVAL: Duration = Duration::from_millis(500);

/// One in this many notices goes also to those that are called gone.
const GONE_TOLD_EVERY: u64 = 10;

/// How long a limiter waits for answers of those it was told of, before it takes its part among
/// them.
const ANSWER_WAIT: Duration = Duration::from_secs(3);

/// How long a list must have been the same before a limiter that has just begun uses it. Meanwhile
/// the others hear of it, and take their smaller parts.
const SETTLED: Duration = Duration::from_secs(1);

/// How long a limit counts that its limiter does not tell of any more. All limits of a limiter are told within it, if there
/// are no more than some hundred.
const DECLARED: Duration = Duration::from_secs(10);

impl Roster {
    /// The roster of a limiter that knows of nobody.
    pub fn new(config: RosterConfig, now: Instant) -> Roster {
        let me = canonical(config.me);
        let own = Member {
            life: config.incarnation,
            ..Member::default()
        };
        Roster {
            me,
            incarnation: config.incarnation,
            key: config.key,
            life: config.incarnation,
            has_left: false,
            members: BTreeMap::from([(me, own)]),
            counter: 0,
            rounds: 1,
            next: (0, 0),
            next_notice: now,
            began: now,
            changed: now,
            has_settled: false,
            refused: 0,
        }
    }

    /// Takes note of a limiter that its owner was told of. It counts from now on, whether it was ever heard or not.
    pub fn add(&mut self, address: SocketAddr, now: Instant) {
        let address = canonical(address);
        if !self.members.contains_key(&address) {
            let said = NoticedMember {
                address,
                life: 0,
                is_gone: false,
            };
            self.merge(said, now);
        }
    }

    /// Takes a limiter off the roster, everywhere. One that still is there comes back. False: there is none.
    pub fn forget(&mut self, address: SocketAddr, now: Instant) -> bool {
        let address = canonical(address);
        let Some(member) = self.members.get(&address).filter(|member| !member.is_gone) else {
            return false;
        };
        let life = member.life;
        self.merge(
            NoticedMember {
                address,
                life,
                is_gone: true,
            },
            now,
        );
        true
    }

    /// All that take part, this one included, in the order of their addresses. `None`: this one has just begun, and does not
    /// know yet.
    pub fn list(&mut self, now: Instant) -> Option<Vec<SocketAddr>> {
        if !self.has_settled {
            let is_answered = self.members.values().any(|member| member.heard.is_some());
            let is_alone = self.present().count() == 1;
            let waits = !is_answered && !is_alone && now < self.began + ANSWER_WAIT;
            self.has_settled = !waits && now >= self.changed + SETTLED;
        }
        let is_known = self.has_settled && !self.has_left;
        is_known.then(|| self.present().map(|(address, _)| *address).collect())
    }

    /// Those on the list, this one left out.
    pub fn others(&self) -> impl Iterator<Item = RosterMember> {
        let others = self.present().filter(|(address, _)| **address != self.me);
        others.map(|(address, member)| RosterMember {
            address: *address,
            heard_at: member.heard.map(|heard| heard.at),
        })
    }

    /// The limits of the others that they told of lately.
    pub fn limits(&self, now: Instant) -> impl Iterator<Item = (SocketAddr, &NoticedLimit)> {
        let others = self.present().filter(|(address, _)| **address != self.me);
        others.flat_map(move |(address, member)| {
            let limits = member.limits.values();
            let current = limits.filter(move |(_, said_at)| now < *said_at + DECLARED);
            current.map(|(limit, _)| (*address, limit))
        })
    }

    /// Takes in a notice that came from `from`.
    pub fn receive(&mut self, now: Instant, from: SocketAddr, sealed: SealedMembership<'_>) {
        let from = canonical(from);
        let incarnation = sealed.incarnation();
        let path = self.path(from, incarnation, self.me);
        let payload = sealed.open(&path);
        let notice = payload
            .ok()
            .and_then(|payload| Notice::decode(payload).ok());
        let Some(notice) = notice.filter(|_| from != self.me) else {
            self.refused += 1;
            return;
        };
        self.add(from, now);
        for member in notice.members {
            self.merge(member, now);
        }
        let number = (incarnation, sealed.counter());
        let Some(sender) = self.members.get_mut(&from) else {
            return;
        };
        if sender.heard.is_some_and(|heard| number <= heard.number) {
            return;
        }
        sender.heard = Some(Heard { number, at: now });
        for limit in notice.limits {
            if sender.limits.len() < MAX_LIMITS || sender.limits.contains_key(&limit.number.0) {
                sender.limits.insert(limit.number.0, (limit, now));
            }
        }
        sender
            .limits
            .retain(|_, (_, said_at)| now < *said_at + DECLARED);
    }

    /// When [`Roster::notices`] has something to say.
    pub fn next_notice(&self) -> Instant {
        self.next_notice
    }

    /// What to send, and to whom, if it is time: whom this limiter knows, and the limits that it keeps.
    pub fn notices(&mut self, now: Instant, own: &[NoticedLimit]) -> Vec<(SocketAddr, Vec<u8>)> {
        if now < self.next_notice {
            return Vec::new();
        }
        self.next_notice = now + NOTICE_INTERVAL;
        let payload = self.payload(own);
        // Who was called gone and speaks all the same is told, so that it can object. So are all who are, now and then: one that left may be there
        // again and know of nobody, and two that were cut off may each have been told that the other is gone.
        let all_are_told = self.rounds.is_multiple_of(GONE_TOLD_EVERY);
        self.rounds += 1;
        let lately = |member: &Member| {
            let heard = member.heard.map(|heard| heard.at);
            heard.is_some_and(|at| now < at + 2 * NOTICE_INTERVAL)
        };
        let told = self.members.iter();
        let told = told.filter(|(_, member)| !member.is_gone || all_are_told || lately(member));
        let told = told.map(|(address, _)| *address).collect();
        self.sealed(&payload, told)
    }

    /// What to send so that the others take this limiter off their rosters. It has no part any more.
    pub fn leave(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        self.has_left = true;
        let notice = Notice {
            members: vec![NoticedMember {
                address: self.me,
                life: self.life,
                is_gone: true,
            }],
            limits: Vec::new(),
        };
        let told = self.present().map(|(address, _)| *address).collect();
        self.sealed(&notice.encode(), told)
    }

    /// Notices that could not be believed.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// As much as fits, going on where the last notice ended; of limits as many as of members.
    fn payload(&mut self, own: &[NoticedLimit]) -> Vec<u8> {
        let all = self.members.iter().map(|(address, member)| NoticedMember {
            address: *address,
            life: member.life,
            is_gone: member.is_gone,
        });
        let all: Vec<NoticedMember> = all.collect();
        let for_limits = (own.len() * NOTICED_LIMIT_BYTES).min(NOTICE_BYTES / 2);
        let room = (NOTICE_BYTES - for_limits) / NOTICED_MEMBER_BYTES;
        let members = turn(&all, &mut self.next.0, room);
        let left = NOTICE_BYTES - members.len() * NOTICED_MEMBER_BYTES;
        let limits = turn(own, &mut self.next.1, left / NOTICED_LIMIT_BYTES);
        Notice { members, limits }.encode()
    }

    /// A notice for each that is `told`.
    fn sealed(&mut self, payload: &[u8], told: Vec<SocketAddr>) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut notices = Vec::with_capacity(told.len());
        for to in told.into_iter().filter(|to| *to != self.me) {
            self.counter += 1;
            let path = self.path(self.me, self.incarnation, to);
            let mut bytes = Vec::new();
            if put_notice(&mut bytes, &path, self.incarnation, self.counter, payload).is_ok() {
                notices.push((to, bytes));
            }
        }
        notices
    }

    fn path(&self, from: SocketAddr, incarnation: u64, to: SocketAddr) -> wire::gossip::Path {
        let from = Endpoint {
            address: from,
            incarnation,
        };
        let to = Endpoint {
            address: to,
            incarnation: 0,
        };
        self.key.path(from, to)
    }

    fn present(&self) -> impl Iterator<Item = (&SocketAddr, &Member)> {
        self.members.iter().filter(|(_, member)| !member.is_gone)
    }

    fn merge(&mut self, said: NoticedMember, now: Instant) {
        let address = canonical(said.address);
        if address == self.me {
            let is_outdone = said.life > self.life || (said.life == self.life && said.is_gone);
            if is_outdone && !self.has_left {
                self.life = said.life.saturating_add(1);
                if let Some(own) = self.members.get_mut(&self.me) {
                    own.life = self.life;
                }
            }
            return;
        }
        let is_full = self.members.len() >= MAX_MEMBERS;
        if address.port() == 0 || address.ip().is_unspecified() || address.ip().is_multicast() {
            return;
        }
        let known = match self.members.get_mut(&address) {
            Some(known) => known,
            None if is_full => return,
            None => {
                // Whatever is said of one that was never heard of is news.
                self.changed = if said.is_gone { self.changed } else { now };
                let member = Member {
                    life: said.life,
                    is_gone: said.is_gone,
                    ..Member::default()
                };
                self.members.insert(address, member);
                return;
            }
        };
        if (said.life, said.is_gone) > (known.life, known.is_gone) {
            if said.is_gone != known.is_gone {
                self.changed = now;
            }
            (known.life, known.is_gone) = (said.life, said.is_gone);
            if said.is_gone {
                known.limits.clear();
            }
        }
    }
}

/// The next `room` of all, from where the last turn ended.
fn turn<T: Copy>(all: &[T], next: &mut usize, room: usize) -> Vec<T> {
    if all.is_empty() {
        return Vec::new();
    }
    let from = *next % all.len();
    let taken = room.min(all.len());
    *next = from + taken;
    let from_there = all[from..].iter().chain(&all[..from]);
    from_there.take(taken).copied().collect()
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests;
