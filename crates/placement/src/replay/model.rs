//! What a message costs a broker.

use serde::{Deserialize, Serialize};

use crate::Publisher;

/// What `srtm calibrate` finds. Service is first come first served on `servers` identical servers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceModel {
    /// Server time per message, in nanoseconds.
    pub per_message_ns: f64,
    /// Server time per publish command beside its messages, in nanoseconds.
    pub per_batch_ns: f64,
    /// Server time per publish command for each publisher that has sent in the same millisecond so far,
    /// itself included, in nanoseconds: what many connections that are ready at once cost.
    pub per_active_connection_ns: f64,
    /// Latency outside the queue, in nanoseconds: network and wake-up.
    pub base_ns: f64,
    /// Servers that share the queue.
    pub servers: u32,
}

impl Default for ServiceModel {
    /// A broker that was not calibrated: about what a bare relay on one slow core costs.
    fn default() -> Self {
        ServiceModel {
            per_message_ns: 16_000.0,
            per_batch_ns: 0.0,
            per_active_connection_ns: 0.0,
            base_ns: 100_000.0,
            servers: 1,
        }
    }
}

impl ServiceModel {
    /// Whether it can be computed with: no negative cost, no number that is none, 1 to 1024 servers.
    #[must_use]
    pub fn is_sane(&self) -> bool {
        let costs = [
            self.per_message_ns,
            self.per_batch_ns,
            self.per_active_connection_ns,
            self.base_ns,
        ];
        costs.iter().all(|cost| (0.0..=1e12).contains(cost)) && (1..=1024).contains(&self.servers)
    }

    /// The same broker `factor` times as slow in service; the latency outside the queue stays.
    #[must_use]
    pub fn slower(&self, factor: f64) -> Self {
        ServiceModel {
            per_message_ns: self.per_message_ns * factor,
            per_batch_ns: self.per_batch_ns * factor,
            per_active_connection_ns: self.per_active_connection_ns * factor,
            ..*self
        }
    }

    /// Part of all servers' time that `messages_per_second` unbatched messages take, 0 and up.
    pub(crate) fn utilisation(&self, messages_per_second: f64) -> f64 {
        messages_per_second * (self.per_message_ns + self.per_batch_ns)
            / (1e9 * f64::from(self.servers))
    }

    /// Part of all servers' time that `publisher` takes at its declared rate.
    pub(crate) fn utilisation_by(&self, publisher: &Publisher) -> f64 {
        let batch = f64::from(publisher.batch_messages.max(1));
        publisher.rate.get() * (self.per_message_ns + self.per_batch_ns / batch)
            / (1e9 * f64::from(self.servers))
    }
}
