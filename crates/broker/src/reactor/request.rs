//! Requests that come through the handle.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use kernel::CpuShare;
use wire::{ChannelName, TopicName};

use super::Reactor;
use super::hosted::observe;
use super::inbox::TopicMail;
use super::waiting::WaitingRequest;
use crate::BrokerError;
use crate::handle::{Operation, Question, Reply, Request};

impl Reactor {
    pub(super) fn answer(&mut self, request: Request) {
        let now = self.hall.time.now;
        match request {
            Request::Publish {
                maker,
                topic,
                bodies,
                delay,
                reply,
            } => self.wait_for_turn((maker, topic), bodies, delay, reply),
            Request::Make(maker, topic, channel, reply) => {
                reply.send(self.hall.topics.make(maker, &topic, channel.as_ref(), now));
            }
            Request::Survey(question) => self.ask(question),
            Request::Handover(request) => self.hall.topics.hand_over(request, now),
            Request::Topic(topic, operation, reply) => reply.send(self.operate(&topic, operation)),
            Request::Channel(topic, channel, operation, reply) => {
                let topics = &mut self.hall.topics;
                reply.send(topics.operate_channel(&topic, &channel, operation));
            }
            Request::Learn(known, reply) => reply.send(self.hall.topics.learn(&known)),
            Request::Answered(topic, reply) => {
                self.hall.topics.table.answered(&topic);
                reply.done();
            }
            Request::Follow(topic, channel, operation, reply) => {
                reply.send(self.follow(&topic, channel.as_ref(), operation));
            }
            Request::Hear(teller, reply) => {
                self.hall.topics.table.hear(teller);
                reply.done();
            }
            Request::SetContract(declared, reply) => {
                // What topics that are gone had declared is free, on all reactors, before anything is declared here.
                self.relay().carry_out_effects();
                self.hall.topics.answer_contract(&declared, reply, now);
            }
            Request::DeclareShare(topic, share, reply) => {
                self.relay().carry_out_effects();
                self.declare_elsewhere(&topic, share);
                reply.done();
            }
            Request::Join(group, reply) => {
                self.hall.topics.table.join(group, now);
                reply.done();
            }
            Request::Prolong(by, reply) => {
                self.hall.topics.table.prolong_leases(by, now);
                reply.done();
            }
            Request::Deliver(dialled, reply) => reply.send(self.hall.begin_delivery(*dialled)),
            Request::SetIdentifiers(identifiers, reply) => {
                self.hall.topics.identifiers = identifiers;
                reply.done();
            }
            Request::Migrate(topic, moves, reply) => {
                self.hall.publishers().move_publishers(&topic, &moves);
                reply.done();
            }
            Request::RememberTraffic(length, reply) => {
                self.hall.topics.table.set_history_length(length);
                reply.done();
            }
            Request::Grant(grants, reply) => {
                self.hall.time.look();
                let (table, now) = (&mut self.hall.topics.table, self.hall.time.now);
                reply.send(Ok(observe::grant(table, grants, now)));
            }
            Request::Observe(request) => {
                observe::observe(&mut self.hall.topics.table, request, now);
            }
        }
    }

    fn ask(&mut self, question: Question) {
        let (surveys, mut surveyed) = self.surveyed();
        surveys.ask(question, &mut surveyed);
    }

    /// Publishing is for the topic's task to do.
    fn wait_for_turn(
        &mut self,
        (maker, topic): (Option<IpAddr>, TopicName),
        bodies: Vec<Bytes>,
        delay: Duration,
        reply: Reply<()>,
    ) {
        let request = Box::new(WaitingRequest {
            maker,
            bodies,
            arrival: self.hall.time.arrival_now(),
            delay,
            reply,
        });
        let now = self.hall.time.now;
        let task = self.hall.topics.task_of_name(&topic, maker, now);
        let mail = TopicMail::Request(topic, request);
        self.hall.topics.schedule.notice_mail(task, mail);
    }

    /// The change is not reported back to the one who ordered it.
    fn follow(
        &mut self,
        topic: &TopicName,
        channel: Option<&ChannelName>,
        operation: Operation,
    ) -> Result<(), BrokerError> {
        self.hall.topics.table.begin_order();
        let followed = match channel {
            None => self.operate(topic, operation),
            Some(channel) => self.hall.topics.operate_channel(topic, channel, operation),
        };
        self.hall.topics.table.end_order();
        followed
    }

    fn operate(&mut self, topic: &TopicName, operation: Operation) -> Result<(), BrokerError> {
        self.hall.topics.operate(topic, operation)?;
        if operation == Operation::Delete {
            self.relay().carry_out_effects();
        }
        Ok(())
    }

    /// Notes the share of a topic of another reactor. The home has accepted it, and the sums are the same here; where no task is
    /// left the topic's publishers are served with what belongs to no topic.
    pub(super) fn declare_elsewhere(&mut self, topic: &TopicName, share: Option<CpuShare>) {
        if let Err(error) = self.hall.topics.schedule.set_share_elsewhere(topic, share) {
            let number = self.hall.post.number;
            tracing::warn!("reactor {number}: publishers of {topic} have no share here: {error}");
        }
    }
}
