//! A placed publisher's declaration of itself, and its bounds.

use std::time::Duration;

use api::Token;
use credentials::Trust;
use wire::TopicName;
use wire::identify::{MAX_PUBLISHER_BATCH, MAX_PUBLISHER_RATE, MAX_PUBLISHER_TEXT_BYTES};

use crate::error::ClientError;
use crate::publisher::Acknowledgement;

const MIN_HEARTBEAT: Duration = Duration::from_secs(1);
const MAX_HEARTBEAT: Duration = Duration::from_secs(60);

/// Who a placed publisher is, where its controller is, and how much it keeps.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedOptions {
    /// The controller's HTTP address: `host:port`, or with `http://` or `https://` before it. Several, of which one leads, have commas between them.
    pub controller: String,
    /// What is shown to controller and brokers that ask for it.
    pub token: Option<Token>,
    /// The one topic that it publishes to.
    pub topic: String,
    /// Unique within the topic: 1 to 128 printable ASCII characters without blanks.
    pub id: String,
    /// Correlation group key: publishers that send at about the same time share one. 1 to 128 bytes.
    pub group: Option<String>,
    /// Messages per second that it means to send: above 0, at most 1e9.
    pub rate: f64,
    /// Messages that it sends at once: 1 to 65536.
    pub batch: u32,
    /// How acceptance is told.
    pub acknowledgement: Acknowledgement,
    /// Whether to declare the publisher at the controller. If not, someone else has done it; a publisher that the
    /// controller does not know goes to the topic's first broker and is known by its declaration there.
    pub register: bool,
    /// Most messages without an acknowledgement, at least 1. A larger batch goes alone.
    pub window_messages: usize,
    /// Most bytes of commands without an acknowledgement. A larger command goes alone.
    pub window_bytes: usize,
    /// Interval of the broker's heartbeats, 1 to 60 s. A broker that is silent for twice as long counts as dead.
    pub heartbeat_interval: Duration,
    /// Longest time that a call waits while no broker takes messages; `None`: for ever.
    pub patience: Option<Duration>,
    /// Whom to believe that it is a broker or the controller: all are spoken to by TLS then. `None`: without TLS.
    pub trust: Option<Trust>,
}

impl PlacedOptions {
    /// One message per second, one at a time, an OK for each, registered at the controller; 10,000 messages and
    /// 16 MiB under way, heartbeats every 10 s, waiting for ever.
    #[must_use]
    pub fn new(
        controller: impl Into<String>,
        topic: impl Into<String>,
        id: impl Into<String>,
    ) -> Self {
        Self {
            controller: controller.into(),
            token: None,
            topic: topic.into(),
            id: id.into(),
            group: None,
            rate: 1.0,
            batch: 1,
            acknowledgement: Acknowledgement::Each,
            register: true,
            window_messages: 10_000,
            window_bytes: 16 << 20,
            heartbeat_interval: Duration::from_secs(10),
            patience: None,
            trust: None,
        }
    }

    /// Checks everything that a broker or the controller would refuse; gives the topic's name.
    ///
    /// # Errors
    /// [`ClientError::Name`] for the topic, [`ClientError::Declaration`] for the first other field out of range.
    pub(crate) fn check(&self) -> Result<TopicName, ClientError> {
        let is_printable = self.id.bytes().all(|byte| byte.is_ascii_graphic());
        if self.id.is_empty() || self.id.len() > MAX_PUBLISHER_TEXT_BYTES || !is_printable {
            let allowed = "1 to 128 printable ASCII characters without blanks";
            return Err(refused("id", self.id.clone(), allowed));
        }
        if let Some(group) = &self.group
            && !(1..=MAX_PUBLISHER_TEXT_BYTES).contains(&group.len())
        {
            return Err(refused("group", group.clone(), "1 to 128 bytes"));
        }
        if !(self.rate > 0.0 && self.rate <= MAX_PUBLISHER_RATE) {
            let allowed = "messages per second, above 0 and at most 1e9";
            return Err(refused("rate", self.rate.to_string(), allowed));
        }
        if !(1..=MAX_PUBLISHER_BATCH).contains(&self.batch) {
            let allowed = "1 to 65536 messages";
            return Err(refused("batch", self.batch.to_string(), allowed));
        }
        if !(MIN_HEARTBEAT..=MAX_HEARTBEAT).contains(&self.heartbeat_interval) {
            let value = format!("{} ms", self.heartbeat_interval.as_millis());
            return Err(refused("heartbeat_interval", value, "1 to 60 s"));
        }
        self.topic.parse().map_err(|_| ClientError::Name {
            kind: "topic",
            name: self.topic.clone(),
        })
    }
}

fn refused(field: &'static str, value: String, allowed: &'static str) -> ClientError {
    ClientError::Declaration {
        field,
        value,
        allowed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_broker_would_refuse_is_named() {
        type Change = fn(&mut PlacedOptions);
        let cases: [(&str, Change); 9] = [
            ("topic name", |options| options.topic = "a b".to_owned()),
            ("id", |options| options.id = String::new()),
            ("id", |options| options.id = "a b".to_owned()),
            ("id", |options| options.id = "x".repeat(129)),
            ("group", |options| options.group = Some(String::new())),
            ("rate", |options| options.rate = f64::NAN),
            ("rate", |options| options.rate = 1e10),
            ("batch", |options| options.batch = 0),
            ("heartbeat_interval", |options| {
                options.heartbeat_interval = Duration::ZERO
            }),
        ];
        for (field, change) in cases {
            let mut options = PlacedOptions::new("localhost:4180", "telemetry", "s/1");
            options.check().expect("valid");
            change(&mut options);
            let error = options.check().expect_err(field);
            assert!(error.to_string().starts_with(field), "{error}");
            assert!(!error.is_fatal());
        }
    }
}
