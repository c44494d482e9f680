//! The links of a follower: the one that gets what is published, the one in the making, those that leave.

use crate::placed::link::{Link, LinkId};

/// Links that wait for acknowledgements at the same time; further moves wait for one of them.
pub(super) const MAX_LEAVING: usize = 4;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Links {
    pub(super) active: Option<Link>,
    pub(super) making: Option<Making>,
    pub(super) leaving: Vec<Link>,
    /// A move that waits until one of the leaving links is closed.
    pub(super) postponed: Option<String>,
    made: u64,
}

/// A link that is to become the active one.
#[derive(Debug)]
pub(super) struct Making {
    pub(super) link: Link,
    /// Nobody said to go there: it is where the publisher was before, tried since the controller does not answer.
    pub(super) is_fallback: bool,
}

impl Links {
    /// A name for one more.
    pub(super) fn next_id(&mut self) -> LinkId {
        let id = LinkId(self.made);
        self.made += 1;
        id
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Link> {
        let making = self.making.as_ref().map(|making| &making.link);
        self.active.iter().chain(making).chain(&self.leaving)
    }

    pub(super) fn get(&self, id: LinkId) -> Option<&Link> {
        self.all().find(|link| link.id == id)
    }

    pub(super) fn get_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        let making = self.making.as_mut().map(|making| &mut making.link);
        let links = self.active.iter_mut().chain(making);
        links.chain(&mut self.leaving).find(|link| link.id == id)
    }

    /// Whether it gets what is published.
    pub(super) fn is_active(&self, id: LinkId) -> bool {
        self.active.as_ref().is_some_and(|active| active.id == id)
    }

    /// The link and whether it was leaving.
    pub(super) fn remove(&mut self, id: LinkId) -> Option<(Link, bool)> {
        if self.active.as_ref().is_some_and(|link| link.id == id) {
            return Some((self.active.take()?, false));
        }
        if self.making.as_ref().is_some_and(|m| m.link.id == id) {
            return Some((self.making.take()?.link, false));
        }
        let place = self.leaving.iter().position(|link| link.id == id)?;
        Some((self.leaving.remove(place), true))
    }
}
