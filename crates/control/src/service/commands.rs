//! Answers requests that come through the handle and puts them into force.

use std::sync::atomic::Ordering;

use clock::Instant;

use super::outbox::{Answer, Output, Place};
use super::placing::{Asker, Asks};
use super::requests::Request;
use super::{Service, answer};
use crate::ControlError;
use crate::core::no_publisher;
use crate::handle::{Command, Reply};
use crate::store::Change;
use crate::view::PublisherView;

impl Service {
    /// A question is answered, a request waits for its turn.
    pub(super) fn command(&mut self, command: Command) {
        let now = self.now();
        let core = &mut self.core;
        match command {
            Command::Topics(after, at_most, reply) => {
                let views = core.topic_views(after.as_deref(), at_most);
                self.reply(reply, Ok(views));
            }
            Command::Look(question) => {
                let said = question.see(core, now);
                self.say(said);
            }
            Command::Topic(name, reply) => {
                let view = core.topic_view(&name);
                self.reply(reply, view);
            }
            Command::Publishers(name, after, at_most, reply) => {
                let views = core.publisher_views(&name, after.as_deref(), at_most);
                self.reply(reply, views);
            }
            Command::PublishersNamed(name, ids, reply) => {
                let views = core.publishers_named(&name, &ids);
                self.reply(reply, Ok(views));
            }
            Command::Placement(name, after, at_most, reply) => {
                let view = core.placement_view(&name, after.as_deref(), at_most);
                self.reply(reply, view);
            }
            Command::Brokers(reply) => {
                let views = core.broker_views(now);
                self.reply(reply, Ok(views));
            }
            Command::Channels(name, reply) => {
                let views = core.channel_views(&name);
                self.reply(reply, views);
            }
            Command::Holdings(after, at_most, reply) => {
                let holdings = core.holdings(after.as_ref(), at_most, now);
                self.reply(reply, Ok(holdings));
            }
            Command::PlaceTombstone {
                topic,
                node,
                lifetime,
                reply,
            } => {
                core.place_tombstone(&topic, &node, lifetime, now);
                self.holdings.fetch_add(1, Ordering::Release);
                self.reply(reply, Ok(()));
            }
            Command::Publisher {
                topic,
                id,
                avoid,
                reply,
            } => self.ask_place((topic, id), avoid.as_deref(), reply, now),
            request => self.requests.push(Request::new(request)),
        }
    }

    /// Tells a publisher its place, which it may be given only now.
    fn ask_place(
        &mut self,
        (topic, id): (String, String),
        avoid: Option<&str>,
        reply: Reply<PublisherView>,
        now: Instant,
    ) {
        // While nothing can be kept nobody is given another place.
        let asked = match self.keeping.is_waiting() {
            true => Ok(()),
            false => self.core.ask_place(&topic, &id, avoid, now).map(drop),
        };
        self.holdings.fetch_add(1, Ordering::Release);
        match asked {
            Ok(()) => self.place(Asker::new(topic, Asks::One(id, reply), now)),
            Err(error) => self.reply(reply, Err(error)),
        }
    }

    /// Comes into force, now that what it says (`kept`) is kept.
    pub(super) fn act(&mut self, mut request: Request, kept: &[Change]) {
        let now = self.now();
        self.holdings.fetch_add(1, Ordering::Release);
        let (taken, behind) = request.progress();
        let core = &mut self.core;
        match request.command {
            Command::PutTopic(name, spec, reply) => match core.put_topic(&name, spec, now) {
                Ok(ticket) => {
                    core.keep_as_is(kept);
                    self.waiting.insert(ticket, (name, reply));
                }
                Err(error) => self.done(reply, Err(error), kept),
            },
            Command::PutPublishers(name, list, reply) => match core.declare(&name, list, now) {
                Ok(number) => match behind {
                    None => drop(self.declared.insert(number, (name, reply))),
                    Some(behind) => {
                        let rest = Request::rest(&name, taken, behind, reply);
                        self.requests.go_on_with(rest);
                    }
                },
                Err(error) => self.done(reply, Err(error), kept),
            },
            Command::DeleteTopic(name, reply) => {
                let deleted = core.delete_topic(&name, now);
                self.done(reply, deleted, kept);
            }
            Command::DeletePublisher(name, id, reply) => {
                let deleted = core.delete_publisher(&name, &id, now);
                self.done(reply, deleted, kept);
            }
            Command::DrainBroker(name, reply) => {
                let drained = core.drain_broker(&name, now);
                let drained = drained.map(|number| core.broker_view(number, now));
                self.done(reply, drained, kept);
            }
            Command::ResumeBroker(name, reply) => {
                let resumed = core.resume_broker(&name, now);
                let resumed = resumed.map(|number| core.broker_view(number, now));
                self.done(reply, resumed, kept);
            }
            Command::RemoveBroker(name, reply) => {
                let removed = core.remove_broker(&name, now);
                self.done(reply, removed, kept);
            }
            Command::PutName(topic, reply) => {
                let named = core.put_name(&topic);
                self.done(reply, named, kept);
            }
            Command::ChangeTopic(topic, change, reply) => {
                let changed = core.change_topic(&topic, &change, now);
                self.done(reply, changed, kept);
            }
            // The others are questions.
            _ => {}
        }
    }

    /// Answers a request with its result. A request that could not come into force, because
    /// something else changed while it was being kept, leaves no trace once that is answered.
    fn done<T: Send + 'static>(
        &mut self,
        reply: Reply<T>,
        with: Result<T, ControlError>,
        kept: &[Change],
    ) {
        self.core.keep_as_is(kept);
        if with.is_ok() || kept.is_empty() {
            return self.reply(reply, with);
        }
        let correction = Output::Correction(Box::new(|| answer(reply, with)));
        self.outbox.push(correction, true);
    }

    /// Answers with what may show what is not kept yet.
    pub(super) fn reply<T: Send + 'static>(
        &mut self,
        reply: Reply<T>,
        with: Result<T, ControlError>,
    ) {
        self.say(Box::new(|| answer(reply, with)));
    }

    /// Answers once all that it may show is kept.
    pub(super) fn say(&mut self, said: Answer) {
        match self.is_all_kept() {
            true => said(),
            false => self.let_wait(Output::Answer(said)),
        }
    }

    /// Tells publishers their places once their brokers are prepared for them.
    fn place(&mut self, asker: Asker) {
        if let Some(asker) = self.placing.wait(&self.core, asker) {
            self.tell_place(asker);
        }
    }

    /// Tells publishers their places as it stands.
    pub(super) fn tell_place(&mut self, asker: Asker) {
        let (topic, id, reply) = match asker.place {
            Asks::All(reply) => return self.reply(reply, Ok(())),
            Asks::One(id, reply) => (asker.topic, id, reply),
        };
        let mut views = self
            .core
            .publishers_named(&topic, std::slice::from_ref(&id));
        let view = views.pop().ok_or_else(|| no_publisher(&topic, &id));
        let place = Place {
            topic,
            id,
            view,
            reply,
        };
        match self.is_all_kept() {
            true => self.give_place(place),
            false => self.let_wait(Output::Place(place)),
        }
    }

    /// Nobody is told of a place that a crash could still take back.
    pub(super) fn give_place(&self, place: Place) {
        let is_kept = !self.keeping.holds_publisher(&place.topic, &place.id);
        let view = match is_kept {
            true => place.view,
            false => Err(self.keeping.refusal()),
        };
        answer(place.reply, view);
    }

    /// A list of publishers has been taken; it was kept before.
    pub(super) fn list_declared(&mut self, number: u64) {
        if let Some((topic, reply)) = self.declared.remove(&number) {
            let now = self.now();
            self.place(Asker::new(topic, Asks::All(reply), now));
        }
    }

    pub(super) fn contract_settled(&mut self, ticket: u64, missing: &[String]) {
        if !missing.is_empty() {
            tracing::warn!(
                "contract {ticket} is not confirmed by {}",
                missing.join(", ")
            );
        }
        if let Some((name, reply)) = self.waiting.remove(&ticket) {
            let view = self.core.topic_view(&name);
            self.reply(reply, view);
        }
    }
}
