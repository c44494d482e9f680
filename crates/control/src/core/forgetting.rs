//! Records of publishers whose topic was removed: they are removed in parts.
//!
//! The topic's own record goes first. Whoever reads the store in between finds publishers of no topic, and removes them
//! ([`Core::restore`]); so none of them may be left when the topic is declared anew.

use std::collections::VecDeque;

use super::{Core, Topic};

/// Removing a record is so much less than placing a publisher.
const RECORDS_PER_ROW: usize = 4;

/// A topic that was removed, with publishers whose records are still there.
#[derive(Debug)]
pub(super) struct Removed {
    name: String,
    topic: Topic,
    /// Records of publishers at and above this index are removed.
    left: usize,
}

/// Those that wait.
pub(super) type Forgetting = VecDeque<Removed>;

impl Core {
    /// Removes the records of a removed topic's publishers.
    pub(super) fn forget_publishers(&mut self, name: &str, topic: Topic) {
        let left = topic.publishers.rows().len();
        self.forgetting.push_back(Removed {
            name: name.to_owned(),
            topic,
            left,
        });
        if self.forgetting.len() == 1 {
            self.go_on_forgetting();
        }
    }

    /// The next part.
    pub(super) fn go_on_forgetting(&mut self) {
        let Some(mut removed) = self.forgetting.pop_front() else {
            return;
        };
        let rows = &removed.topic.publishers.rows()[..removed.left];
        let next = removed
            .left
            .saturating_sub(RECORDS_PER_ROW.saturating_mul(self.sizes.rows));
        let ids: Vec<String> = rows[next..].iter().map(|row| row.spec.id.clone()).collect();
        for id in &ids {
            self.forget_publisher(&removed.name, id);
        }
        removed.left = next;
        match next {
            0 => self.discard(removed.topic),
            _ => self.forgetting.push_front(removed),
        }
    }

    /// A topic is declared: nothing of a former one of its name may be left.
    pub(super) fn forget_in_whole(&mut self, name: &str) {
        while self.forgetting.iter().any(|removed| removed.name == name) {
            self.go_on_forgetting();
        }
    }
}
