//! Deletions that brokers have not confirmed, and are told again when they come back.
//!
//! They are owed to a broker, not to its name. Whoever has a name has its own in its [`Inventory`](super::Inventory). [`Departed`] are brokers
//! whose name another one has taken since: whatever is deleted meanwhile they may have, so they are owed all of it, and told it if they
//! come back, under whatever name.

use std::collections::{BTreeMap, BTreeSet};

use clock::Instant;
use link::Identity;
use serde_json::Value;

use super::catalog::channel_name;
use super::inventory::{OWED_MAX, Subject, topic_name};
use super::outbox::Outbox;
use super::registry::{Brokers, DEAD_KEPT};
use super::{Broker, BrokerNumber};
use crate::store::{Change, Table};

/// Brokers without a name that are remembered at most. One without a data folder is another broker at every start, and never comes back.
const DEPARTED_MAX: usize = 64;

/// Their keys begin so, and no broker's name does.
const MARK: char = '/';

/// Who has lost its name, and what it is owed.
#[derive(Debug, Default)]
pub(super) struct Departed(BTreeMap<Identity, Debts>);

#[derive(Debug)]
struct Debts {
    since: Instant,
    owed: BTreeSet<Subject>,
}

/// A deletion that a broker of this name is owed, or not any more, as it is kept.
pub(super) fn owed_change(name: &str, subject: &Subject, is_owed: bool) -> Change {
    Change {
        table: Table::Owed,
        key: format!("{name}/{}", text_of(subject)),
        value: is_owed.then_some(Value::Bool(true)),
    }
}

fn departed_change(identity: Identity, subject: Option<&Subject>, is_owed: bool) -> Change {
    let owner = format!("{MARK}{identity}");
    match subject {
        Some(subject) => owed_change(&owner, subject, is_owed),
        None => Change {
            table: Table::Owed,
            key: owner,
            value: is_owed.then_some(Value::Bool(true)),
        },
    }
}

fn text_of((topic, channel): &Subject) -> String {
    match channel {
        Some(channel) => format!("{topic}/{channel}"),
        None => topic.to_string(),
    }
}

/// Whose a record is, and of what: nothing, where it says only that its broker has departed.
fn parts_of(key: &str) -> Result<(&str, Option<Subject>), String> {
    let begin = usize::from(key.starts_with(MARK));
    let end = key[begin..].find('/').map(|at| begin + at);
    let Some(end) = end else {
        return Ok((key, None));
    };
    let mut names = key[end + 1..].splitn(2, '/');
    let topic = topic_name(names.next().unwrap_or_default())?;
    let channel = names.next().map(channel_name).transpose()?;
    Ok((&key[..end], Some((topic, channel))))
}

/// The broker that has departed under this mark.
fn departed_of(owner: &str) -> Option<Identity> {
    Identity::from_hex(owner.strip_prefix(MARK)?)
}

impl Brokers {
    /// The broker of this identity has a name from now on. Who had it before is owed what it was, and all that is deleted from now on; who
    /// comes back is owed what it was while it had none.
    pub(super) fn change_hands(
        &mut self,
        number: BrokerNumber,
        identity: Identity,
        now: Instant,
        out: &mut Outbox,
    ) {
        let broker = &mut self[number];
        let name = broker.name.clone();
        let former = broker.identity.filter(|former| *former != identity);
        if let Some(former) = former {
            let owed = broker.inventory.take_owed();
            for subject in &owed {
                out.keep_change(owed_change(&name, subject, false));
            }
            self.departed.leave(former, owed, now, out);
        }
        for subject in self.departed.forget(identity, out) {
            let change = owed_change(&name, &subject, true);
            if self[number].inventory.owe(subject) {
                out.keep_change(change);
            }
        }
    }

    /// Reads a record back.
    ///
    /// # Errors
    /// A text: it cannot be understood.
    pub(super) fn restore_owed(&mut self, key: &str, now: Instant) -> Result<(), String> {
        let (owner, subject) = parts_of(key)?;
        if let Some(identity) = departed_of(owner) {
            let debts = self.departed.0.entry(identity);
            let debts = debts.or_insert_with(|| Debts {
                since: now,
                owed: BTreeSet::new(),
            });
            debts.owed.extend(subject);
        } else if let Some((number, subject)) = self.named(owner).zip(subject) {
            self[number].inventory.owe(subject);
        }
        Ok(())
    }

    /// Whether a record is to be kept.
    pub(super) fn is_owed(&self, key: &str) -> bool {
        let Ok((owner, subject)) = parts_of(key) else {
            return false;
        };
        let owed = match departed_of(owner) {
            Some(identity) => self.departed.0.get(&identity).map(|debts| &debts.owed),
            None => self
                .named(owner)
                .map(|number| self[number].inventory.owed()),
        };
        owed.is_some_and(|owed| subject.is_none_or(|subject| owed.contains(&subject)))
    }

    /// What is to be kept of a deletion before it is said: who has not confirmed it.
    pub(super) fn asks_owe(&self, subject: &Subject) -> Vec<Change> {
        let may_owe = |broker: &&Broker| broker.has_name() && broker.inventory.may_owe(subject);
        let here = self.iter().filter(may_owe);
        let here = here.map(|broker| owed_change(&broker.name, subject, true));
        let departed = self.departed.owing(subject);
        let departed = departed.map(|identity| departed_change(identity, Some(subject), true));
        here.chain(departed).collect()
    }
}

impl Departed {
    /// Something is deleted that each of them may have.
    pub(super) fn owe(&mut self, subject: &Subject, out: &mut Outbox) {
        let owing: Vec<Identity> = self.owing(subject).collect();
        for identity in owing {
            if let Some(debts) = self.0.get_mut(&identity)
                && debts.owed.insert(subject.clone())
            {
                out.keep_change(departed_change(identity, Some(subject), true));
            }
        }
    }

    /// Those that have been away for long come back to nothing.
    pub(super) fn forget_old(&mut self, out: &mut Outbox, now: Instant) {
        let is_old = |debts: &Debts| now.saturating_since(debts.since) >= DEAD_KEPT;
        let old = self.0.iter().filter(|(_, debts)| is_old(debts));
        let old: Vec<Identity> = old.map(|(identity, _)| *identity).collect();
        for identity in old {
            self.forget(identity, out);
        }
    }

    /// Those that there is room to owe something to.
    fn owing(&self, subject: &Subject) -> impl Iterator<Item = Identity> {
        let has_room = |debts: &Debts| debts.owed.len() < OWED_MAX || debts.owed.contains(subject);
        let owing = self.0.iter().filter(move |(_, debts)| has_room(debts));
        owing.map(|(identity, _)| *identity)
    }

    /// A broker has lost its name; where there are too many, the one that did so first gives way.
    fn leave(
        &mut self,
        identity: Identity,
        owed: BTreeSet<Subject>,
        now: Instant,
        out: &mut Outbox,
    ) {
        if self.0.len() >= DEPARTED_MAX
            && let Some((&first, _)) = self.0.iter().min_by_key(|(_, debts)| debts.since)
        {
            self.forget(first, out);
        }
        out.keep_change(departed_change(identity, None, true));
        for subject in &owed {
            out.keep_change(departed_change(identity, Some(subject), true));
        }
        self.0.insert(identity, Debts { since: now, owed });
    }

    /// A broker has a name again, or is not waited for any more; gives what it was owed.
    fn forget(&mut self, identity: Identity, out: &mut Outbox) -> BTreeSet<Subject> {
        let Some(debts) = self.0.remove(&identity) else {
            return BTreeSet::new();
        };
        out.keep_change(departed_change(identity, None, false));
        for subject in &debts.owed {
            out.keep_change(departed_change(identity, Some(subject), false));
        }
        debts.owed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(topic: &str, channel: Option<&str>) -> Subject {
        let channel = channel.map(|channel| channel.parse().expect("valid"));
        (topic.parse().expect("valid"), channel)
    }

    #[test]
    fn deletions_are_owed_to_a_broker_and_not_to_its_name() {
        let now = Instant::from_nanos(1);
        let (own, other) = (Identity([1; 16]), Identity([2; 16]));
        let (mut brokers, mut out) = (Brokers::new(now), Outbox::default());
        let mut broker = Broker::remembered(String::from("b"), String::from("h:1"), now);
        broker.identity = Some(own);
        let number = brokers.insert(broker);
        let (before, meanwhile) = (subject("t", Some("c")), subject("t", None));
        brokers[number].inventory.owe(before.clone());

        brokers.change_hands(number, other, now, &mut out);
        brokers[number].identity = Some(other);
        assert!(brokers[number].inventory.owed().is_empty());
        assert_eq!(brokers.asks_owe(&meanwhile).len(), 2);
        brokers.departed.owe(&meanwhile, &mut out);

        // A restart between.
        let mut restored = Brokers::new(now);
        for key in [
            format!("/{own}"),
            format!("/{own}/t/c"),
            format!("/{own}/t"),
        ] {
            assert!(brokers.is_owed(&key), "{key}");
            restored.restore_owed(&key, now).expect("understood");
        }
        let mut stray = Broker::remembered(String::from("b"), String::from("h:1"), now);
        stray.identity = Some(other);
        let number = restored.insert(stray);
        restored.change_hands(number, own, now, &mut out);
        let owed = restored[number].inventory.owed();
        assert!(owed.contains(&before) && owed.contains(&meanwhile));
        assert!(restored.is_owed("b/t/c") && !restored.is_owed(&format!("/{own}")));
        assert!(restored.restore_owed("b/!", now).is_err());
    }

    #[test]
    fn so_many_that_departed_are_remembered_and_so_long() {
        let now = Instant::from_nanos(1);
        let (mut departed, mut out) = (Departed::default(), Outbox::default());
        for number in 0..100_u8 {
            let at = now + std::time::Duration::from_secs(number.into());
            departed.leave(Identity([number; 16]), BTreeSet::new(), at, &mut out);
        }
        assert_eq!(departed.0.len(), DEPARTED_MAX);
        assert!(!departed.0.contains_key(&Identity([0; 16])));
        departed.forget_old(
            &mut out,
            now + DEAD_KEPT + std::time::Duration::from_secs(200),
        );
        assert!(departed.0.is_empty());
    }
}
