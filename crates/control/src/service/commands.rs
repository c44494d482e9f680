//! Questions and orders of whoever asks through the handle.

use std::sync::atomic::Ordering;

use clock::Instant;

use super::placing::Place;
use super::{Service, answer};
use crate::ControlError;
use crate::handle::{Command, Reply};
use crate::view::BrokerView;

impl Service {
    /// A question is answered, an order carried out.
    pub(super) fn command(&mut self, command: Command) {
        let now = self.now();
        let core = &mut self.core;
        match command {
            Command::Topics(after, at_most, reply) => {
                answer(reply, Ok(core.topic_views(after.as_deref(), at_most)));
            }
            Command::TopicsCount(reply) => answer(reply, Ok(core.topics_count())),
            Command::Topic(name, reply) => answer(reply, core.topic_view(&name)),
            Command::Publishers(name, after, at_most, reply) => {
                let views = core.publisher_views(&name, after.as_deref(), at_most);
                answer(reply, views);
            }
            Command::PublishersNamed(name, ids, reply) => {
                answer(reply, Ok(core.publishers_named(&name, &ids)));
            }
            Command::Placement(name, after, at_most, reply) => {
                answer(reply, core.placement_view(&name, after.as_deref(), at_most));
            }
            Command::Brokers(reply) => answer(reply, Ok(core.broker_views(now))),
            Command::Name(topic, reply) => answer(reply, core.name_view(&topic)),
            Command::Names(after, reply) => answer(reply, Ok(core.name_views(after.as_deref()))),
            Command::NamesCount(reply) => answer(reply, Ok(core.names())),
            Command::Channels(name, reply) => answer(reply, core.channel_views(&name)),
            Command::Holdings(after, at_most, reply) => {
                answer(reply, Ok(core.holdings(after.as_ref(), at_most, now)));
            }
            Command::PlaceTombstone {
                topic,
                node,
                lifetime,
                reply,
            } => {
                self.holdings.fetch_add(1, Ordering::Release);
                core.place_tombstone(&topic, &node, lifetime, now);
                answer(reply, Ok(()));
            }
            change => {
                self.holdings.fetch_add(1, Ordering::Release);
                self.change(change, now);
            }
        }
    }

    /// What a request says is kept first; then it comes into force.
    fn change(&mut self, command: Command, now: Instant) {
        match command {
            Command::PutTopic(name, spec, reply) => {
                let asked = self.core.asks_put_topic(&name, &spec);
                let kept = self.keep_first(asked);
                match kept.and_then(|()| self.core.put_topic(&name, spec, now)) {
                    Ok(ticket) => {
                        self.waiting.insert(ticket, (name, reply));
                        self.settle();
                    }
                    Err(error) => answer(reply, Err(error)),
                }
            }
            Command::DeleteTopic(name, reply) => {
                let asked = self.core.asks_delete_topic(&name);
                let kept = self.keep_first(asked);
                let deleted = kept.and_then(|()| self.core.delete_topic(&name, now));
                self.confirm(reply, deleted);
            }
            Command::PutPublishers(name, specs, reply) => {
                let asked = self.core.asks_declare(&name, &specs);
                let kept = self.keep_first(asked);
                match kept.and_then(|()| self.core.declare(&name, specs, now)) {
                    Ok(number) => drop(self.declared.insert(number, (name, reply))),
                    Err(error) => answer(reply, Err(error)),
                }
            }
            Command::Publisher {
                topic,
                id,
                avoid,
                reply,
            } => self.ask_place(topic, id, avoid.as_deref(), reply, now),
            Command::DeletePublisher(name, id, reply) => {
                let asked = self.core.asks_delete_publisher(&name, &id);
                let kept = self.keep_first(asked);
                let deleted = kept.and_then(|()| self.core.delete_publisher(&name, &id, now));
                self.confirm(reply, deleted);
            }
            Command::DrainBroker(name, reply) => self.drain(&name, true, reply, now),
            Command::ResumeBroker(name, reply) => self.drain(&name, false, reply, now),
            Command::RemoveBroker(name, reply) => {
                let asked = self.core.asks_remove_broker(&name);
                let kept = self.keep_first(asked);
                let removed = kept.and_then(|()| self.core.remove_broker(&name, now));
                self.confirm(reply, removed);
            }
            Command::PutName(topic, reply) => {
                // Two topics of one identifier would receive each other's messages.
                let asked = self.core.asks_put_name(&topic);
                let kept = self.keep_first(asked);
                let named = kept.and_then(|()| self.core.put_name(&topic));
                self.confirm(reply, named);
            }
            Command::ChangeTopic(topic, change, reply) => {
                let asked = self.core.asks_change_topic(&topic, &change);
                let kept = self.keep_first(asked);
                let changed = kept.and_then(|()| self.core.change_topic(&topic, &change, now));
                self.confirm(reply, changed);
            }
            // The others change nothing that is kept.
            _ => {}
        }
    }

    /// A broker is to be drained, or not any more.
    fn drain(&mut self, name: &str, is_drained: bool, reply: Reply<BrokerView>, now: Instant) {
        let asked = self.core.asks_drain_broker(name, is_drained);
        let kept = self.keep_first(asked);
        let number = kept.and_then(|()| match is_drained {
            true => self.core.drain_broker(name, now),
            false => self.core.resume_broker(name, now),
        });
        let view = number.map(|number| self.core.broker_view(number, now));
        self.confirm(reply, view);
    }

    /// Answers once what follows is kept or waits.
    fn confirm<T>(&mut self, reply: Reply<T>, with: Result<T, ControlError>) {
        self.settle();
        answer(reply, with);
    }

    /// A list of publishers has been taken; it was kept before.
    pub(super) fn list_declared(&mut self, number: u64) {
        let Some((topic, reply)) = self.declared.remove(&number) else {
            return;
        };
        let now = self.now();
        self.place(topic, Place::All(reply), now);
    }

    pub(super) fn contract_settled(&mut self, ticket: u64, missing: &[String]) {
        if !missing.is_empty() {
            tracing::warn!(
                "contract {ticket} is not confirmed by {}",
                missing.join(", ")
            );
        }
        if let Some((name, reply)) = self.waiting.remove(&ticket) {
            answer(reply, self.core.topic_view(&name));
        }
    }
}
