//! Publishers that wait to be told their places until their brokers have all channels of their topic.

use std::time::Duration;

use clock::Instant;

use super::keeping::Keeping;
use super::{Service, answer};
use crate::core::{Core, no_publisher};
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
    One(String, Reply<PublisherView>),
    /// Of all of the topic: they are told one by one.
    All(Reply<()>),
}

/// Those who wait.
#[derive(Debug, Default)]
pub(super) struct Placing(Vec<Asker>);

#[derive(Debug)]
struct Asker {
    topic: String,
    until: Instant,
    place: Place,
}

/// What is decided, and what of it is not kept yet.
type Kept<'a> = (&'a Core, &'a Keeping);

impl Placing {
    /// Answers at once if that can be, otherwise later.
    fn wait(&mut self, kept: Kept<'_>, asker: Asker) {
        if self.0.len() >= WAITING_MAX || asker.may_be_told(kept.0) {
            return asker.tell(kept);
        }
        self.0.push(asker);
    }

    /// A broker has the channels of a topic (`None`: of any).
    pub(super) fn prepared(&mut self, kept: Kept<'_>, topic: Option<&str>) {
        let is_meant = |asker: &mut Asker| topic.is_none_or(|topic| asker.topic == topic);
        let ready = |asker: &mut Asker| is_meant(asker) && asker.may_be_told(kept.0);
        for asker in self.0.extract_if(.., ready) {
            asker.tell(kept);
        }
    }

    /// Answers those who have waited long enough.
    pub(super) fn expire(&mut self, kept: Kept<'_>, now: Instant) {
        for asker in self.0.extract_if(.., |asker| now >= asker.until) {
            asker.tell(kept);
        }
    }
}

impl Service {
    /// Tells a publisher its place, which it may be given only now.
    pub(super) fn ask_place(
        &mut self,
        topic: String,
        id: String,
        avoid: Option<&str>,
        reply: Reply<PublisherView>,
        now: Instant,
    ) {
        // While nothing can be kept nobody is given another place.
        let asked = match self.keeping.is_waiting() {
            true => Ok(()),
            false => self.core.ask_place(&topic, &id, avoid, now).map(drop),
        };
        match asked {
            Ok(()) => self.place(topic, Place::One(id, reply), now),
            Err(error) => answer(reply, Err(error)),
        }
    }

    /// Tells publishers their places once their brokers are prepared for them.
    pub(super) fn place(&mut self, topic: String, place: Place, now: Instant) {
        self.settle();
        let until = now + PLACE_TIMEOUT;
        let asker = Asker {
            topic,
            until,
            place,
        };
        self.placing.wait((&self.core, &self.keeping), asker);
    }
}

impl Asker {
    fn may_be_told(&self, core: &Core) -> bool {
        match &self.place {
            Place::All(_) => core.may_all_be_told(&self.topic),
            Place::One(id, _) => core.may_be_told(&self.topic, id),
        }
    }

    /// Nobody is told of a place that a crash could still take back.
    fn tell(self, (core, keeping): Kept<'_>) {
        match self.place {
            Place::All(reply) => answer(reply, Ok(())),
            Place::One(id, reply) => {
                let gone = || no_publisher(&self.topic, &id);
                let view = core
                    .publishers_named(&self.topic, std::slice::from_ref(&id))
                    .pop();
                match keeping.holds_publisher(&self.topic, &id) {
                    true => answer(reply, Err(keeping.refusal())),
                    false => answer(reply, view.ok_or_else(gone)),
                }
            }
        }
    }
}
