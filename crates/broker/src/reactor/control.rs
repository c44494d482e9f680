//! Orders of a control plane: shares, reports, profiling windows, migration.

use limit::Grant;
use link::Move;
use wire::TopicName;

use super::Reactor;
use crate::BrokerError;
use crate::handle::Answer;
use crate::window::{ReactorReport, WindowOrder};

impl Reactor {
    pub(super) fn grant(&mut self, topic: &TopicName, grant: Grant) -> Result<Answer, BrokerError> {
        let _ = (topic, grant);
        Ok(Answer::Done)
    }

    pub(super) fn report(&mut self, number: u64, is_first: bool) -> Answer {
        let _ = (number, is_first);
        Answer::Report(Box::<ReactorReport>::default())
    }

    pub(super) fn begin_window(
        &mut self,
        topic: &TopicName,
        order: WindowOrder,
    ) -> Result<Answer, BrokerError> {
        let _ = (topic, order);
        Ok(Answer::Done)
    }

    pub(super) fn end_window(&mut self, topic: &TopicName) -> Result<Answer, BrokerError> {
        Err(BrokerError::TopicNotFound(topic.to_string()))
    }

    pub(super) fn migrate(&mut self, topic: &TopicName, moves: &[Move]) -> Answer {
        let _ = (topic, moves);
        Answer::Done
    }
}
