//! Profiling windows: they take time, so they run beside the orders. A new window of a topic
//! replaces the one before.

use std::time::Duration;

use clock::Instant;
use link::{ToBroker, ToController};
use wire::TopicName;

use super::errand::Errand;
use super::outbox::{Outbox, Shown};
use super::said;
use crate::BrokerError;
use crate::window::{WindowOrder, WindowResult};

/// Profiling windows that are open at the same time, those included that are not told whole yet.
const WINDOWS_MAX: usize = 64;
/// Lengths of a profiling window, in seconds.
const WINDOW_SECONDS: std::ops::RangeInclusive<f64> = 0.0..=600.0;

/// A profiling window as ordered.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    window: u64,
    pub(super) topic: TopicName,
    seconds: f64,
    pub(super) order: WindowOrder,
}

/// Windows that are open. Those of a link end with it, since nobody waits for them any more.
#[derive(Debug, Default)]
pub(super) struct Windows {
    open: Vec<(Instant, Measurement)>,
    /// Those whose ends are asked for; `None`: nobody waits for what it showed.
    ending: Vec<(TopicName, Option<Measurement>)>,
}

impl Windows {
    /// What an order to measure says; `outbox` has windows that are not told whole yet.
    ///
    /// # Errors
    /// Why it cannot be done.
    pub(super) fn ordered(&self, order: ToBroker, outbox: &Outbox) -> Result<Measurement, String> {
        let ToBroker::Measure {
            window,
            topic,
            seconds,
            percentile,
            promise_us,
            with_trace,
        } = order
        else {
            return Err(String::from("this message is not an order to measure"));
        };
        let topic = said::name(&topic)?;
        if self.open.len() + self.ending.len() + outbox.windows() >= WINDOWS_MAX {
            return Err(format!(
                "window {window}: {WINDOWS_MAX} windows are open already"
            ));
        }
        if !WINDOW_SECONDS.contains(&seconds) || !(0.0..=100.0).contains(&percentile) {
            return Err(format!(
                "window {window}: {seconds} s at percentile {percentile} is out of range"
            ));
        }
        Ok(Measurement {
            window,
            topic,
            seconds,
            order: WindowOrder {
                percentile,
                promise_us,
                with_trace,
            },
        })
    }

    /// Whether the end of a topic's window is asked for: the next one begins behind it.
    pub(super) fn is_ending(&self, topic: &str) -> bool {
        let mut ending = self.ending.iter();
        ending.any(|(ending, _)| ending.as_str() == topic)
    }

    /// The window of a topic that is open answers no more: another takes its place.
    pub(super) fn forget(&mut self, topic: &TopicName) {
        self.open.retain(|(_, open)| open.topic != *topic);
    }

    /// One has begun, unless it could not.
    pub(super) fn begun(
        &mut self,
        measurement: Measurement,
        begun: Result<(), BrokerError>,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        match begun {
            Ok(()) => {
                let until = now + Duration::from_secs_f64(measurement.seconds);
                self.open.push((until, measurement));
            }
            Err(error) => show(measurement, Err(error), outbox),
        }
    }

    /// When the next one ends.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.open.iter().map(|(until, _)| *until).min()
    }

    /// Ends those whose time is over.
    pub(super) fn drive(&mut self, now: Instant, outbox: &mut Outbox) {
        for (_, over) in self.open.extract_if(.., |(until, _)| *until <= now) {
            outbox.ask(Errand::EndWindow(over.topic.clone()));
            self.ending.push((over.topic.clone(), Some(over)));
        }
    }

    /// One has ended.
    pub(super) fn ended(
        &mut self,
        topic: &TopicName,
        shown: Result<WindowResult, BrokerError>,
        outbox: &mut Outbox,
    ) {
        let place = self.ending.iter().position(|(ending, _)| ending == topic);
        let ended = place.map(|place| self.ending.swap_remove(place));
        if let Some((_, Some(measurement))) = ended {
            show(measurement, shown, outbox);
        }
    }

    /// The link is gone.
    pub(super) fn ends(&mut self) {
        self.open.clear();
        for (_, waiting) in &mut self.ending {
            *waiting = None;
        }
    }
}

/// Says what one showed.
fn show(measurement: Measurement, shown: Result<WindowResult, BrokerError>, outbox: &mut Outbox) {
    let Measurement {
        window,
        topic,
        seconds,
        order,
    } = measurement;
    let result = match shown {
        Ok(result) => result,
        // Nothing happens in a topic that is not there.
        Err(BrokerError::TopicNotFound(_)) => WindowResult::default(),
        Err(error) => {
            let text = format!("window {window} of {topic}: {error}");
            return outbox.say(ToController::Problem { text });
        }
    };
    let of = (window, topic.to_string(), seconds);
    outbox.show(Shown::new(of, result, order.with_trace));
}
