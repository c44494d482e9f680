//! Alarms: instants in order, each with its target. Pure; the poller sleeps until the next one.

use std::collections::BTreeMap;

use clock::Instant;

/// Names an alarm that was set, for calling it off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AlarmId {
    due: Instant,
    number: u64,
}

/// Alarms in the order in which they are due, among equals in the order in which they were set.
#[derive(Debug)]
pub(super) struct Alarms<T> {
    set: BTreeMap<AlarmId, T>,
    number: u64,
}

impl<T> Alarms<T> {
    pub(super) fn new() -> Self {
        Alarms {
            set: BTreeMap::new(),
            number: 0,
        }
    }

    /// Sets an alarm. It goes off once.
    pub(super) fn set(&mut self, due: Instant, what: T) -> AlarmId {
        self.number += 1;
        let id = AlarmId {
            due,
            number: self.number,
        };
        self.set.insert(id, what);
        id
    }

    /// Calls an alarm off; one that went off already is none.
    pub(super) fn call_off(&mut self, id: AlarmId) {
        self.set.remove(&id);
    }

    /// When the next one is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.set.first_key_value().map(|(id, _)| id.due)
    }

    /// Takes one that is due at `now`, the oldest first.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<T> {
        if self.next_due()? > now {
            return None;
        }
        self.set.pop_first().map(|(_, what)| what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_go_off_once_in_their_order() {
        let at = Instant::from_nanos;
        let mut alarms = Alarms::new();
        assert_eq!((alarms.next_due(), alarms.take_due(at(9))), (None, None));
        alarms.set(at(30), "late");
        let off = alarms.set(at(10), "off");
        alarms.set(at(20), "first of two");
        alarms.set(at(20), "second of two");
        alarms.call_off(off);
        assert_eq!(alarms.next_due(), Some(at(20)));
        assert_eq!(alarms.take_due(at(19)), None);
        assert_eq!(alarms.take_due(at(25)), Some("first of two"));
        alarms.call_off(off);
        assert_eq!(alarms.take_due(at(25)), Some("second of two"));
        assert_eq!(alarms.take_due(at(25)), None);
        assert_eq!(alarms.take_due(Instant::MAX), Some("late"));
        assert_eq!(alarms.next_due(), None);
    }
}
