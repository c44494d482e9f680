//! Which publishers are attached to topics of this reactor, and what a controller is to be told of it.
//!
//! A name, topic and id, belongs to one connection: the newest that announced it. What the controller
//! does not know yet is kept as the difference to what it was told, not as a log, so it never
//! overflows: at most every attached publisher is still to be told of as come, and at most every one that
//! was told of is still to be told of as gone.

use std::collections::VecDeque;
use std::sync::Arc;

use link::{Announcement, Attachment};
use rustc_hash::FxHashMap;
use wire::TopicName;

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
    by_topic: FxHashMap<TopicName, FxHashMap<String, Entry>>,
    len: usize,
    serial: u64,
    is_watched: bool,
    come: VecDeque<(TopicName, Arc<Announcement>, u64)>,
    gone: VecDeque<Arc<Announcement>>,
}

#[derive(Debug)]
struct Entry {
    owner: Owner,
    announcement: Arc<Announcement>,
    /// Of the latest announcement; an older one in `come` is passed over.
    serial: u64,
    /// The controller was told that a publisher of this name is attached.
    is_told: bool,
}

impl Attachments {
    /// Gives a name to `owner`. The connection that held it before, if another did, is the answer: its
    /// publishes count as anybody's from now on.
    pub fn attach(
        &mut self,
        topic: &TopicName,
        announcement: Arc<Announcement>,
        owner: Owner,
    ) -> Option<Owner> {
        self.serial += 1;
        let publishers = match self.by_topic.get_mut(topic.as_str()) {
            Some(publishers) => publishers,
            None => self.by_topic.entry(topic.clone()).or_default(),
        };
        let entry = Entry {
            owner,
            announcement: Arc::clone(&announcement),
            serial: self.serial,
            is_told: false,
        };
        let former = publishers.insert(announcement.id.clone(), entry);
        match &former {
            Some(former) => {
                let is_told = former.is_told;
                if let Some(entry) = publishers.get_mut(&announcement.id) {
                    entry.is_told = is_told;
                }
            }
            None => self.len += 1,
        }
        if self.is_watched {
            self.come
                .push_back((topic.clone(), announcement, self.serial));
            self.forget_outdated();
        }
        former
            .map(|former| former.owner)
            .filter(|former| *former != owner)
    }

    /// Takes a name away from `owner`; nothing happens where another connection holds it by now.
    pub fn detach(&mut self, topic: &TopicName, id: &str, owner: Owner) {
        let Some(publishers) = self.by_topic.get_mut(topic.as_str()) else {
            return;
        };
        if publishers.get(id).is_none_or(|entry| entry.owner != owner) {
            return;
        }
        let entry = publishers.remove(id);
        if publishers.is_empty() {
            self.by_topic.remove(topic.as_str());
        }
        self.len -= 1;
        if let Some(entry) = entry.filter(|entry| entry.is_told) {
            self.gone.push_back(entry.announcement);
        }
    }

    /// The connection that holds a name.
    #[must_use]
    pub fn find(&self, topic: &TopicName, id: &str) -> Option<Owner> {
        Some(self.by_topic.get(topic.as_str())?.get(id)?.owner)
    }

    /// Publishers attached.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// What came and went since the last report, `at_most` so many entries; the rest follows with the next
    /// reports. After `is_first` everybody who is attached is news.
    pub fn report(&mut self, is_first: bool, at_most: usize) -> Vec<Attachment> {
        if is_first {
            self.begin();
        }
        let mut news = Vec::new();
        while news.len() < at_most
            && let Some(announcement) = self.gone.pop_front()
        {
            news.push(attachment(&announcement, false));
        }
        while news.len() < at_most
            && let Some((topic, announcement, serial)) = self.come.pop_front()
        {
            let publishers = self.by_topic.get_mut(topic.as_str());
            let entry = publishers.and_then(|publishers| publishers.get_mut(&announcement.id));
            if let Some(entry) = entry.filter(|entry| entry.serial == serial) {
                entry.is_told = true;
                news.push(attachment(&announcement, true));
            }
        }
        news
    }

    /// A controller that knows nothing asks.
    fn begin(&mut self) {
        self.is_watched = true;
        self.gone.clear();
        self.come.clear();
        for (topic, publishers) in &mut self.by_topic {
            for entry in publishers.values_mut() {
                entry.is_told = false;
                let announcement = Arc::clone(&entry.announcement);
                self.come
                    .push_back((topic.clone(), announcement, entry.serial));
            }
        }
    }

    /// Publishers that come and go while nobody asks must not fill `come`.
    fn forget_outdated(&mut self) {
        if self.come.len() <= 2 * self.len + 64 {
            return;
        }
        let by_topic = &self.by_topic;
        self.come.retain(|(topic, announcement, serial)| {
            let publishers = by_topic.get(topic.as_str());
            publishers
                .and_then(|publishers| publishers.get(&announcement.id))
                .is_some_and(|entry| entry.serial == *serial)
        });
    }
}

fn attachment(announcement: &Announcement, attached: bool) -> Attachment {
    Attachment {
        publisher: announcement.clone(),
        attached,
        refused: None,
    }
}

#[cfg(test)]
mod tests;
