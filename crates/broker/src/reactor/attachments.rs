//! Which publishers are attached to topics of this reactor, and what the controller has yet to be
//! told of them.
//!
//! A publisher's name, topic and id, belongs to one connection: the newest that declared it. What
//! the controller does not know yet is kept as the difference to what it was told, not as a log, so
//! it never overflows: at most every attached publisher has yet to be reported as come, and every
//! reported one as gone. What was reported counts for one link; when another begins, everybody is
//! news and is reported piece by piece.

use std::collections::VecDeque;
use std::sync::Arc;

use link::{Attachment, Declaration};
use rustc_hash::FxHashMap;
use topics::{Arena, Key};
use wire::TopicName;

/// With each publisher that comes, this many of those to be reported are looked at where outdated
/// ones may prevail.
const LOOKS_PER_COMER: usize = 4;

/// The connection that holds a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Reactor that owns the connection.
    pub reactor: usize,
    /// The connection, in that reactor's numbering.
    pub connection: u64,
}

/// Attached publishers by topic and id. Bounded by the connections there may be.
#[derive(Debug, Default)]
pub struct Attachments {
    by_topic: FxHashMap<TopicName, FxHashMap<String, Key<Entry>>>,
    entries: Arena<Entry>,
    serial: u64,
    /// The link that a controller is told on; 0: none has asked yet.
    link: u64,
    /// Of those that were here when it began, the ones in slots before this one have been told of.
    seen: usize,
    /// Those that came since, by their announcements.
    come: VecDeque<(Key<Entry>, u64)>,
    /// Those that were told of on a link, and are gone.
    gone: VecDeque<(u64, Arc<Declaration>)>,
}

#[derive(Debug)]
struct Entry {
    owner: Owner,
    declaration: Arc<Declaration>,
    /// Of the latest declaration; an older one in `come` is passed over.
    serial: u64,
    /// On which link the controller was told that a publisher of this name is attached, and of which declaration.
    told: (u64, u64),
}

impl Attachments {
    /// Gives a name to `owner`. The connection that held it before, if another did, is the answer: its
    /// publishers count as anybody's from now on.
    pub fn attach(
        &mut self,
        topic: &TopicName,
        declaration: Arc<Declaration>,
        owner: Owner,
    ) -> Option<Owner> {
        self.serial += 1;
        let publishers = match self.by_topic.get_mut(topic.as_str()) {
            Some(publishers) => publishers,
            None => self.by_topic.entry(topic.clone()).or_default(),
        };
        let known = publishers.get(&declaration.id).copied();
        let (key, former) = match known.and_then(|key| Some((key, self.entries.get_mut(key)?))) {
            Some((key, entry)) => {
                entry.declaration = declaration;
                entry.serial = self.serial;
                (key, Some(std::mem::replace(&mut entry.owner, owner)))
            }
            None => {
                let id = declaration.id.clone();
                let key = self.entries.insert(Entry {
                    owner,
                    declaration,
                    serial: self.serial,
                    told: (0, 0),
                });
                publishers.insert(id, key);
                (key, None)
            }
        };
        if self.link > 0 {
            self.come.push_back((key, self.serial));
            self.forget_outdated();
        }
        former.filter(|former| *former != owner)
    }

    /// Takes a name away from `owner`; nothing happens where another connection holds it by now.
    pub fn detach(&mut self, topic: &TopicName, id: &str, owner: Owner) {
        let Some(publishers) = self.by_topic.get_mut(topic.as_str()) else {
            return;
        };
        let Some(&key) = publishers.get(id) else {
            return;
        };
        let holder = self.entries.get(key).map(|entry| entry.owner);
        if holder != Some(owner) {
            return;
        }
        publishers.remove(id);
        if publishers.is_empty() {
            self.by_topic.remove(topic.as_str());
        }
        let entry = self.entries.remove(key);
        if let Some(entry) = entry.filter(|entry| entry.told.0 == self.link && self.link > 0) {
            self.gone.push_back((self.link, entry.declaration));
        }
    }

    /// The connection that holds a name.
    #[must_use]
    pub fn find(&self, topic: &TopicName, id: &str) -> Option<Owner> {
        let &key = self.by_topic.get(topic.as_str())?.get(id)?;
        Some(self.entries.get(key)?.owner)
    }

    /// Publishers attached.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// A controller that knows nothing asks: everybody who is attached is news.
    pub fn begin_link(&mut self) {
        self.link += 1;
        self.seen = 0;
        self.come.clear();
    }

    /// Looks at one publisher at most for something that the controller does not know: `Some(None)`
    /// if there is nothing to report of it, `None` where no more are left. Departures precede
    /// arrivals.
    pub fn next_news(&mut self) -> Option<Option<Attachment>> {
        if let Some((link, declaration)) = self.gone.pop_front() {
            let is_news = link == self.link;
            return Some(is_news.then(|| attachment(&declaration, false)));
        }
        if let Some((key, serial)) = self.come.pop_front() {
            return Some(self.tell(key, Some(serial)));
        }
        if self.link == 0 || self.seen >= self.entries.slots() {
            return None;
        }
        self.seen += 1;
        let key = self.entries.key_at(self.seen - 1);
        Some(key.and_then(|key| self.tell(key, None)))
    }

    /// Reports an attached publisher, unless it is reported already or its declaration is no longer
    /// `serial`.
    fn tell(&mut self, key: Key<Entry>, serial: Option<u64>) -> Option<Attachment> {
        let entry = self.entries.get_mut(key)?;
        let told = (self.link, entry.serial);
        if serial.is_some_and(|serial| serial != entry.serial) || entry.told == told {
            return None;
        }
        entry.told = told;
        Some(attachment(&entry.declaration, true))
    }

    /// Publishers that come and go while nobody asks must not fill `come`. Beyond twice those that are attached most of it is
    /// outdated, so with a few looks it loses more than it is given.
    fn forget_outdated(&mut self) {
        if self.come.len() <= 2 * self.count() + 64 {
            return;
        }
        for _ in 0..LOOKS_PER_COMER {
            let Some((key, serial)) = self.come.pop_front() else {
                return;
            };
            let entry = self.entries.get(key);
            if entry.is_some_and(|entry| entry.serial == serial) {
                self.come.push_back((key, serial));
            }
        }
    }
}

fn attachment(declaration: &Declaration, attached: bool) -> Attachment {
    Attachment {
        publisher: declaration.clone(),
        attached,
        refused: None,
    }
}

#[cfg(test)]
mod tests;
