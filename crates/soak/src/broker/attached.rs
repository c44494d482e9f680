//! Which publishers are attached, and what the controller is still to be told of it (`broker/reactor/attachments.rs`).

use std::collections::BTreeMap;

use link::{Announcement, Attachment};

use super::Process;
use crate::event::StreamId;

/// A publisher's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) topic: String,
    pub(super) id: String,
}

/// Those who are attached.
#[derive(Debug, Default)]
pub(super) struct Attached {
    here: BTreeMap<Name, (StreamId, Announcement)>,
    /// What the controller was told.
    told: BTreeMap<Name, (StreamId, Announcement)>,
}

impl Attached {
    /// The newest connection has the name.
    fn attach(&mut self, name: Name, stream: StreamId, announcement: Announcement) {
        self.here.insert(name, (stream, announcement));
    }

    /// A connection is gone; nothing happens where another has the name.
    pub(super) fn detach(&mut self, name: &Name, stream: StreamId) {
        if self.here.get(name).is_some_and(|(of, _)| *of == stream) {
            self.here.remove(name);
        }
    }

    /// The connection that has a name.
    pub(super) fn find(&self, topic: &str, id: &str) -> Option<StreamId> {
        let name = Name {
            topic: topic.to_owned(),
            id: id.to_owned(),
        };
        self.here.get(&name).map(|(stream, _)| *stream)
    }

    /// Nobody was told anything.
    pub(super) fn begin(&mut self) {
        self.told.clear();
    }

    /// What came and went since the last call.
    pub(super) fn news(&mut self) -> Vec<Attachment> {
        let gone = self.told.iter();
        let gone = gone.filter(|(name, _)| !self.here.contains_key(*name));
        let gone = gone.map(|(_, (_, publisher))| attachment(publisher, false));
        let come = self.here.iter();
        let come = come.filter(|(name, here)| {
            let told = self.told.get(*name);
            told.is_none_or(|told| told.0 != here.0)
        });
        let come = come.map(|(_, (_, publisher))| attachment(publisher, true));
        let news = gone.chain(come).collect();
        self.told.clone_from(&self.here);
        news
    }
}

fn attachment(publisher: &Announcement, attached: bool) -> Attachment {
    Attachment {
        publisher: publisher.clone(),
        attached,
        refused: None,
    }
}

impl Process {
    /// Takes in what a connection says of itself in IDENTIFY.
    pub(super) fn announce(&mut self, stream: StreamId) {
        let Some(session) = self.sessions.get_mut(&stream) else {
            return;
        };
        let Some(said) = session.terms.announcement.clone() else {
            return;
        };
        let name = Name {
            topic: said.topic.to_string(),
            id: said.id.clone(),
        };
        session.name = Some(name.clone());
        let announcement = Announcement {
            id: said.id,
            topic: said.topic.to_string(),
            group: said.group,
            rate: said.rate,
            batch: said.batch,
        };
        self.attached.attach(name, stream, announcement);
    }
}
