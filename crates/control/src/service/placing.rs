//! Publishers that wait to be told their places until their brokers have all channels of their topic.

use std::time::Duration;

use clock::Instant;

use super::answer;
use crate::ControlError;
use crate::core::Core;
use crate::handle::Reply;
use crate::view::PublisherView;

/// Askers that wait at most; further ones are answered as it stands.
const WAITING_MAX: usize = 1024;
/// Askers wait so long at most; then they are told of no place, and ask again.
const PLACE_TIMEOUT: Duration = Duration::from_secs(2);

/// Where the answer goes.
#[derive(Debug)]
pub(super) enum Place {
    /// Of one publisher.
    One(Reply<PublisherView>),
    /// Of all that were declared together.
    All(Reply<Vec<PublisherView>>),
}

/// Those who wait.
#[derive(Debug, Default)]
pub(super) struct Placing(Vec<Asker>);

#[derive(Debug)]
struct Asker {
    topic: String,
    ids: Vec<String>,
    until: Instant,
    place: Place,
}

impl Placing {
    /// Answers at once if that can be, otherwise later.
    pub(super) fn wait(
        &mut self,
        core: &Core,
        topic: String,
        ids: Vec<String>,
        place: Place,
        now: Instant,
    ) {
        let asker = Asker {
            topic,
            ids,
            until: now + PLACE_TIMEOUT,
            place,
        };
        if self.0.len() >= WAITING_MAX || asker.may_be_told(core) {
            return asker.tell(core);
        }
        self.0.push(asker);
    }

    /// A broker has the channels of a topic (`None`: of any).
    pub(super) fn prepared(&mut self, core: &Core, topic: Option<&str>) {
        let is_meant = |asker: &mut Asker| topic.is_none_or(|topic| asker.topic == topic);
        let ready = |asker: &mut Asker| is_meant(asker) && asker.may_be_told(core);
        for asker in self.0.extract_if(.., ready) {
            asker.tell(core);
        }
    }

    /// Answers all who wait that they are not told now.
    pub(super) fn refuse(&mut self, error: &ControlError) {
        for asker in self.0.drain(..) {
            asker.place.refuse(error.clone());
        }
    }

    /// Answers those who have waited long enough.
    pub(super) fn expire(&mut self, core: &Core, now: Instant) {
        for asker in self.0.extract_if(.., |asker| now >= asker.until) {
            asker.tell(core);
        }
    }
}

impl Place {
    pub(super) fn refuse(self, error: ControlError) {
        match self {
            Place::All(reply) => answer(reply, Err(error)),
            Place::One(reply) => answer(reply, Err(error)),
        }
    }
}

impl Asker {
    fn may_be_told(&self, core: &Core) -> bool {
        core.may_be_told(&self.topic, &self.ids)
    }

    fn tell(self, core: &Core) {
        let mut views = core.publishers_named(&self.topic, &self.ids);
        match self.place {
            Place::All(reply) => answer(reply, Ok(views)),
            Place::One(reply) => {
                let gone = || ControlError::NotFound(String::from("it was removed meanwhile"));
                answer(reply, views.pop().ok_or_else(gone));
            }
        }
    }
}
