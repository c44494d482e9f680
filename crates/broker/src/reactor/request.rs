//! Questions and orders that come through the handle.

use topics::KnownTopic;
use wire::{ChannelName, TopicName};

use super::Reactor;
use super::held::HeldRequest;
use super::inbox::TopicMail;
use crate::BrokerError;
use crate::handle::{Declaration, HandoverRequest, Operation, Request};

impl Reactor {
    pub(super) fn answer(&mut self, request: Request) {
        match request {
            Request::Publish {
                topic,
                bodies,
                delay,
                reply,
            } => {
                let arrival = self.time.arrival_now();
                let request = HeldRequest {
                    bodies,
                    arrival,
                    delay,
                    reply,
                };
                self.wait_for_turn(topic, Box::new(request));
            }
            Request::Survey(question) => self.begin_survey(question),
            Request::Handover(request) => self.hand_queues_over(request),
            Request::Topic(topic, operation, reply) => {
                reply.send(self.operate_topic(&topic, operation));
            }
            Request::Channel(topic, channel, operation, reply) => {
                reply.send(self.operate_channel(&topic, &channel, operation));
            }
            Request::Learn(known, reply) => reply.send(self.learn(&known)),
            Request::Answered(topic, reply) => {
                self.table.answered(&topic);
                reply.done();
            }
            Request::Follow(topic, channel, operation, reply) => {
                reply.send(self.follow(&topic, channel.as_ref(), operation));
            }
            Request::Hear(teller, reply) => {
                self.table.hear(teller);
                reply.done();
            }
            Request::SetContract(declared, reply) => reply.send(self.set_contract(&declared)),
            Request::DeclareShare(topic, share, reply) => {
                self.declare_share(&topic, share);
                reply.done();
            }
            Request::Join(group, reply) => {
                self.table.join(group, self.time.now);
                reply.done();
            }
            Request::Prolong(by, reply) => match self.table.prolong_leases(by, self.time.now) {
                true => self.survey_leases(reply),
                false => reply.done(),
            },
            Request::Deliver(delivery, reply) => reply.send(self.begin_delivery(*delivery)),
            Request::SetIdentifiers(identifiers, reply) => {
                self.identifiers = identifiers;
                reply.done();
            }
            Request::Migrate(topic, moves, reply) => {
                self.move_publishers(&topic, &moves);
                reply.done();
            }
            Request::RememberTraffic(window, reply) => {
                self.table.history_window = window;
                reply.done();
            }
            Request::Grant(grants, reply) => reply.send(Ok(self.grant(grants))),
            Request::Observe(request) => self.observe(request),
        }
    }

    /// Publishing is for the topic's task to do.
    fn wait_for_turn(&mut self, topic: TopicName, request: Box<HeldRequest>) {
        let task = self.task_of_name(&topic);
        let mail = TopicMail::Request(topic, request);
        self.schedule.notice_mail(task, mail);
    }

    fn hand_queues_over(&mut self, request: HandoverRequest) {
        let (table, now) = (&mut self.table, self.time.now);
        match request {
            HandoverRequest::Stranded(patience, reply) => {
                reply.send(Ok(table.stranded(patience, now)));
            }
            HandoverRequest::Lift(queue, patience, reply) => {
                reply.send(Ok(table.lift(&queue, patience, now)));
            }
            HandoverRequest::Settle(queue, is_taken, reply) => {
                table.settle(&queue, is_taken, now);
                reply.done();
            }
            HandoverRequest::TakeOver(queue, batch, reply) => {
                reply.send(Ok(table.take_over(&queue, &batch, now)));
            }
        }
    }

    fn learn(&mut self, known: &KnownTopic) -> Result<bool, BrokerError> {
        let learned = self.table.learn(known);
        learned.map_err(|refusal| BrokerError::Refused(refusal.to_string()))
    }

    /// Who orders it is not told of it.
    fn follow(
        &mut self,
        topic: &TopicName,
        channel: Option<&ChannelName>,
        operation: Operation,
    ) -> Result<(), BrokerError> {
        self.table.begin_order();
        let followed = match channel {
            None => self.operate_topic(topic, operation),
            Some(channel) => self.operate_channel(topic, channel, operation),
        };
        self.table.end_order();
        followed
    }

    fn operate_topic(
        &mut self,
        topic: &TopicName,
        operation: Operation,
    ) -> Result<(), BrokerError> {
        if operation == Operation::Create {
            let made = self.table.find_or_create(topic.as_str());
            return made
                .map(|_| ())
                .map_err(|refusal| BrokerError::Refused(refusal.to_string()));
        }
        let key = self
            .table
            .find(topic.as_str())
            .ok_or_else(|| BrokerError::TopicNotFound(topic.to_string()))?;
        match operation {
            Operation::Create => {}
            Operation::Delete => {
                self.table.delete(key);
                self.carry_out_effects();
            }
            Operation::Empty => self.table.empty(key),
            Operation::Pause => self.table.pause(key, true),
            Operation::Unpause => self.table.pause(key, false),
        }
        Ok(())
    }

    fn operate_channel(
        &mut self,
        topic: &TopicName,
        channel: &ChannelName,
        operation: Operation,
    ) -> Result<(), BrokerError> {
        let key = self
            .table
            .find(topic.as_str())
            .ok_or_else(|| BrokerError::TopicNotFound(topic.to_string()))?;
        if operation == Operation::Create {
            let made = self.table.find_or_create_channel(key, channel);
            return made
                .map(|_| ())
                .map_err(|refusal| BrokerError::Refused(refusal.to_string()));
        }
        let key = self
            .table
            .find_channel(key, channel)
            .ok_or_else(|| BrokerError::ChannelNotFound(channel.to_string()))?;
        match operation {
            Operation::Create => {}
            Operation::Delete => self.table.delete_channel(key),
            Operation::Empty => self.table.empty_channel(key),
            Operation::Pause => self.table.pause_channel(key, true),
            Operation::Unpause => self.table.pause_channel(key, false),
        }
        Ok(())
    }

    /// The share goes first: it is the one that may be refused.
    fn set_contract(&mut self, declared: &Declaration) -> Result<(), BrokerError> {
        let (topic, contract) = (&declared.topic, declared.contract);
        let is_new = self.table.find(topic.as_str()).is_none();
        if is_new && contract.is_empty() {
            return Err(BrokerError::TopicNotFound(topic.to_string()));
        }
        if !is_new || contract.cpu_share.is_some() {
            let set = self.set_cpu_share(topic, contract.cpu_share);
            if set.is_err()
                && is_new
                && let Some(key) = self.table.find(topic.as_str())
            {
                self.table.delete(key);
            }
            set?;
        }
        let made = self.table.find_or_create(topic.as_str());
        let key = made.map_err(|refusal| BrokerError::Refused(refusal.to_string()))?;
        let (limit, number) = (contract.limit, declared.number);
        self.table.set_on_full(key, contract.on_full);
        self.table
            .set_shared_limit(key, limit, number, self.time.now);
        Ok(())
    }
}
