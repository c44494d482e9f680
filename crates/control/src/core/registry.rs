//! Who may have a broker's name, for how long, and how many names there are.
//!
//! A name belongs to the broker that came with it first, until that one is dead for certain. A dead broker keeps its name for a
//! day, or until there is no place for another; an operator frees it at once.

use std::net::IpAddr;
use std::time::Duration;

use clock::Instant;
use link::Hello;

use super::{BROKERS_MAX, Broker, BrokerNumber, Core, Liveness};
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

impl Core {
    /// The broker that says hello, and whether nothing was known of its name.
    pub(super) fn claim_name(
        &mut self,
        hello: &Hello,
        from: IpAddr,
        now: Instant,
    ) -> Result<(BrokerNumber, bool), Refusal> {
        let known = self.broker_by_name.get(&hello.broker).copied();
        if let Some(number) = known {
            self.may_have_name(number, hello, now)?;
        }
        if known.is_none_or(|number| self.broker(number).liveness == Liveness::Dead) {
            self.has_room(from)?;
        }
        match known {
            Some(number) => Ok((number, false)),
            None => Ok((self.add_broker(hello, now)?, true)),
        }
    }

    /// Another number for every life of every broker, greater than those before; also where a life of this controller could keep none
    /// of those that it gave.
    pub(super) fn next_life(&mut self) -> u64 {
        self.lives = (self.lives + 1).max(self.epoch << LIFE_BITS);
        self.lives
    }

    /// Takes the operator's word that a broker is dead, and frees its name.
    ///
    /// # Errors
    /// [`ControlError::NotFound`]; [`ControlError::Conflict`] while it reports.
    pub fn remove_broker(&mut self, name: &str, now: Instant) -> Result<(), ControlError> {
        let number = self.check_remove_broker(name)?;
        self.dead(number, "removed by an operator", now);
        self.forget_broker(number, now);
        Ok(())
    }

    /// Whether an operator may say that a broker is dead.
    pub(super) fn check_remove_broker(&self, name: &str) -> Result<BrokerNumber, ControlError> {
        let number = self.broker_number(name)?;
        match self.broker(number).link.is_some() {
            false => Ok(number),
            true => Err(ControlError::Conflict(format!(
                "broker {name} is connected and reports; stop it first, or drain it: POST /v1/brokers/{name}/drain"
            ))),
        }
    }

    /// Frees the names of those that are dead for long, or too many.
    pub(super) fn forget_long_dead(&mut self, now: Instant) {
        let dead = (0u32..)
            .zip(&self.brokers)
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
                self.forget_broker(number, now);
            }
        }
    }

    /// Nothing is known of it any more; what it was still to be told of deletions neither.
    fn forget_broker(&mut self, number: BrokerNumber, now: Instant) {
        let nobody = Broker::remembered(String::new(), String::new(), now);
        let former = std::mem::replace(&mut self.brokers[number as usize], nobody);
        self.brokers[number as usize].liveness = Liveness::Dead;
        let mut inventory = former.inventory;
        for subject in inventory.take_owed() {
            self.keep_not_owed(&former.name, &subject);
        }
        self.broker_by_name.remove(&former.name);
        self.keep(Table::Brokers, &former.name, None);
        self.free_numbers.push_back((now, number));
    }

    fn may_have_name(
        &mut self,
        number: BrokerNumber,
        hello: &Hello,
        now: Instant,
    ) -> Result<(), Refusal> {
        let broker = self.broker(number);
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
        self.probe_again(number, now);
        Err(Refusal {
            reason: format!(
                "the name {name} belongs to another broker that is not dead for certain; give each broker a name of its own, \
                 or stop the other and DELETE /v1/brokers/{name}"
            ),
            passes: !is_there,
        })
    }

    fn has_room(&self, from: IpAddr) -> Result<(), Refusal> {
        let alive = self.brokers.iter();
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
            self.broker_by_name.insert(broker.name.clone(), number);
            broker.process = self.next_process();
            self.brokers[number as usize] = broker;
            return Ok(number);
        }
        if self.brokers.len() >= NUMBERS_MAX {
            return Err(Refusal {
                reason: String::from("too many names of brokers came and went within a minute"),
                passes: true,
            });
        }
        Ok(self.insert_broker(broker))
    }
}

impl From<String> for Refusal {
    /// What is wrong with a hello, and stays so.
    fn from(reason: String) -> Refusal {
        Refusal {
            reason,
            passes: false,
        }
    }
}
