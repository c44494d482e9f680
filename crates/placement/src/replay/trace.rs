//! The arrivals of one profiling window.

use crate::{Publisher, PublisherIndex};

/// One publish command seen by a broker: kernel arrival stamp on a clock common to all brokers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Arrival in nanoseconds.
    pub at_ns: u64,
    /// The publisher that sent it.
    pub publisher: PublisherIndex,
    /// Messages in the command.
    pub messages: u16,
}

/// Everything that arrived from `begin_ns` until before `end_ns`, at all brokers together.
///
/// The span is one that *every* broker recorded in full: where one recording was cut short, all end
/// there. A span with some brokers missing would look like less traffic than there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// In order of `at_ns`.
    pub arrivals: Vec<Arrival>,
    /// Beginning of the span.
    pub begin_ns: u64,
    /// End of the span.
    pub end_ns: u64,
}

impl Trace {
    /// The arrivals within the span, in order; those outside it are dropped.
    #[must_use]
    pub fn new(mut arrivals: Vec<Arrival>, begin_ns: u64, end_ns: u64) -> Self {
        arrivals.retain(|arrival| (begin_ns..end_ns).contains(&arrival.at_ns));
        arrivals.sort_by_key(|arrival| arrival.at_ns);
        Trace {
            arrivals,
            begin_ns,
            end_ns: end_ns.max(begin_ns),
        }
    }

    /// Length of the span in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.end_ns.saturating_sub(self.begin_ns) as f64 / 1e9
    }

    /// This trace with `later` moved up to its end, so that one replay sees both.
    #[must_use]
    pub fn followed_by(&self, later: &Trace) -> Trace {
        let moved = later.arrivals.iter().map(|arrival| Arrival {
            at_ns: arrival.at_ns.saturating_sub(later.begin_ns) + self.end_ns,
            ..*arrival
        });
        Trace {
            arrivals: self.arrivals.iter().copied().chain(moved).collect(),
            begin_ns: self.begin_ns,
            end_ns: self.end_ns + later.end_ns.saturating_sub(later.begin_ns),
        }
    }

    /// Messages per publisher; arrivals of unknown publishers are left out.
    pub(crate) fn messages(&self, publishers: usize) -> Vec<u64> {
        let mut messages = vec![0; publishers];
        for arrival in &self.arrivals {
            if let Some(sum) = messages.get_mut(arrival.publisher.0 as usize) {
                *sum += u64::from(arrival.messages);
            }
        }
        messages
    }
}

/// The publishers with the rates that the trace shows, where it contradicts the declared ones.
///
/// Random traffic never matches its mean exactly, so a declared rate stands unless it is off by
/// four standard deviations of a Poisson process of batches. A publisher without any arrival keeps its
/// declared rate: it may be withheld, or slow.
pub(crate) fn with_seen_rates(publishers: &[Publisher], trace: &Trace) -> Vec<Publisher> {
    let seconds = trace.seconds();
    let messages = trace.messages(publishers.len());
    let seen = publishers.iter().zip(messages);
    seen.map(|(publisher, messages)| {
        let batch = f64::from(publisher.batch_messages.max(1));
        let expected_batches = publisher.rate.get() * seconds / batch;
        let off_batches = (messages as f64 / batch - expected_batches).abs();
        let is_contradicted = messages > 0 && off_batches > 4.0 * expected_batches.max(1.0).sqrt();
        let seen_rate = limit::Rate::new(messages as f64 / seconds);
        match seen_rate {
            Ok(rate) if is_contradicted => Publisher { rate, ..*publisher },
            _ => *publisher,
        }
    })
    .collect()
}
