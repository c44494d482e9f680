//! What a broker has said to be in force is in force there, and in its folder after a restart: that contract, or one that it was told later.
//!
//! Two logs for each place and topic: of what may be in force, and of what may be in the folder. In both, what the broker has confirmed takes the
//! place of all that it was told before; in the second one not where it has said that it could not keep it.

use std::collections::BTreeMap;

use broker::stats::CatalogTopic;
use link::{Contract, ToController};

/// Contracts that may wait behind the last one that was confirmed.
const TOLD_MAX: usize = 1000;

/// The books: by place and topic.
#[derive(Debug, Default)]
pub struct Contracts(BTreeMap<(usize, String), Books>);

#[derive(Debug, Default)]
struct Books {
    in_force: Log,
    kept: Log,
    /// It has said that what it confirms next is not kept.
    is_unkept: bool,
}

/// The last contract that was confirmed, and those that it was told since, with their tickets: any of them may be there.
#[derive(Debug, Default)]
struct Log {
    confirmed: Contract,
    told: Vec<(u64, Contract)>,
}

impl Log {
    fn told(&mut self, ticket: u64, contract: Contract) {
        self.told.push((ticket, contract));
        assert!(self.told.len() < TOLD_MAX, "none is ever confirmed");
    }

    /// False: it was told no such contract.
    fn confirmed(&mut self, ticket: u64) -> bool {
        // One that it was told twice it confirms twice.
        let own = self.told.iter().position(|(of, _)| *of == ticket);
        if let Some(own) = own {
            self.confirmed = self.told[own].1;
            self.told.drain(..=own);
        }
        own.is_some()
    }

    fn allows(&self, contract: &Contract) -> bool {
        let told = self.told.iter().map(|(_, contract)| contract);
        let mut all = told.chain([&self.confirmed]);
        all.any(|one| is_same(one, contract))
    }
}

impl Contracts {
    /// A broker is told a contract.
    pub fn told(&mut self, place: usize, topic: &str, ticket: u64, contract: Contract) {
        let books = self.0.entry((place, topic.to_owned())).or_default();
        books.in_force.told(ticket, contract);
        books.kept.told(ticket, contract);
    }

    /// A broker says something; `here` is what it has in force.
    ///
    /// # Errors
    /// It confirms what is not so.
    pub fn said(
        &mut self,
        place: usize,
        word: &ToController,
        here: &[CatalogTopic],
    ) -> Result<(), String> {
        match word {
            ToController::Problem { text } => {
                let of_place = self.0.iter_mut().filter(|((of, _), _)| *of == place);
                for ((_, topic), books) in of_place {
                    let unkept = format!("contract of {topic}: it is in force, but not kept");
                    books.is_unkept |= text.starts_with(&unkept);
                }
                Ok(())
            }
            ToController::ContractInForce { topic, ticket } => {
                let books = self.0.entry((place, topic.clone())).or_default();
                if !books.in_force.confirmed(*ticket) {
                    return Err(format!(
                        "broker {place} confirms a contract of {topic} that it was not told: {ticket}"
                    ));
                }
                if !std::mem::take(&mut books.is_unkept) {
                    books.kept.confirmed(*ticket);
                }
                self.look(place, here)
            }
            _ => Ok(()),
        }
    }

    /// A process has these contracts in force.
    ///
    /// # Errors
    /// One is older than one that it has confirmed.
    pub fn look(&self, place: usize, here: &[CatalogTopic]) -> Result<(), String> {
        self.check(place, here, |books| &books.in_force)
            .map_err(|what| {
                format!("broker {place} does not have in force what it confirmed: {what}")
            })
    }

    /// A process begins in a place with what its folder holds.
    ///
    /// # Errors
    /// One is lost.
    pub fn restarted(&mut self, place: usize, here: &[CatalogTopic]) -> Result<(), String> {
        self.check(place, here, |books| &books.kept)
            .map_err(|what| format!("broker {place} has lost a contract: {what}"))?;
        for ((_, topic), books) in self.0.iter_mut().filter(|((of, _), _)| *of == place) {
            books.is_unkept = false;
            books.in_force = Log {
                confirmed: contract_of(here, topic),
                told: Vec::new(),
            };
        }
        Ok(())
    }

    /// A process begins in a place that keeps nothing.
    pub fn forgotten(&mut self, place: usize) {
        self.0.retain(|(of, _), _| *of != place);
    }

    fn check(
        &self,
        place: usize,
        here: &[CatalogTopic],
        log: impl Fn(&Books) -> &Log,
    ) -> Result<(), String> {
        for ((_, topic), books) in self.0.iter().filter(|((of, _), _)| *of == place) {
            let (log, contract) = (log(books), contract_of(here, topic));
            if !log.allows(&contract) {
                return Err(format!(
                    "{contract:?} of {topic} is there, and {log:?} may be"
                ));
            }
        }
        Ok(())
    }
}

fn contract_of(here: &[CatalogTopic], topic: &str) -> Contract {
    let held = here.iter().find(|held| held.name == topic);
    held.map(|held| held.contract).unwrap_or_default()
}

/// Numbers go through text.
fn is_same(one: &Contract, other: &Contract) -> bool {
    let numbers = |contract: &Contract| {
        let limit = contract.limit?;
        Some((limit.rate.get(), limit.burst.get()))
    };
    let is_near = match (numbers(one), numbers(other)) {
        (Some((rate, burst)), Some((rate_of, burst_of))) => {
            (rate - rate_of).abs() <= 1e-9 * rate && (burst - burst_of).abs() <= 1e-9 * burst
        }
        (one, other) => one == other,
    };
    let words = |contract: &Contract| (contract.on_full, contract.durability);
    is_near && words(one) == words(other)
}
