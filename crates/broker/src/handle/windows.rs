//! Profiling windows and recordings of a topic's arrivals.

use wire::TopicName;

use super::{Handle, ObserveRequest, Request};
use crate::BrokerError;
use crate::window::{TraceResult, WindowOrder, WindowResult};

impl Handle {
    /// Begins a profiling window for a topic; one that is open is thrown away.
    ///
    /// # Errors
    /// [`BrokerError::TopicNotFound`].
    pub async fn begin_window(
        &self,
        topic: TopicName,
        order: WindowOrder,
    ) -> Result<(), BrokerError> {
        let home = self.home_of(&topic);
        self.reactors
            .ask(home, |reply| {
                Request::Observe(ObserveRequest::BeginWindow(topic, order, reply))
            })
            .await
    }

    /// Ends the profiling window of a topic. The trace it brings is in order of arrival.
    ///
    /// # Errors
    /// [`BrokerError::TopicNotFound`] also where no window is open.
    pub async fn end_window(&self, topic: TopicName) -> Result<WindowResult, BrokerError> {
        let home = self.home_of(&topic);
        let mut window = self
            .reactors
            .ask(home, |reply| {
                Request::Observe(ObserveRequest::EndWindow(topic, reply))
            })
            .await?;
        // Here and not in the reactor, which has messages waiting.
        window.arrivals.sort_unstable();
        Ok(*window)
    }

    /// Begins to record a topic's arrivals; a recording that is open is thrown away. A profiling window may be
    /// open at the same time: neither meets the other.
    ///
    /// # Errors
    /// [`BrokerError::TopicNotFound`].
    pub async fn begin_recording(&self, topic: TopicName) -> Result<(), BrokerError> {
        let home = self.home_of(&topic);
        self.reactors
            .ask(home, |reply| {
                Request::Observe(ObserveRequest::BeginRecording(topic, reply))
            })
            .await
    }

    /// Ends the recording of a topic's arrivals, which are in order of arrival.
    ///
    /// # Errors
    /// [`BrokerError::TopicNotFound`] also where no recording is open.
    pub async fn end_recording(&self, topic: TopicName) -> Result<TraceResult, BrokerError> {
        let home = self.home_of(&topic);
        let mut recording = self
            .reactors
            .ask(home, |reply| {
                Request::Observe(ObserveRequest::EndRecording(topic, reply))
            })
            .await?;
        // Here and not in the reactor, as for windows.
        recording.arrivals.sort_unstable();
        Ok(*recording)
    }
}
