//! Which publisher goes to which broker, once every broker has a target.
//!
//! A correlation group sends together; what a broker gets of it is the burst that its sub-bucket must take.
//! So every group is divided in the proportion of the targets (SRTM-long, section 4.3), to within one
//! publisher, and at the same time every broker's sum meets its target to within one. Three passes:
//!
//! 1. [`spread`]: group by group, the largest first, each publisher to the broker that lags behind within
//!    the group or, while none lags by more than one publisher, within the whole. Publishers on their own come
//!    last and level out what is left.
//! 2. [`balance`] or [`nudge`]: exchanges in which no group leaves its bound bring the sums to their targets.
//! 3. [`settle`]: the capacities are absolute. What is too much is taken away and put where there is room,
//!    whatever its group; if even that leaves publishers over, all are packed tightly.

mod balance;
mod groups;
mod nudge;
mod settle;
mod spread;
mod tournament;

pub(crate) use groups::Groups;
pub(crate) use tournament::{Tournament, Work};

/// The question. Publishers and brokers are numbered from 0 in here.
pub(crate) struct Choice<'a> {
    /// Messages per second of each publisher, all above 0.
    pub(crate) rates: &'a [f64],
    /// Which publishers belong together.
    pub(crate) groups: &'a Groups,
    /// What each broker should get, in messages per second. Their sum is that of the rates, or less if
    /// there is no more room.
    pub(crate) targets: &'a [f64],
    /// What each broker can take at most, in messages per second.
    pub(crate) rooms: &'a [f64],
    /// All publishers have the same rate and the targets are whole multiples of it: the targets
    /// must be met exactly.
    pub(crate) is_exact: bool,
}

impl Choice<'_> {
    /// Whether the targets are for everybody.
    fn is_met(&self) -> bool {
        let asked: f64 = self.rates.iter().sum();
        self.targets.iter().sum::<f64>() >= asked * (1.0 - spread::TOLERANCE)
    }
}

/// A broker for each publisher, `None` for those that do not fit.
pub(crate) fn choose(choice: &Choice<'_>, work: &mut Work) -> Vec<Option<u32>> {
    let mut draft = Draft::new(choice);
    spread::spread(choice, &mut draft, work);
    match choice.is_exact {
        // With less targeted than asked for, somebody is left out and no sum means anything yet.
        _ if !choice.is_met() => {}
        true => balance::balance(choice, &mut draft, work),
        false => nudge::nudge(choice, &mut draft, work),
    }
    settle::settle(choice, &mut draft, work);
    draft.broker_of
}

/// The assignment as it grows.
struct Draft {
    broker_of: Vec<Option<u32>>,
    /// By broker: the rate it was given.
    sums: Vec<f64>,
}

impl Draft {
    fn new(choice: &Choice<'_>) -> Self {
        Draft {
            broker_of: vec![None; choice.rates.len()],
            sums: vec![0.0; choice.targets.len()],
        }
    }

    fn put(&mut self, choice: &Choice<'_>, publisher: u32, broker: usize) {
        self.take(choice, publisher);
        self.broker_of[publisher as usize] = Some(broker as u32);
        self.sums[broker] += choice.rates[publisher as usize];
    }

    fn take(&mut self, choice: &Choice<'_>, publisher: u32) {
        if let Some(broker) = self.broker_of[publisher as usize].take() {
            self.sums[broker as usize] -= choice.rates[publisher as usize];
        }
    }

    /// What each broker lacks of its proportional share of a group; negative: what it has beyond it.
    fn note_deficits(
        &self,
        choice: &Choice<'_>,
        group: u32,
        deficits: &mut [f64],
        work: &mut Work,
    ) {
        let members = choice.groups.members(group);
        let all: f64 = members
            .iter()
            .map(|&member| choice.rates[member as usize])
            .sum();
        let targeted: f64 = choice.targets.iter().sum();
        for (deficit, target) in deficits.iter_mut().zip(choice.targets) {
            *deficit = target / targeted * all;
        }
        for &member in members {
            if let Some(broker) = self.broker_of[member as usize] {
                deficits[broker as usize] -= choice.rates[member as usize];
            }
        }
        work.steps += (members.len() + deficits.len()) as u64;
    }

    /// The publishers of each broker.
    fn members(&self) -> Vec<Vec<u32>> {
        let mut members = vec![Vec::new(); self.sums.len()];
        for (publisher, broker) in self.broker_of.iter().enumerate() {
            if let Some(broker) = broker {
                members[*broker as usize].push(publisher as u32);
            }
        }
        members
    }
}

#[cfg(test)]
mod tests;
