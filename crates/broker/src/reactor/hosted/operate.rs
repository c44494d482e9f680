//! Operations on topics and channels from outside, and questions about them.

use std::net::IpAddr;

use clock::Instant;
use topics::{KnownTopic, Published};
use wire::{ChannelName, TopicName};

use super::Hosted;
use crate::BrokerError;
use crate::handle::{HandoverRequest, Operation};
use crate::reactor::durable::Undurable;

impl Hosted {
    /// Carries out an operation on a topic. The consequences of its end are left in the table's
    /// effects.
    pub(in crate::reactor) fn operate(
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
            Operation::Delete => self.table.delete(key),
            Operation::Empty => self.table.empty(key),
            Operation::Pause => self.table.pause(key, true),
            Operation::Unpause => self.table.pause(key, false),
        }
        Ok(())
    }

    /// Makes a topic, or a channel of one that is there, for `maker`.
    pub(in crate::reactor) fn make(
        &mut self,
        maker: Option<IpAddr>,
        topic: &TopicName,
        channel: Option<&ChannelName>,
        now: Instant,
    ) -> Result<(), BrokerError> {
        self.table.make_for(maker, now);
        let made = match channel {
            None => self.operate(topic, Operation::Create),
            Some(channel) => self.operate_channel(topic, channel, Operation::Create),
        };
        self.table.make_for(None, now);
        made
    }

    /// Does something to a channel.
    pub(in crate::reactor) fn operate_channel(
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

    /// Makes what was said of a topic; says whether it is here.
    pub(in crate::reactor) fn learn(&mut self, known: &KnownTopic) -> Result<bool, BrokerError> {
        let learned = self.table.learn(known);
        learned.map_err(|refusal| BrokerError::Refused(refusal.to_string()))
    }

    /// Does something about queues that are handed over.
    pub(in crate::reactor) fn hand_over(&mut self, request: HandoverRequest, now: Instant) {
        let table = &mut self.table;
        match request {
            HandoverRequest::Lift(queue, patience, reply) => {
                reply.send(Ok(table.lift(&queue, patience, now)));
            }
            HandoverRequest::Settle(queue, is_taken, reply) => {
                table.settle(&queue, is_taken, now);
                reply.done();
            }
            HandoverRequest::TakeOver(queue, batch, reply) => {
                let taken = table.take_over(&queue, &batch, now);
                let key = table.find(queue.topic.as_str());
                match (taken, key) {
                    (Ok(Published::Logged(number)), Some(key)) => {
                        self.waiters.push(key, number, Undurable::Handed(reply));
                    }
                    (taken, _) => reply.send(Ok(taken.map(drop))),
                }
            }
        }
    }
}
