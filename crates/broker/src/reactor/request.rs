//! Questions and orders that come through the handle.

use topics::KnownTopic;
use wire::{ChannelName, TopicName};

use super::Reactor;
use super::held::HeldRequest;
use super::inbox::TopicMail;
use crate::BrokerError;
use crate::handle::{Answer, Declaration, HandoverRequest, Operation, Reply, Request};

impl Reactor {
    pub(super) fn answer(&mut self, request: Request, reply: Reply) {
        let answer = match request {
            Request::Publish {
                topic,
                bodies,
                delay,
            } => {
                let arrival = self.arrival_now();
                let request = HeldRequest {
                    bodies,
                    arrival,
                    delay,
                    reply,
                };
                return self.wait_for_turn(topic, Box::new(request));
            }
            Request::Stats(_)
            | Request::Tasks
            | Request::Catalog
            | Request::Inventory
            | Request::EndInterval(_)
            | Request::Report(_) => return self.begin_survey(request, reply),
            Request::Topic(topic, operation) => self.operate_topic(&topic, operation),
            Request::Channel(topic, channel, operation) => {
                self.operate_channel(&topic, &channel, operation)
            }
            Request::Learn(known) => self.learn(&known),
            Request::Answered(topic) => {
                self.table.answered(&topic);
                Ok(Answer::Done)
            }
            Request::Follow(topic, channel, operation) => {
                self.follow(&topic, channel.as_ref(), operation)
            }
            Request::Hear(teller) => {
                self.table.hear(teller);
                Ok(Answer::Done)
            }
            Request::SetContract(declared) => self.set_contract(&declared),
            Request::DeclareShare(topic, share) => {
                self.declare_share(&topic, share);
                Ok(Answer::Done)
            }
            Request::Join(group) => {
                self.table.join(group, self.now);
                Ok(Answer::Done)
            }
            Request::Handover(request) => Ok(self.hand_queues_over(request)),
            Request::Prolong(by) => match self.table.prolong_leases(by, self.now) {
                true => return self.begin_survey(request, reply),
                false => Ok(Answer::Done),
            },
            Request::Grant(grants) => Ok(self.grant(grants)),
            Request::RememberTraffic(window) => Ok(self.remember_traffic(window)),
            Request::BeginWindow(topic, order) => self.begin_window(&topic, order),
            Request::EndWindow(topic) => self.end_window(&topic),
            Request::BeginRecording(topic) => self.begin_recording(&topic),
            Request::EndRecording(topic) => self.end_recording(&topic),
            Request::Deliver(delivery) => self.begin_delivery(*delivery),
            Request::SetIdentifiers(identifiers) => {
                self.identifiers = identifiers;
                Ok(Answer::Done)
            }
            Request::Releases(topic) => self.releases(&topic),
            Request::Migrate(topic, moves) => Ok(self.migrate(&topic, &moves)),
        };
        // Whoever asked may have gone; then nobody misses the answer.
        let _ = reply.send(answer);
    }

    /// Publishing is for the topic's task to do.
    fn wait_for_turn(&mut self, topic: TopicName, request: Box<HeldRequest>) {
        let task = self.task_of_name(&topic);
        let mail = TopicMail::Request(topic, request);
        self.schedule.notice_mail(task, mail);
    }

    fn hand_queues_over(&mut self, request: HandoverRequest) -> Answer {
        let now = self.now;
        match request {
            HandoverRequest::Stranded(patience) => {
                Answer::Stranded(self.table.stranded(patience, now))
            }
            HandoverRequest::Lift(queue, patience) => {
                Answer::Lifted(self.table.lift(&queue, patience, now))
            }
            HandoverRequest::Settle(queue, is_taken) => {
                self.table.settle(&queue, is_taken, now);
                Answer::Done
            }
            HandoverRequest::TakeOver(queue, batch) => {
                Answer::TakenOver(self.table.take_over(&queue, &batch, now))
            }
        }
    }

    fn learn(&mut self, known: &KnownTopic) -> Result<Answer, BrokerError> {
        let learned = self.table.learn(known);
        learned
            .map(Answer::Learned)
            .map_err(|refusal| BrokerError::Refused(refusal.to_string()))
    }

    /// Who orders it is not told of it.
    fn follow(
        &mut self,
        topic: &TopicName,
        channel: Option<&ChannelName>,
        operation: Operation,
    ) -> Result<Answer, BrokerError> {
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
    ) -> Result<Answer, BrokerError> {
        if operation == Operation::Create {
            let made = self.table.find_or_create(topic.as_str());
            return made
                .map(|_| Answer::Done)
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
        Ok(Answer::Done)
    }

    fn operate_channel(
        &mut self,
        topic: &TopicName,
        channel: &ChannelName,
        operation: Operation,
    ) -> Result<Answer, BrokerError> {
        let key = self
            .table
            .find(topic.as_str())
            .ok_or_else(|| BrokerError::TopicNotFound(topic.to_string()))?;
        if operation == Operation::Create {
            let made = self.table.find_or_create_channel(key, channel);
            return made
                .map(|_| Answer::Done)
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
        Ok(Answer::Done)
    }

    /// The share goes first: it is the one that may be refused.
    fn set_contract(&mut self, declared: &Declaration) -> Result<Answer, BrokerError> {
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
        self.table.set_shared_limit(key, limit, number, self.now);
        Ok(Answer::Done)
    }
}
