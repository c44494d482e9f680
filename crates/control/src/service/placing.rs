//! Publishers that wait for their places until their brokers have all channels of their topic.

use std::time::Duration;

use clock::Instant;

use crate::core::Core;
use crate::handle::Reply;
use crate::view::PublisherView;

/// Askers that wait at most; further ones are answered as it stands.
const WAITING_MAX: usize = 1024;
/// Askers wait so long at most; then they are told of no place, and ask again.
const PLACE_TIMEOUT: Duration = Duration::from_secs(2);

/// Whose place is asked for, and where the answer goes.
#[derive(Debug)]
pub(super) enum Asks {
    /// Of one publisher.
    One(String, Reply<PublisherView>),
    /// Of all of the topic: they are told one by one.
    All(Reply<()>),
}

/// Those who wait.
#[derive(Debug, Default)]
pub(super) struct Placing(Vec<Asker>);

/// One of them.
#[derive(Debug)]
pub(super) struct Asker {
    /// Topic.
    pub(super) topic: String,
    /// Of whom.
    pub(super) place: Asks,
    until: Instant,
}

impl Placing {
    /// Lets one wait; gives back one that is to be answered at once.
    pub(super) fn wait(&mut self, core: &Core, asker: Asker) -> Option<Asker> {
        if self.0.len() >= WAITING_MAX || asker.may_be_told(core) {
            return Some(asker);
        }
        self.0.push(asker);
        None
    }

    /// A broker has the channels of a topic (`None`: of any): those who are to be answered.
    pub(super) fn prepared(&mut self, core: &Core, topic: Option<&str>) -> Vec<Asker> {
        let is_meant = |asker: &mut Asker| topic.is_none_or(|topic| asker.topic == topic);
        let ready = |asker: &mut Asker| is_meant(asker) && asker.may_be_told(core);
        self.0.extract_if(.., ready).collect()
    }

    /// Those who have waited long enough.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Asker> {
        self.0.extract_if(.., |asker| now >= asker.until).collect()
    }
}

impl Asker {
    /// One who asks now.
    pub(super) fn new(topic: String, place: Asks, now: Instant) -> Asker {
        let until = now + PLACE_TIMEOUT;
        Asker {
            topic,
            place,
            until,
        }
    }

    fn may_be_told(&self, core: &Core) -> bool {
        match &self.place {
            Asks::All(_) => core.may_all_be_told(&self.topic),
            Asks::One(id, _) => core.may_be_told(&self.topic, id),
        }
    }
}
