//! Orders of a control plane: shares, profiling windows; recordings; and what tests ask.

use clock::Instant;
use limit::Grant;
use wire::TopicName;

use super::Hosted;
use crate::BrokerError;
use crate::handle::ObserveRequest;
use crate::window::{TraceResult, WindowOrder, WindowResult};

impl Hosted {
    /// A grant that is out of date changes nothing, and the next report gets another.
    pub(in crate::reactor) fn grant(
        &mut self,
        mut grants: Vec<(TopicName, Grant)>,
        now: Instant,
    ) -> Vec<TopicName> {
        grants.retain(|(topic, grant)| {
            let key = self.table.find(topic.as_str());
            !key.is_some_and(|key| self.table.grant(key, grant, now))
        });
        grants.into_iter().map(|(topic, _)| topic).collect()
    }

    /// Does something about what is written down of a topic's messages.
    pub(in crate::reactor) fn observe(&mut self, request: ObserveRequest, now: Instant) {
        match request {
            ObserveRequest::BeginWindow(topic, order, reply) => {
                reply.send(self.begin_window(&topic, order, now));
            }
            ObserveRequest::EndWindow(topic, reply) => reply.send(self.end_window(&topic, now)),
            ObserveRequest::BeginRecording(topic, reply) => {
                reply.send(self.begin_recording(&topic, now));
            }
            ObserveRequest::EndRecording(topic, reply) => {
                reply.send(self.end_recording(&topic, now))
            }
            ObserveRequest::Releases(topic, reply) => reply.send(self.releases(&topic)),
        }
    }

    fn releases(&mut self, topic: &TopicName) -> Result<Vec<u64>, BrokerError> {
        let no_topic = || BrokerError::TopicNotFound(topic.to_string());
        let key = self.table.find(topic.as_str()).ok_or_else(no_topic)?;
        Ok(self.table.take_releases(key))
    }

    fn begin_window(
        &mut self,
        topic: &TopicName,
        order: WindowOrder,
        now: Instant,
    ) -> Result<(), BrokerError> {
        let no_topic = || BrokerError::TopicNotFound(topic.to_string());
        let key = self.table.find(topic.as_str()).ok_or_else(no_topic)?;
        self.table.begin_window(key, &order, now);
        Ok(())
    }

    fn end_window(
        &mut self,
        topic: &TopicName,
        now: Instant,
    ) -> Result<Box<WindowResult>, BrokerError> {
        let no_window = || BrokerError::TopicNotFound(topic.to_string());
        let key = self.table.find(topic.as_str()).ok_or_else(no_window)?;
        let window = self.table.end_window(key, now);
        window.map(Box::new).ok_or_else(no_window)
    }

    fn begin_recording(&mut self, topic: &TopicName, now: Instant) -> Result<(), BrokerError> {
        let no_topic = || BrokerError::TopicNotFound(topic.to_string());
        let key = self.table.find(topic.as_str()).ok_or_else(no_topic)?;
        self.table.begin_recording(key, now);
        Ok(())
    }

    fn end_recording(
        &mut self,
        topic: &TopicName,
        now: Instant,
    ) -> Result<Box<TraceResult>, BrokerError> {
        let no_recording = || BrokerError::TopicNotFound(topic.to_string());
        let key = self.table.find(topic.as_str()).ok_or_else(no_recording)?;
        let recording = self.table.end_recording(key, now);
        recording.map(Box::new).ok_or_else(no_recording)
    }
}
