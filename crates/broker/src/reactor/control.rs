//! Orders of a control plane: shares, reports, profiling windows, migration; recordings; and what tests ask.

use limit::Grant;
use limit::adaptor::Window;
use link::Move;
use wire::TopicName;

use super::Reactor;
use crate::handle::Answer;
use crate::window::WindowOrder;
use crate::{BrokerError, sys};

impl Reactor {
    /// A grant that is out of date changes nothing, and the next report gets another.
    pub(super) fn grant(&mut self, mut grants: Vec<(TopicName, Grant)>) -> Answer {
        self.now = sys::monotonic_now();
        grants.retain(|(topic, grant)| {
            let key = self.table.find(topic.as_str());
            !key.is_some_and(|key| self.table.grant(key, grant, self.now))
        });
        Answer::Ungranted(grants.into_iter().map(|(topic, _)| topic).collect())
    }

    pub(super) fn remember_traffic(&mut self, window: Window) -> Answer {
        self.table.set_history_window(window);
        Answer::Done
    }

    pub(super) fn releases(&mut self, topic: &TopicName) -> Result<Answer, BrokerError> {
        let no_topic = || BrokerError::TopicNotFound(topic.to_string());
        let key = self.table.find(topic.as_str()).ok_or_else(no_topic)?;
        Ok(Answer::Releases(self.table.take_releases(key)))
    }

    pub(super) fn begin_window(
        &mut self,
        topic: &TopicName,
        order: WindowOrder,
    ) -> Result<Answer, BrokerError> {
        let no_topic = || BrokerError::TopicNotFound(topic.to_string());
        let key = self.table.find(topic.as_str()).ok_or_else(no_topic)?;
        self.table.begin_window(key, &order, self.now);
        Ok(Answer::Done)
    }

    pub(super) fn end_window(&mut self, topic: &TopicName) -> Result<Answer, BrokerError> {
        let no_window = || BrokerError::TopicNotFound(topic.to_string());
        let key = self.table.find(topic.as_str()).ok_or_else(no_window)?;
        let window = self.table.end_window(key, self.now);
        let window = window.ok_or_else(no_window)?;
        Ok(Answer::Window(Box::new(window)))
    }

    pub(super) fn begin_recording(&mut self, topic: &TopicName) -> Result<Answer, BrokerError> {
        let no_topic = || BrokerError::TopicNotFound(topic.to_string());
        let key = self.table.find(topic.as_str()).ok_or_else(no_topic)?;
        self.table.begin_recording(key, self.now);
        Ok(Answer::Done)
    }

    pub(super) fn end_recording(&mut self, topic: &TopicName) -> Result<Answer, BrokerError> {
        let no_recording = || BrokerError::TopicNotFound(topic.to_string());
        let key = self.table.find(topic.as_str()).ok_or_else(no_recording)?;
        let recording = self.table.end_recording(key, self.now);
        let recording = recording.ok_or_else(no_recording)?;
        Ok(Answer::Recording(Box::new(recording)))
    }

    pub(super) fn migrate(&mut self, topic: &TopicName, moves: &[Move]) -> Answer {
        self.move_publishers(topic, moves);
        Answer::Done
    }
}
