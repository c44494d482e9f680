//! Removes the records of publishers whose topic was removed, in parts.
//!
//! The topic's own record goes first. A restart in between finds publishers without a topic and
//! removes them ([`Core::restore`](super::Core::restore)); so none of them may be left when the
//! topic is declared anew.

use std::collections::VecDeque;

use super::Topic;
use super::outbox::Outbox;

/// How many records can be removed in the time that placing one publisher takes.
const RECORDS_PER_ROW: usize = 4;

/// A topic that was removed, with publishers whose records are still there.
#[derive(Debug)]
struct Removed {
    name: String,
    topic: Topic,
    /// Records of publishers at and above this index are removed.
    left: usize,
}

/// Those that wait.
#[derive(Debug, Default)]
pub(super) struct Forgetting {
    removed: VecDeque<Removed>,
}

impl Forgetting {
    pub(super) fn is_busy(&self) -> bool {
        !self.removed.is_empty()
    }

    /// Removes the records of a removed topic's publishers, `rows` of them at once.
    pub(super) fn forget(&mut self, name: &str, topic: Topic, rows: usize, out: &mut Outbox) {
        let left = topic.publishers.rows().len();
        self.removed.push_back(Removed {
            name: name.to_owned(),
            topic,
            left,
        });
        if self.removed.len() == 1 {
            self.go_on(rows, out);
        }
    }

    /// The next part.
    pub(super) fn go_on(&mut self, rows: usize, out: &mut Outbox) {
        let Some(mut removed) = self.removed.pop_front() else {
            return;
        };
        let next = removed
            .left
            .saturating_sub(RECORDS_PER_ROW.saturating_mul(rows));
        for row in &removed.topic.publishers.rows()[next..removed.left] {
            out.forget_publisher(&removed.name, &row.spec.id);
        }
        removed.left = next;
        match next {
            0 => out.discard(removed.topic),
            _ => self.removed.push_front(removed),
        }
    }

    /// Whether records of a removed topic of this name are still there.
    pub(super) fn holds(&self, name: &str) -> bool {
        self.removed.iter().any(|removed| removed.name == name)
    }

    /// A topic is declared: nothing of a former one of its name may be left.
    pub(super) fn forget_in_whole(&mut self, name: &str, rows: usize, out: &mut Outbox) {
        while self.holds(name) {
            self.go_on(rows, out);
        }
    }
}
