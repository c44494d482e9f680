//! Orders of a control plane: shares, profiling windows; recordings; and what tests ask.

use limit::Grant;
use wire::TopicName;

use super::Reactor;
use crate::BrokerError;
use crate::handle::ObserveRequest;
use crate::window::{TraceResult, WindowOrder, WindowResult};

impl Reactor {
    /// A grant that is out of date changes nothing, and the next report gets another.
    pub(super) fn grant(&mut self, mut grants: Vec<(TopicName, Grant)>) -> Vec<TopicName> {
        self.time.look();
        grants.retain(|(topic, grant)| {
            let key = self.table.find(topic.as_str());
            !key.is_some_and(|key| self.table.grant(key, grant, self.time.now))
        });
        grants.into_iter().map(|(topic, _)| topic).collect()
    }

    /// Does something about what is written down of a topic's messages.
    pub(super) fn observe(&mut self, request: ObserveRequest) {
        match request {
            ObserveRequest::BeginWindow(topic, order, reply) => {
                reply.send(self.begin_window(&topic, order));
            }
            ObserveRequest::EndWindow(topic, reply) => reply.send(self.end_window(&topic)),
            ObserveRequest::BeginRecording(topic, reply) => {
                reply.send(self.begin_recording(&topic));
            }
            ObserveRequest::EndRecording(topic, reply) => reply.send(self.end_recording(&topic)),
            ObserveRequest::Releases(topic, reply) => reply.send(self.releases(&topic)),
        }
    }

    fn releases(&mut self, topic: &TopicName) -> Result<Vec<u64>, BrokerError> {
        let no_topic = || BrokerError::TopicNotFound(topic.to_string());
        let key = self.table.find(topic.as_str()).ok_or_else(no_topic)?;
        Ok(self.table.take_releases(key))
    }

    fn begin_window(&mut self, topic: &TopicName, order: WindowOrder) -> Result<(), BrokerError> {
        let no_topic = || BrokerError::TopicNotFound(topic.to_string());
        let key = self.table.find(topic.as_str()).ok_or_else(no_topic)?;
        self.table.begin_window(key, &order, self.time.now);
        Ok(())
    }

    fn end_window(&mut self, topic: &TopicName) -> Result<Box<WindowResult>, BrokerError> {
        let no_window = || BrokerError::TopicNotFound(topic.to_string());
        let key = self.table.find(topic.as_str()).ok_or_else(no_window)?;
        let window = self.table.end_window(key, self.time.now);
        window.map(Box::new).ok_or_else(no_window)
    }

    fn begin_recording(&mut self, topic: &TopicName) -> Result<(), BrokerError> {
        let no_topic = || BrokerError::TopicNotFound(topic.to_string());
        let key = self.table.find(topic.as_str()).ok_or_else(no_topic)?;
        self.table.begin_recording(key, self.time.now);
        Ok(())
    }

    fn end_recording(&mut self, topic: &TopicName) -> Result<Box<TraceResult>, BrokerError> {
        let no_recording = || BrokerError::TopicNotFound(topic.to_string());
        let key = self.table.find(topic.as_str()).ok_or_else(no_recording)?;
        let recording = self.table.end_recording(key, self.time.now);
        recording.map(Box::new).ok_or_else(no_recording)
    }
}
