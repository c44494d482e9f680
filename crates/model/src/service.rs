//! The cost of a message to a broker.

use serde::{Deserialize, Serialize};

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

    /// Part of all servers' time that `messages_per_second` take, `batch_messages` of them (at least 1) in a command: 0 and up.
    #[must_use]
    pub fn utilisation(&self, messages_per_second: f64, batch_messages: u32) -> f64 {
        let batch = f64::from(batch_messages.max(1));
        messages_per_second * (self.per_message_ns + self.per_batch_ns / batch)
            / (1e9 * f64::from(self.servers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_batch_and_more_servers_take_less_of_their_time() {
        let model = ServiceModel {
            per_message_ns: 8_000.0,
            per_batch_ns: 2_000.0,
            ..ServiceModel::default()
        };
        for (batch_messages, servers, utilisation) in
            [(0, 1, 0.5), (1, 1, 0.5), (10, 1, 0.41), (10, 2, 0.205)]
        {
            let model = ServiceModel { servers, ..model };
            let found = model.utilisation(50_000.0, batch_messages);
            assert!((found - utilisation).abs() < 1e-12, "{found}");
        }
        assert_eq!(model.slower(2.0).utilisation(25_000.0, 1), 0.5);
    }

    #[test]
    fn costs_that_nothing_can_be_reckoned_with_are_told() {
        let model = ServiceModel::default();
        assert!(model.is_sane());
        for broken in [
            ServiceModel {
                servers: 0,
                ..model
            },
            ServiceModel {
                servers: 1025,
                ..model
            },
            ServiceModel {
                base_ns: f64::NAN,
                ..model
            },
            ServiceModel {
                per_batch_ns: -1.0,
                ..model
            },
            ServiceModel {
                per_message_ns: f64::INFINITY,
                ..model
            },
        ] {
            assert!(!broken.is_sane(), "{broken:?}");
        }
    }
}
