//! Measured rates correct declared ones.
//!
//! Each second brokers report what arrives for a topic, all publishers together. Where that
//! contradicts the rates attributed to its connected publishers, each of these is scaled in that
//! proportion; a recorded arrival trace gives them one by one. A publisher keeps its attributed
//! rate when it moves.
//!
//! The attributed rate rises within two reports and falls within a minute or so: under a load that
//! swings, publishers count near their peaks, and those placed by them stay where they are.

use placement::Trace;

use super::BrokerNumber;
use super::publisher::Publishers;
use super::tally::Loads;
use super::topics::Topics;

/// Reports over less time than this say too little about a rate, in seconds.
const SECONDS_MIN: f64 = 0.5;

/// A rate counts as contradicted beyond this many standard deviations of a Poisson process of batches …
const DEVIATIONS: f64 = 4.0;

/// … and beyond this part of it.
const DEVIATION_PART_MIN: f64 = 0.1;

/// Part of the way that belief falls with each report.
const FALL: f64 = 0.02;

/// Publishers that came or went since the last report spoil the comparison beyond this fraction of
/// those connected.
const CHURN_MAX: f64 = 0.02;

/// What reports have shown of a topic's movable publishers at a broker.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Messages per second by the last report.
    pub(super) rate: f64,
    /// By the one before.
    before: f64,
    /// Reports in a row during which hardly anybody came or went.
    steady_reports: u32,
    /// Publishers that came or went since the last report.
    pub(super) churn: u32,
}

impl Seen {
    /// The next report: `rate` messages per second from `connected` publishers.
    pub(super) fn next(&self, rate: f64, connected: usize) -> Seen {
        let is_steady = f64::from(self.churn) <= CHURN_MAX * connected as f64;
        Seen {
            rate,
            before: self.rate,
            steady_reports: if is_steady {
                self.steady_reports.saturating_add(1)
            } else {
                0
            },
            churn: 0,
        }
    }
}

/// Corrects what the publishers of a topic that are connected to a broker are believed to send, after a report over
/// `seconds` by which that is `seen`. Under a queue that stands, the last report alone is believed.
pub(super) fn correct_rates(
    topics: &mut Topics,
    number: BrokerNumber,
    name: &str,
    seen: Seen,
    seconds: f64,
    has_queue: bool,
) {
    let reports_min = if has_queue { 1 } else { 2 };
    if seconds < SECONDS_MIN || seen.steady_reports < reports_min || seen.rate <= 0.0 {
        return;
    }
    let Some((topic, loads)) = topics.with_loads(name) else {
        return;
    };
    let at = topic.publishers.at(number);
    let Some(at) = at.filter(|at| at.attached.number() > 0) else {
        return;
    };
    let (believed, batch) = (at.attached.rate(), at.largest_batch());
    let low = if has_queue {
        seen.rate
    } else {
        seen.rate.min(seen.before)
    };
    let high = seen.rate.max(seen.before);
    let factor = if low > believed && is_contradicted(believed, low, batch, seconds) {
        low / believed
    } else if high < believed && is_contradicted(believed, high, batch, seconds) {
        1.0 + FALL * (high / believed - 1.0)
    } else {
        return;
    };
    topic.publishers.believe(loads, |_, row| {
        (row.attached == Some(number)).then(|| row.rate() * factor)
    });
}

/// A trace says of each publisher what it sends; one that does not occur in it may be slow.
pub(super) fn believe_trace(publishers: &mut Publishers, trace: &Trace, loads: &mut Loads) {
    let seconds = trace.seconds();
    if seconds < SECONDS_MIN {
        return;
    }
    let mut messages = vec![0_u64; publishers.rows().len()];
    for arrival in &trace.arrivals {
        if let Some(sum) = messages.get_mut(arrival.publisher.0 as usize) {
            *sum += u64::from(arrival.messages);
        }
    }
    publishers.believe(loads, |index, row| {
        let rate = messages[index] as f64 / seconds;
        let batch = f64::from(row.spec.batch);
        let is_other = messages[index] > 0 && is_contradicted(row.rate(), rate, batch, seconds);
        is_other.then_some(rate)
    });
}

/// Whether a rate that was `seen` over `seconds` cannot be chance where `believed` is true.
fn is_contradicted(believed: f64, seen: f64, batch: f64, seconds: f64) -> bool {
    let batches = believed * seconds / batch;
    let chance = DEVIATIONS * batches.max(1.0).sqrt() * batch / seconds;
    (seen - believed).abs() > chance.max(DEVIATION_PART_MIN * believed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_contradicts_nothing() {
        // (believed, seen, batch, seconds)
        let cases = [
            ((600.0, 690.0, 1.0, 1.0), false),
            ((600.0, 1320.0, 1.0, 1.0), true),
            ((10.0, 22.0, 1.0, 1.0), false),
            ((10.0, 22.0, 1.0, 60.0), true),
            ((100.0, 190.0, 10.0, 1.0), false),
            ((1e6, 1.05e6, 1.0, 1.0), false),
            ((1e6, 1.15e6, 1.0, 1.0), true),
        ];
        for ((believed, seen, batch, seconds), expected) in cases {
            assert_eq!(
                is_contradicted(believed, seen, batch, seconds),
                expected,
                "{believed}, {seen}, {batch}, {seconds}"
            );
        }
    }

    #[test]
    fn who_comes_and_goes_spoils_a_report() {
        let mut seen = Seen::default().next(10.0, 100).next(11.0, 100);
        assert_eq!(
            (seen.steady_reports, seen.rate, seen.before),
            (2, 11.0, 10.0)
        );
        seen.churn = 2;
        seen = seen.next(12.0, 100);
        assert_eq!(seen.steady_reports, 3);
        seen.churn = 3;
        seen = seen.next(30.0, 100);
        assert_eq!((seen.steady_reports, seen.churn), (0, 0));
    }
}
