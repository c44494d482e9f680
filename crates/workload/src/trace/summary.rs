//! The summary of a trace.

use super::header::TraceHeader;
use crate::Arrival;

/// Sums over the arrivals of a trace; memory grows with publishers, not with arrivals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Sends.
    pub arrivals: u64,
    /// Messages.
    pub messages: u64,
    /// Bytes of their bodies, of publishers whose body is known.
    pub body_bytes: u64,
    /// Time of the first send.
    pub first_ns: u64,
    /// Time of the last.
    pub last_ns: u64,
    /// Messages of the smallest send; 0 without any.
    pub min_batch_messages: u16,
    /// Messages of the largest send.
    pub max_batch_messages: u16,
    /// Sends by publisher, as far as the last one that sent.
    arrivals_of: Vec<u64>,
}

impl Summary {
    /// Takes one arrival into account.
    pub fn add(&mut self, arrival: Arrival, header: &TraceHeader) {
        let index = arrival.publisher as usize;
        if self.arrivals == 0 {
            self.first_ns = arrival.at_ns;
            self.min_batch_messages = arrival.messages;
        }
        self.arrivals += 1;
        self.messages += u64::from(arrival.messages);
        self.last_ns = arrival.at_ns;
        self.min_batch_messages = self.min_batch_messages.min(arrival.messages);
        self.max_batch_messages = self.max_batch_messages.max(arrival.messages);
        if let Some(publisher) = header.publishers.get(index) {
            let bytes = u64::from(publisher.profile.body_bytes) * u64::from(arrival.messages);
            self.body_bytes = self.body_bytes.saturating_add(bytes);
        }
        if self.arrivals_of.len() <= index {
            self.arrivals_of.resize(index + 1, 0);
        }
        self.arrivals_of[index] += 1;
    }

    /// Publishers that sent at all.
    #[must_use]
    pub fn active_publishers(&self) -> usize {
        self.arrivals_of.iter().filter(|sends| **sends > 0).count()
    }

    /// Length of the recording in seconds: as the header says, else up to the last send.
    #[must_use]
    pub fn seconds(&self, header: &TraceHeader) -> f64 {
        let last_s = self.last_ns as f64 / 1e9;
        header.length.map_or(last_s, |length| length.as_secs_f64())
    }

    /// Messages per second over the recording's length; 0 if it has none.
    #[must_use]
    pub fn messages_per_second(&self, header: &TraceHeader) -> f64 {
        let seconds = self.seconds(header);
        if seconds > 0.0 {
            self.messages as f64 / seconds
        } else {
            0.0
        }
    }

    /// Messages of a send in the mean; 0 without any.
    #[must_use]
    pub fn mean_batch_messages(&self) -> f64 {
        self.messages as f64 / self.arrivals.max(1) as f64
    }
}
