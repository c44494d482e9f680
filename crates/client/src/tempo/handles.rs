//! A program's handles to its publications, subscriptions and timers. Dropping a handle ends what
//! it stands for.
//!
//! Handles refer to their endpoint weakly: a callback may own one without keeping the endpoint
//! alive.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use wire::TopicName;

use super::inbox::Inbox;
use super::monotonic::now;
use super::node::{LINGER, Shared, is_scheduling};
use super::publication::{self, Outbox, PublicationCounts, Put};
use super::subscription::{self, SubscriptionCounts};
use super::timer::{self, Due, TimerCounts};
use crate::echo::{EchoListener, MARK_BYTES};
use crate::error::ClientError;

/// Publishes one topic. Any number of threads may share it.
///
/// Dropping it waits up to a second for what was published to be written, unless it is dropped within a callback.
pub struct TopicPublisher {
    topic: TopicName,
    inbox: Arc<Inbox<publication::Event>>,
    outbox: Arc<Outbox>,
    shared: Weak<Shared>,
}

/// A subscription that lasts as long as this is held. After it is dropped the callback runs once more at most.
#[must_use = "dropping it ends the subscription"]
pub struct Subscription {
    topic: TopicName,
    inbox: Arc<Inbox<subscription::Event>>,
    tally: Arc<subscription::Tally>,
    shared: Weak<Shared>,
}

/// A timer that goes off as long as this is held. After it is dropped the callback runs once more at most.
#[must_use = "dropping it ends the timer"]
pub struct Timer {
    number: usize,
    inbox: Arc<Inbox<Due>>,
    tally: Arc<timer::Tally>,
    shared: Weak<Shared>,
}

impl TopicPublisher {
    pub(super) fn new(
        topic: TopicName,
        inbox: Arc<Inbox<publication::Event>>,
        outbox: Arc<Outbox>,
        shared: &Arc<Shared>,
    ) -> Self {
        TopicPublisher {
            topic,
            inbox,
            outbox,
            shared: Arc::downgrade(shared),
        }
    }

    /// Publishes one message: puts it into the publication's queue. Where that is full it waits or drops the message, as the
    /// options say.
    ///
    /// # Errors
    /// [`ClientError::TooLong`]; [`ClientError::OverLimit`] where the topic's limit rejects; [`ClientError::Full`] in a
    /// callback, which must not wait; [`ClientError::Ended`]. The message was not taken.
    #[inline]
    pub fn publish(&self, body: &[u8]) -> Result<(), ClientError> {
        match self.outbox.put(body, &self.inbox, !is_scheduling(), now)? {
            Put::First => self.inbox.put(publication::Event::Write),
            Put::Behind | Put::Dropped => {}
        }
        Ok(())
    }

    /// Publishes a message that is marked for an echo if `listener` draws it ([`crate::echo`]); subscribers pass what they get
    /// through an [`crate::Echoer`].
    ///
    /// # Errors
    /// As [`TopicPublisher::publish`].
    pub fn publish_marked(
        &self,
        body: &[u8],
        listener: &mut EchoListener,
    ) -> Result<(), ClientError> {
        let mut marked = Vec::with_capacity(body.len() + MARK_BYTES);
        marked.extend_from_slice(body);
        listener.mark(&mut marked);
        self.publish(&marked)
    }

    /// Waits until all that was published was written to the subscribers' connections, or found no subscriber; says whether
    /// it was. Written is not received.
    #[must_use]
    pub fn flush(&self, timeout: Duration) -> bool {
        self.outbox.wait_until_written(timeout)
    }

    /// Subscribers that messages go to at the moment: a broker counts as one.
    #[must_use]
    pub fn subscribers(&self) -> usize {
        self.outbox.subscribers()
    }

    /// Waits until messages go to somebody; says whether they do.
    #[must_use]
    pub fn wait_for_subscriber(&self, timeout: Duration) -> bool {
        self.outbox.wait_for_subscriber(timeout)
    }

    /// The topic.
    #[must_use]
    pub fn topic(&self) -> &TopicName {
        &self.topic
    }

    /// Its counts so far.
    #[must_use]
    pub fn counts(&self) -> PublicationCounts {
        self.outbox.counts()
    }
}

impl Subscription {
    pub(super) fn new(
        topic: TopicName,
        inbox: Arc<Inbox<subscription::Event>>,
        tally: Arc<subscription::Tally>,
        shared: &Arc<Shared>,
    ) -> Self {
        Subscription {
            topic,
            inbox,
            tally,
            shared: Arc::downgrade(shared),
        }
    }

    /// The topic.
    #[must_use]
    pub fn topic(&self) -> &TopicName {
        &self.topic
    }

    /// Its counts so far.
    #[must_use]
    pub fn counts(&self) -> SubscriptionCounts {
        self.tally.counts()
    }
}

impl Timer {
    pub(super) fn new(
        number: usize,
        inbox: Arc<Inbox<Due>>,
        tally: Arc<timer::Tally>,
        shared: &Arc<Shared>,
    ) -> Self {
        Timer {
            number,
            inbox,
            tally,
            shared: Arc::downgrade(shared),
        }
    }

    /// Its counts so far.
    #[must_use]
    pub fn counts(&self) -> TimerCounts {
        self.tally.counts()
    }
}

impl Drop for TopicPublisher {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        if !is_scheduling() {
            self.outbox.wait_until_written(LINGER);
        }
        self.outbox.close();
        let topic = &self.topic;
        shared.control.state().remove_publication(topic, now());
        shared.control.look();
        // Outside the lock: what the task owns ends with it.
        self.inbox.close();
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        let topic = &self.topic;
        shared.control.state().remove_subscription(topic, now());
        shared.control.look();
        // Outside the lock: the callback is dropped here, and may own publications.
        self.inbox.close();
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        shared.timers().try_remove(self.number);
        self.inbox.close();
    }
}

impl fmt::Debug for TopicPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopicPublisher")
            .field("topic", &self.topic)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("topic", &self.topic)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer")
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}
