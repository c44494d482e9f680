//! Questions and orders that come through the handle.

use std::time::Duration;

use bytes::Bytes;
use wire::{ChannelName, TopicName};

use super::Reactor;
use super::hosted::observe;
use super::inbox::TopicMail;
use super::waiting::WaitingRequest;
use crate::BrokerError;
use crate::handle::{Operation, Question, Reply, Request};

impl Reactor {
    pub(super) fn answer(&mut self, request: Request) {
        match request {
            Request::Publish {
                topic,
                bodies,
                delay,
                reply,
            } => self.wait_for_turn(topic, bodies, delay, reply),
            Request::Survey(question) => self.ask(question),
            Request::Handover(request) => self.topics.hand_over(request, self.time.now),
            Request::Topic(topic, operation, reply) => {
                reply.send(self.operate(&topic, operation));
            }
            Request::Channel(topic, channel, operation, reply) => {
                reply.send(self.topics.operate_channel(&topic, &channel, operation));
            }
            Request::Learn(known, reply) => reply.send(self.topics.learn(&known)),
            Request::Answered(topic, reply) => {
                self.topics.table.answered(&topic);
                reply.done();
            }
            Request::Follow(topic, channel, operation, reply) => {
                reply.send(self.follow(&topic, channel.as_ref(), operation));
            }
            Request::Hear(teller, reply) => {
                self.topics.table.hear(teller);
                reply.done();
            }
            Request::SetContract(declared, reply) => {
                // What topics that are gone had declared is free, on all reactors, before anything is declared here.
                self.carry_out_effects();
                reply.send(self.topics.set_contract(&declared, self.time.now));
            }
            Request::DeclareShare(topic, share, reply) => {
                self.carry_out_effects();
                self.declare_elsewhere(&topic, share);
                reply.done();
            }
            Request::Join(group, reply) => {
                self.topics.table.join(group, self.time.now);
                reply.done();
            }
            Request::Prolong(by, reply) => {
                self.topics.table.prolong_leases(by, self.time.now);
                reply.done();
            }
            Request::Deliver(dialled, reply) => reply.send(self.hall().begin_delivery(*dialled)),
            Request::SetIdentifiers(identifiers, reply) => {
                self.topics.identifiers = identifiers;
                reply.done();
            }
            Request::Migrate(topic, moves, reply) => {
                self.hall().publishers().move_publishers(&topic, &moves);
                reply.done();
            }
            Request::RememberTraffic(length, reply) => {
                self.topics.table.set_history_length(length);
                reply.done();
            }
            Request::Grant(grants, reply) => {
                self.time.look();
                let (table, now) = (&mut self.topics.table, self.time.now);
                reply.send(Ok(observe::grant(table, grants, now)));
            }
            Request::Observe(request) => {
                observe::observe(&mut self.topics.table, request, self.time.now);
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
        topic: TopicName,
        bodies: Vec<Bytes>,
        delay: Duration,
        reply: Reply<()>,
    ) {
        let request = Box::new(WaitingRequest {
            bodies,
            arrival: self.time.arrival_now(),
            delay,
            reply,
        });
        let task = self.topics.task_of_name(&topic);
        let mail = TopicMail::Request(topic, request);
        self.topics.schedule.notice_mail(task, mail);
    }

    /// Who orders it is not told of it.
    fn follow(
        &mut self,
        topic: &TopicName,
        channel: Option<&ChannelName>,
        operation: Operation,
    ) -> Result<(), BrokerError> {
        self.topics.table.begin_order();
        let followed = match channel {
            None => self.operate(topic, operation),
            Some(channel) => self.topics.operate_channel(topic, channel, operation),
        };
        self.topics.table.end_order();
        followed
    }

    fn operate(&mut self, topic: &TopicName, operation: Operation) -> Result<(), BrokerError> {
        self.topics.operate(topic, operation)?;
        if operation == Operation::Delete {
            self.carry_out_effects();
        }
        Ok(())
    }
}
