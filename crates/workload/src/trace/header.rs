//! The header of a trace.

use std::time::Duration;

use clock::WallTime;

use super::{MAX_LINE_BYTES, MAX_NAME_BYTES, MAX_PUBLISHERS, MAX_SOURCE_BYTES};
use crate::{Arrival, PublisherProfile, Spec};

/// Who publishes in a trace, and where it comes from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceHeader {
    /// When its time 0 was; `None` for arrivals that never were.
    pub begin: Option<WallTime>,
    /// How long it was recorded: no arrival is later. `None` if that is not known.
    pub length: Option<Duration>,
    /// Where it comes from, in lines: a spec, a command.
    pub source: String,
    /// Everybody who publishes, in the order of the arrivals' indices.
    pub publishers: Vec<TracePublisher>,
}

/// One publisher of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TracePublisher {
    /// Its id at the broker, where it has one.
    pub name: Option<String>,
    /// What is known of it. A rate of 0: nothing.
    pub profile: PublisherProfile,
}

impl TraceHeader {
    /// The header of what follows from `spec`; `source` is its text.
    #[must_use]
    pub fn of_spec(spec: &Spec, source: String) -> Self {
        let unnamed = |profile| TracePublisher {
            name: None,
            profile,
        };
        TraceHeader {
            begin: None,
            length: Some(spec.length()),
            source,
            publishers: spec.profiles().into_iter().map(unnamed).collect(),
        }
    }

    /// What is wrong with it, if anything.
    pub(super) fn problem(&self) -> Option<String> {
        if self.publishers.len() > MAX_PUBLISHERS {
            return Some(format!("more than {MAX_PUBLISHERS} publishers"));
        }
        if self.length.is_some_and(|length| nanos(length).is_none()) {
            return Some(String::from("it is longer than five centuries"));
        }
        if self.begin.is_some_and(|begin| begin.as_nanos() == u64::MAX) {
            return Some(String::from("its beginning is out of range"));
        }
        problem_of_source(&self.source).or_else(|| {
            let mut problems = (0..)
                .zip(&self.publishers)
                .filter_map(|(index, publisher)| {
                    let text = publisher.problem()?;
                    Some(format!("publisher {index}: {text}"))
                });
            problems.next()
        })
    }

    /// Fills in what is not known of publishers.
    pub(super) fn measure(&mut self, arrivals: &[Arrival]) {
        if self.publishers.iter().all(TracePublisher::is_known) {
            return;
        }
        let mut sent = vec![(0u64, 0u16); self.publishers.len()];
        for arrival in arrivals {
            let (messages, largest) = &mut sent[arrival.publisher as usize];
            *messages += u64::from(arrival.messages);
            *largest = arrival.messages.max(*largest);
        }
        let last_ns = arrivals.last().map_or(0, |arrival| arrival.at_ns);
        let seconds = match self.length {
            Some(length) => length.as_secs_f64(),
            None => last_ns as f64 / 1e9,
        };
        let unknown = |publisher: &&mut TracePublisher| !publisher.is_known();
        for (index, (messages, largest)) in sent.into_iter().enumerate() {
            if let Some(publisher) = self.publishers.get_mut(index).filter(|p| unknown(p)) {
                let rate = messages as f64 / seconds;
                publisher.profile.rate = if rate.is_finite() { rate } else { 0.0 };
                publisher.profile.batch_messages = largest.max(1);
            }
        }
    }
}

impl TracePublisher {
    /// A publisher of whom only the name is known; a reader measures its rate.
    #[must_use]
    pub fn unknown(name: Option<String>) -> Self {
        TracePublisher {
            name,
            profile: PublisherProfile {
                class: 0,
                rate: 0.0,
                batch_messages: 1,
                body_bytes: 0,
                group: None,
            },
        }
    }

    /// What is wrong with it, if anything.
    pub(super) fn problem(&self) -> Option<String> {
        let PublisherProfile { rate, group, .. } = self.profile;
        if !(rate >= 0.0 && rate.is_finite()) {
            return Some(format!("{rate} is not a rate"));
        }
        if self.profile.batch_messages == 0 {
            return Some(String::from("a batch of 0 messages"));
        }
        if group == Some(u32::MAX) {
            return Some(format!("group {} is out of range", u32::MAX));
        }
        problem_of_name(self.name.as_deref()?)
    }

    fn is_known(&self) -> bool {
        self.profile.rate > 0.0
    }
}

pub(super) fn problem_of_name(name: &str) -> Option<String> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Some(format!(
            "a name of {} bytes: 1 to {MAX_NAME_BYTES}",
            name.len()
        ));
    }
    let has_control = name.chars().any(char::is_control);
    has_control.then(|| String::from("a name with control characters"))
}

pub(super) fn problem_of_source(source: &str) -> Option<String> {
    if source.len() > MAX_SOURCE_BYTES {
        return Some(format!("a source of more than {MAX_SOURCE_BYTES} bytes"));
    }
    // Room for what stands before it in CSV.
    if source
        .split('\n')
        .any(|line| line.len() > MAX_LINE_BYTES - 64)
    {
        return Some(format!(
            "a source with a line of about {MAX_LINE_BYTES} bytes"
        ));
    }
    let is_odd = |c: char| c.is_control() && c != '\n' && c != '\t';
    let has_odd = source.chars().any(is_odd);
    has_odd.then(|| String::from("a source with control characters"))
}

/// Nanoseconds, below the largest number, which stands for none.
pub(super) fn nanos(length: Duration) -> Option<u64> {
    let length_ns = u64::try_from(length.as_nanos()).ok()?;
    (length_ns < u64::MAX).then_some(length_ns)
}
