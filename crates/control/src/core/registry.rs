//! Who may have a broker's name, for how long, and how many names there are.
//!
//! A name belongs to the broker that first came with it, until that one is known to be dead. A dead
//! broker keeps its name for a day, or until the place is needed; an operator frees it at once.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::ops::{Index, IndexMut};
use std::time::Duration;

use clock::Instant;
use link::Hello;
use rustc_hash::FxHashMap;

use super::outbox::Outbox;
use super::owed::{Departed, owed_change};
use super::{BROKERS_MAX, Broker, BrokerNumber, Liveness};
use crate::ControlError;
use crate::store::Table;

/// Lives of brokers in one life of the controller: as many as fit.
const LIFE_BITS: u32 = 32;

/// Brokers from one address at most, but for those of this machine.
const BROKERS_FROM_ONE_MAX: usize = BROKERS_MAX / 10;

/// Names of dead brokers at most; the one that is dead for longest gives way.
const DEAD_MAX: usize = BROKERS_MAX;

/// A dead broker's name is free after so long.
pub const DEAD_KEPT: Duration = Duration::from_secs(24 * 3600);

/// A number that was freed stands for another broker after so long; nothing that was said of the former is under way then.
const NUMBER_RESTS: Duration = Duration::from_secs(60);

/// Numbers at most, those that rest included.
const NUMBERS_MAX: usize = 4 * BROKERS_MAX;

/// Why a broker is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong, and what to do.
    pub reason: String,
    /// It may be otherwise in a moment.
    pub passes: bool,
}

/// All brokers that are known, by number.
#[derive(Debug)]
pub(super) struct Brokers {
    all: Vec<Broker>,
    by_name: FxHashMap<String, BrokerNumber>,
    /// Numbers that stand for no broker any more, since when; in this order.
    free_numbers: VecDeque<(Instant, BrokerNumber)>,
    /// Processes of brokers so far, in this life.
    processes: u64,
    /// The life of a broker that was numbered last.
    lives: u64,
    /// Those whose names others have taken since.
    pub(super) departed: Departed,
    /// When they were looked at last.
    watched_at: Instant,
}

impl Index<BrokerNumber> for Brokers {
    type Output = Broker;

    fn index(&self, number: BrokerNumber) -> &Broker {
        &self.all[number as usize]
    }
}

impl IndexMut<BrokerNumber> for Brokers {
    fn index_mut(&mut self, number: BrokerNumber) -> &mut Broker {
        &mut self.all[number as usize]
    }
}

impl Brokers {
    /// None, at `now`.
    pub(super) fn new(now: Instant) -> Brokers {
        Brokers {
            all: Vec::new(),
            by_name: FxHashMap::default(),
            free_numbers: VecDeque::new(),
            processes: 0,
            lives: 0,
            departed: Departed::default(),
            watched_at: now,
        }
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Broker> {
        self.all.iter()
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Broker> {
        self.all.iter_mut()
    }

    /// All of them with their numbers, in order.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (BrokerNumber, &Broker)> + Clone {
        (0u32..).zip(&self.all)
    }

    /// How many numbers there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// All numbers.
    pub(super) fn numbers(&self) -> std::ops::Range<BrokerNumber> {
        0..self.all.len() as BrokerNumber
    }

    pub(super) fn get(&self, number: BrokerNumber) -> Option<&Broker> {
        self.all.get(number as usize)
    }

    /// The number of a name, where it is known.
    pub(super) fn named(&self, name: &str) -> Option<BrokerNumber> {
        self.by_name.get(name).copied()
    }

    /// The number of a broker that somebody asks for.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub(super) fn number_of(&self, name: &str) -> Result<BrokerNumber, ControlError> {
        self.named(name).ok_or_else(|| {
            ControlError::NotFound(format!(
                "there is no broker {name}; GET /v1/brokers lists them"
            ))
        })
    }

    /// They are looked at; gives the time since they were last.
    pub(super) fn watch(&mut self, now: Instant) -> Duration {
        let pause = now.saturating_since(self.watched_at);
        self.watched_at = now;
        pause
    }

    /// The broker that says hello, and whether nothing was known of its name.
    pub(super) fn claim_name(
        &mut self,
        hello: &Hello,
        from: IpAddr,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<(BrokerNumber, bool), Refusal> {
        let known = self.named(&hello.broker);
        if let Some(number) = known {
            self.may_have_name(number, hello, now, out)?;
        }
        if known.is_none_or(|number| self[number].liveness == Liveness::Dead) {
            self.has_room(from)?;
        }
        let (number, is_new) = match known {
            Some(number) => (number, false),
            None => (self.add_broker(hello, now)?, true),
        };
        self.change_hands(number, hello.identity, now, out);
        Ok((number, is_new))
    }

    /// A number for each life of a broker in life `epoch` of the controller, greater than all
    /// before, even if a life of the controller could keep none of the numbers that it gave.
    pub(super) fn next_life(&mut self, epoch: u64) -> u64 {
        self.lives = (self.lives + 1).max(epoch << LIFE_BITS);
        self.lives
    }

    /// Another number for every process of every broker.
    pub(super) fn next_process(&mut self) -> u64 {
        self.processes += 1;
        self.processes
    }

    /// Gives a broker that is not known a number.
    pub(super) fn insert(&mut self, mut broker: Broker) -> BrokerNumber {
        broker.process = self.next_process();
        let number = self.all.len() as BrokerNumber;
        self.by_name.insert(broker.name.clone(), number);
        self.all.push(broker);
        number
    }

    /// Whether an operator may say that a broker is dead.
    pub(super) fn check_remove(&self, name: &str) -> Result<BrokerNumber, ControlError> {
        let number = self.number_of(name)?;
        match self[number].link.is_some() {
            false => Ok(number),
            true => Err(ControlError::Conflict(format!(
                "broker {name} is connected and reports; stop it first, or drain it: POST /v1/brokers/{name}/drain"
            ))),
        }
    }

    /// Frees the names of brokers that have been dead for long, or are too many.
    pub(super) fn forget_long_dead(&mut self, out: &mut Outbox, now: Instant) {
        let dead = self
            .numbered()
            .filter(|(_, broker)| broker.liveness == Liveness::Dead && !broker.name.is_empty());
        let mut dead: Vec<(Instant, BrokerNumber)> = dead
            .map(|(number, broker)| (broker.dead_since, number))
            .collect();
        if dead.is_empty() {
            return;
        }
        dead.sort_unstable();
        let excess = dead.len().saturating_sub(DEAD_MAX);
        for (index, (since, number)) in dead.into_iter().enumerate() {
            if index < excess || now.saturating_since(since) >= DEAD_KEPT {
                self.forget(number, out, now);
            }
        }
    }

    /// Nothing is known of it any more; what it was still to be told of deletions neither.
    pub(super) fn forget(&mut self, number: BrokerNumber, out: &mut Outbox, now: Instant) {
        let nobody = Broker::remembered(String::new(), String::new(), now);
        let former = std::mem::replace(&mut self[number], nobody);
        self[number].liveness = Liveness::Dead;
        let mut inventory = former.inventory;
        for subject in inventory.take_owed() {
            out.keep_change(owed_change(&former.name, &subject, false));
        }
        self.by_name.remove(&former.name);
        out.keep(Table::Brokers, &former.name, None);
        self.free_numbers.push_back((now, number));
    }

    fn may_have_name(
        &mut self,
        number: BrokerNumber,
        hello: &Hello,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let broker = &self[number];
        let name = &hello.broker;
        // Stores of former releases know no identities.
        let Some(owner) = broker.identity else {
            return Ok(());
        };
        if broker.liveness == Liveness::Dead {
            return Ok(());
        }
        if owner == hello.identity {
            // A greater one was given by a life of the controller that could not keep it.
            let is_outlived = hello.life != 0 && hello.life < broker.life;
            return match is_outlived {
                false => Ok(()),
                true => Err(Refusal {
                    reason: format!(
                        "broker {name} has been started again since; stop one of the two processes with this data folder"
                    ),
                    passes: false,
                }),
            };
        }
        let is_there = broker.link.is_some() && broker.liveness == Liveness::Up;
        // It may be this very broker's former life that is gone, without having kept who it was.
        self.probe_again(number, out, now);
        Err(Refusal {
            reason: format!(
                "the name {name} belongs to another broker, which may be alive; give each broker a name of its own, or stop the other and DELETE /v1/brokers/{name}"
            ),
            passes: !is_there,
        })
    }

    fn has_room(&self, from: IpAddr) -> Result<(), Refusal> {
        let alive = self.iter();
        let alive = alive.filter(|broker| broker.liveness != Liveness::Dead);
        let (mut all, mut same) = (0, 0);
        for broker in alive {
            all += 1;
            same += usize::from(broker.from == Some(from));
        }
        let reason = if all >= BROKERS_MAX {
            format!(
                "the controller knows {BROKERS_MAX} brokers that are not dead and takes no more; DELETE /v1/brokers/NAME frees a place"
            )
        } else if same >= BROKERS_FROM_ONE_MAX && !from.is_loopback() {
            format!(
                "{same} brokers dialled from {from} and the controller takes no more from there"
            )
        } else {
            return Ok(());
        };
        Err(Refusal {
            reason,
            passes: false,
        })
    }

    /// Takes note of a broker that was never heard of.
    fn add_broker(&mut self, hello: &Hello, now: Instant) -> Result<BrokerNumber, Refusal> {
        let mut broker = Broker::remembered(hello.broker.clone(), hello.tcp_address.clone(), now);
        let rested = self.free_numbers.front();
        let rested = rested.is_some_and(|(since, _)| now.saturating_since(*since) >= NUMBER_RESTS);
        if rested && let Some((_, number)) = self.free_numbers.pop_front() {
            self.by_name.insert(broker.name.clone(), number);
            broker.process = self.next_process();
            self[number] = broker;
            return Ok(number);
        }
        if self.all.len() >= NUMBERS_MAX {
            return Err(Refusal {
                reason: String::from("too many names of brokers came and went within a minute"),
                passes: true,
            });
        }
        Ok(self.insert(broker))
    }
}

impl From<String> for Refusal {
    /// A permanent fault of a hello.
    fn from(reason: String) -> Refusal {
        Refusal {
            reason,
            passes: false,
        }
    }
}
