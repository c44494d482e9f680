//! The memory budget of a broker, divided into parts.
//!
//! Reactors count for themselves in [`Account`]s and publish the sum once a turn, so nothing is
//! shared per message. Between two publications the others do not see what one takes, a step of
//! [`STEP_BYTES`] at most: each reactor may exceed a part by that much.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What an account takes or gives back before it tells the others within a turn.
const STEP_BYTES: u64 = 256 * 1024;

/// A holder may have this multiple of what is free. So however few fill a part, there is room for
/// one who has little: of n that take all they can, each has 8/(8n + 1) of the part.
const TIMES_FREE: u64 = 8;

/// What memory is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Messages that are stored.
    Bodies,
    /// Large commands that are not complete or wait, publishes on their way to another reactor, bodies of HTTP requests.
    Input,
    /// Small commands that are not complete or wait, and the beginnings of large ones.
    Pieces,
    /// Bytes on their way to peers.
    Output,
    /// Topics, channels and consumers themselves.
    Topics,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 5] = [
        Part::Bodies,
        Part::Input,
        Part::Pieces,
        Part::Output,
        Part::Topics,
    ];

    /// Its name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Part::Bodies => "bodies",
            Part::Input => "input",
            Part::Pieces => "pieces",
            Part::Output => "output",
            Part::Topics => "topics",
        }
    }

    /// How many sixteenths of the budget it has.
    fn sixteenths(self) -> u64 {
        match self {
            Part::Bodies => 8,
            Part::Input | Part::Output => 3,
            Part::Pieces | Part::Topics => 1,
        }
    }
}

/// The budget of a broker, shared by all who hold memory.
#[derive(Clone, Debug)]
pub struct MemoryBudget(Arc<Books>);

#[derive(Debug)]
struct Books {
    bytes: u64,
    used: [AtomicU64; Part::ALL.len()],
    waits: [AtomicU64; Part::ALL.len()],
    freed: AtomicU64,
}

impl MemoryBudget {
    /// A budget of `bytes` bytes, all free.
    #[must_use]
    pub fn new(bytes: u64) -> MemoryBudget {
        MemoryBudget(Arc::new(Books {
            bytes,
            used: Default::default(),
            waits: Default::default(),
            freed: AtomicU64::new(0),
        }))
    }

    /// The whole budget.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// The most that a part may hold, in bytes.
    #[must_use]
    pub fn limit(&self, part: Part) -> u64 {
        self.0.bytes / 16 * part.sixteenths()
    }

    /// What a part holds, in bytes.
    #[must_use]
    pub fn used(&self, part: Part) -> u64 {
        self.0.used[part as usize].load(Ordering::Relaxed)
    }

    /// What all parts hold, in bytes.
    #[must_use]
    pub fn used_all(&self) -> u64 {
        Part::ALL.iter().map(|&part| self.used(part)).sum()
    }

    /// Times that somebody had to wait for room in it, or was refused.
    #[must_use]
    pub fn waits(&self, part: Part) -> u64 {
        self.0.waits[part as usize].load(Ordering::Relaxed)
    }

    /// Notes that somebody has to wait.
    pub fn note_wait(&self, part: Part) {
        self.0.waits[part as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Takes `bytes` of a part until the charge is dropped; `None`, and counted, where they are not free.
    #[must_use]
    pub fn charge(&self, part: Part, bytes: u64) -> Option<Charge> {
        let used = &self.0.used[part as usize];
        if used.fetch_add(bytes, Ordering::AcqRel) + bytes > self.limit(part) {
            used.fetch_sub(bytes, Ordering::AcqRel);
            self.note_wait(part);
            return None;
        }
        let budget = self.clone();
        Some(Charge {
            budget,
            part,
            bytes,
        })
    }

    /// Whether at least `bytes` have been freed since [`MemoryBudget::has_freed`] last said so.
    #[must_use]
    pub fn is_freed(&self, bytes: u64) -> bool {
        self.0.freed.load(Ordering::Relaxed) >= bytes
    }

    /// Says once that at least `bytes` have been freed since it last did.
    #[must_use]
    pub fn has_freed(&self, bytes: u64) -> bool {
        let is_more = |freed| (freed >= bytes).then_some(0);
        let freed = &self.0.freed;
        freed
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_more)
            .is_ok()
    }
}

/// Bytes taken; given back when it is dropped.
#[derive(Debug)]
pub struct Charge {
    budget: MemoryBudget,
    part: Part,
    bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.0.used[self.part as usize].fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// One reactor's account of a part.
#[derive(Debug)]
pub struct Account {
    budget: MemoryBudget,
    part: Part,
    own: u64,
    told: u64,
    others: u64,
}

impl Account {
    /// Holds nothing yet.
    #[must_use]
    pub fn new(budget: &MemoryBudget, part: Part) -> Account {
        Account {
            budget: budget.clone(),
            part,
            own: 0,
            told: 0,
            others: budget.used(part),
        }
    }

    /// Sets what is held.
    #[inline]
    pub fn set(&mut self, bytes: u64) {
        self.own = bytes;
        if self.own.abs_diff(self.told) >= STEP_BYTES {
            self.tell();
        }
    }

    /// Replaces `former` bytes of what is held by `bytes`.
    #[inline]
    pub fn change(&mut self, former: usize, bytes: usize) {
        self.set(self.own - former as u64 + bytes as u64);
    }

    /// Takes `bytes` more if they are free, whatever the others take meanwhile: for what is large.
    #[must_use]
    pub fn take(&mut self, bytes: u64) -> bool {
        self.tell();
        let used = &self.budget.0.used[self.part as usize];
        let before = used.fetch_add(bytes, Ordering::AcqRel);
        if before.saturating_add(bytes) > self.budget.limit(self.part) {
            used.fetch_sub(bytes, Ordering::AcqRel);
            return false;
        }
        self.others = before.wrapping_sub(self.told);
        (self.own, self.told) = (self.own + bytes, self.told + bytes);
        true
    }

    /// Tells the others what is held, and hears what they hold; once a turn.
    pub fn tell(&mut self) {
        let used = &self.budget.0.used[self.part as usize];
        if self.own == self.told {
            self.others = used.load(Ordering::Relaxed).saturating_sub(self.own);
            return;
        }
        if self.own < self.told {
            let freed = self.told - self.own;
            self.budget.0.freed.fetch_add(freed, Ordering::Relaxed);
        }
        // Of unsigned numbers: what is less is added as well.
        let change = self.own.wrapping_sub(self.told);
        let before = used.fetch_add(change, Ordering::AcqRel);
        self.others = before.wrapping_sub(self.told);
        self.told = self.own;
    }

    /// Bytes of the part that nobody holds.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.free_with(0)
    }

    /// Whether a holder that has `held` bytes may have `bytes` more, where `spare` of what is held here can be used again:
    /// as long as the part is exceeded by little, it is.
    #[inline]
    #[must_use]
    pub fn has_room(&self, held: u64, bytes: u64, spare: u64) -> bool {
        let free = self.free_with(spare);
        let all = held.saturating_add(bytes);
        bytes <= free && (held == 0 || all <= free.saturating_mul(TIMES_FREE))
    }

    /// Whether less than a quarter of the part is free.
    #[must_use]
    pub fn is_nearly_full(&self) -> bool {
        self.free() < self.budget.limit(self.part) / 4
    }

    #[inline]
    fn free_with(&self, spare: u64) -> u64 {
        let limit = self.budget.limit(self.part);
        let used = self.own.saturating_add(self.others);
        (limit + spare.min(limit / 16)).saturating_sub(used)
    }

    /// Notes that somebody has to wait for room.
    pub fn note_wait(&self) {
        self.budget.note_wait(self.part);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BUDGET: u64 = 16 * 1024 * 1024;

    #[test]
    fn the_parts_are_the_whole() {
        let budget = MemoryBudget::new(BUDGET);
        let parts: u64 = Part::ALL.iter().map(|&part| budget.limit(part)).sum();
        assert_eq!(parts, budget.bytes());
    }

    #[test]
    fn whoever_has_little_finds_room_however_few_fill_a_part() {
        for hogs in [1u64, 2, 10, 1000] {
            let budget = MemoryBudget::new(BUDGET);
            let mut account = Account::new(&budget, Part::Bodies);
            let mut held = vec![0; hogs as usize];
            let mut is_full = false;
            while !is_full {
                is_full = true;
                for held in &mut held {
                    if account.has_room(*held, 100, 0) {
                        *held += 100;
                        account.change(0, 100);
                        is_full = false;
                    }
                }
            }
            let limit = budget.limit(Part::Bodies);
            let least = limit / (8 * hogs + 2);
            assert!(
                account.free() + 100 >= least,
                "{hogs}: {} free",
                account.free()
            );
            assert!(account.has_room(0, least / 2, 0), "{hogs}");
        }
    }

    #[test]
    fn a_charge_is_refused_at_the_bound_and_given_back() {
        let budget = MemoryBudget::new(BUDGET);
        let limit = budget.limit(Part::Input);
        let charge = budget.charge(Part::Input, limit).expect("all is free");
        assert!(budget.charge(Part::Input, 1).is_none());
        assert_eq!(budget.waits(Part::Input), 1);
        drop(charge);
        assert_eq!(budget.used(Part::Input), 0);
    }

    #[test]
    fn what_was_freed_is_told_once() {
        let budget = MemoryBudget::new(BUDGET);
        let mut account = Account::new(&budget, Part::Bodies);
        account.set(1_000_000);
        account.set(0);
        assert!(!budget.has_freed(1_000_001));
        assert!(budget.has_freed(1_000_000));
        assert!(!budget.has_freed(1));
    }

    #[test]
    fn what_is_large_is_taken_by_one_of_two() {
        let budget = MemoryBudget::new(BUDGET);
        let limit = budget.limit(Part::Input);
        let mut accounts = [0, 1].map(|_| Account::new(&budget, Part::Input));
        assert!(accounts[0].take(limit / 2 + 1));
        assert!(!accounts[1].take(limit / 2));
        assert!(accounts[1].take(limit / 2 - 1));
        accounts[0].set(0);
        assert!(accounts[1].take(limit / 2 + 1));
        assert_eq!(budget.used(Part::Input), limit);
    }

    proptest! {
        /// What all are told is what all hold, once each has told.
        #[test]
        fn the_books_agree(steps in prop::collection::vec((0usize..3, 0u64..2_000_000), 1..60)) {
            let budget = MemoryBudget::new(BUDGET);
            let mut accounts: Vec<_> = (0..3).map(|_| Account::new(&budget, Part::Output)).collect();
            let mut held = [0; 3];
            for (number, bytes) in steps {
                accounts[number].set(bytes);
                held[number] = bytes;
                let sum: u64 = held.iter().sum();
                prop_assert!(budget.used(Part::Output).abs_diff(sum) < 3 * STEP_BYTES);
            }
            accounts.iter_mut().for_each(Account::tell);
            accounts.iter_mut().for_each(Account::tell);
            let sum: u64 = held.iter().sum();
            prop_assert_eq!(budget.used(Part::Output), sum);
            let limit = budget.limit(Part::Output);
            prop_assert_eq!(accounts[0].free(), limit.saturating_sub(sum));
        }
    }
}
