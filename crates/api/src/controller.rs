//! The controller's API, value for value. `docs/control-api.md` has its meaning.

use crate::view::{
    BrokerView, BrokerViews, ChannelViews, PlacementView, PublisherViews, TopicSpec, TopicView,
    TopicViews,
};
use crate::{ApiError, Bounds, Client, Target, Token, Trust};

/// A controller, or several of which one leads. Every function fails with the [`ApiError`] of its question.
#[derive(Clone, Debug)]
pub struct Controller {
    client: Client,
}

#[allow(
    clippy::missing_errors_doc,
    reason = "the type says it for all of them"
)]
impl Controller {
    /// The one at `base`, such as `http://127.0.0.1:4180`; the scheme may be left out, and several have commas between them. No
    /// connection is made yet.
    #[must_use]
    pub fn new(base: &str) -> Controller {
        Controller {
            client: Client::new(base, Bounds::default()),
        }
    }

    /// The same where it speaks HTTPS ([`Client::trusting`]).
    #[must_use]
    pub fn trusting(base: &str, trust: Option<&Trust>) -> Controller {
        Controller {
            client: Client::trusting(base, Bounds::default(), trust),
        }
    }

    /// The same, showing this token, if there is one.
    #[must_use]
    pub fn with_token(self, token: Option<Token>) -> Controller {
        Controller {
            client: self.client.with_token(token),
        }
    }

    /// All topics, in order of name.
    pub fn topics(&self) -> Result<Vec<TopicView>, ApiError> {
        let views: TopicViews = self.client.get(&Target::new("/v1/topics"))?;
        Ok(views.topics)
    }

    /// A topic as it stands.
    pub fn topic(&self, topic: &str) -> Result<TopicView, ApiError> {
        self.client.get(&of_topic(topic))
    }

    /// Declares a topic.
    pub fn put_topic(&self, topic: &str, spec: &TopicSpec) -> Result<TopicView, ApiError> {
        self.client.put(&of_topic(topic), spec)
    }

    /// Removes a topic's contract and publishers.
    pub fn remove_topic(&self, topic: &str) -> Result<(), ApiError> {
        self.client.delete(&of_topic(topic))
    }

    /// A topic's channels, over all brokers.
    pub fn channels(&self, topic: &str) -> Result<ChannelViews, ApiError> {
        self.client.get(&of_topic(topic).then("/channels"))
    }

    /// Where a topic is, or would be.
    pub fn placement(&self, topic: &str) -> Result<PlacementView, ApiError> {
        self.client.get(&of_topic(topic).then("/placement"))
    }

    /// A topic's publishers.
    pub fn publishers(&self, topic: &str) -> Result<PublisherViews, ApiError> {
        self.client.get(&of_publishers(topic))
    }

    /// Removes a publisher.
    pub fn remove_publisher(&self, topic: &str, id: &str) -> Result<(), ApiError> {
        self.client.delete(&of_publishers(topic).segment(id))
    }

    /// All brokers, in order of name.
    pub fn brokers(&self) -> Result<Vec<BrokerView>, ApiError> {
        let views: BrokerViews = self.client.get(&Target::new("/v1/brokers"))?;
        Ok(views.brokers)
    }

    /// Moves all publishers away from a broker and gives it no more.
    pub fn drain(&self, broker: &str) -> Result<BrokerView, ApiError> {
        self.client.order(&of_broker(broker).then("/drain"))
    }

    /// Ends a drain.
    pub fn resume(&self, broker: &str) -> Result<BrokerView, ApiError> {
        self.client.order(&of_broker(broker).then("/resume"))
    }
}

fn of_topic(topic: &str) -> Target {
    Target::new("/v1/topics").segment(topic)
}

fn of_publishers(topic: &str) -> Target {
    of_topic(topic).then("/publishers")
}

fn of_broker(broker: &str) -> Target {
    Target::new("/v1/brokers").segment(broker)
}
