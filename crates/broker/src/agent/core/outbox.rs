//! Outgoing messages to the controller, short ones before long ones, and effects.

use std::collections::VecDeque;

use link::{TRACE_PART_ARRIVALS, ToController, Traced, WindowReport};

use super::errand::{Effect, Errand};
use crate::window::WindowResult;

/// Messages that wait to be sent; while there are this many, nothing that adds to them is begun.
/// What has begun adds two for each order of one errand.
pub(super) const OUTBOX_MAX: usize = 1024;
/// Names in one part of a trace; at their longest they fill half a message.
const TRACE_PART_PUBLISHERS: usize = 8192;

/// What waits to be said and done.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    effects: VecDeque<Effect>,
    short: VecDeque<ToController>,
    /// Results of windows; they give way to short messages.
    shown: VecDeque<Shown>,
}

/// The result of a window. Names go first, so that a reader of an arrival knows them all, and the
/// figures last.
#[derive(Debug)]
pub(super) struct Shown {
    report: WindowReport,
    publishers: VecDeque<String>,
    arrivals: VecDeque<(u64, u32, u32)>,
}

impl Shown {
    /// The result of a window, with its trace only where that was asked for.
    pub(super) fn new(
        (window, topic, seconds): (u64, String, f64),
        result: WindowResult,
        with_trace: bool,
    ) -> Shown {
        let (mut publishers, mut arrivals) = (VecDeque::new(), VecDeque::new());
        if with_trace {
            publishers = result.publishers.into();
            arrivals = result.arrivals.into();
        }
        let report = WindowReport {
            window,
            topic,
            seconds,
            messages: result.messages,
            latency_us: result.latency_us,
            p50_us: result.p50_us,
            samples: result.samples,
            is_trace_cut: result.is_trace_cut,
        };
        Shown {
            report,
            publishers,
            arrivals,
        }
    }

    /// The next part of its trace.
    fn next_part(&mut self) -> Option<ToController> {
        let names = self.publishers.len().min(TRACE_PART_PUBLISHERS);
        let arrivals = match names {
            0 => self.arrivals.len().min(TRACE_PART_ARRIVALS),
            _ => 0,
        };
        let part = Traced {
            window: self.report.window,
            topic: self.report.topic.clone(),
            publishers: self.publishers.drain(..names).collect(),
            arrivals: self.arrivals.drain(..arrivals).collect(),
        };
        (names + arrivals > 0).then_some(ToController::Trace(part))
    }
}

impl Outbox {
    /// Wants something done.
    pub(super) fn effect(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    /// Asks something of the broker.
    pub(super) fn ask(&mut self, errand: Errand) {
        self.effect(Effect::Ask(errand));
    }

    /// Says something.
    pub(super) fn say(&mut self, message: ToController) {
        self.short.push_back(message);
    }

    /// Tells the controller what could not be done, and the log.
    pub(super) fn complain(&mut self, text: String) {
        tracing::warn!("an order of the controller could not be carried out: {text}");
        self.say(ToController::Problem { text });
    }

    /// Says what a window showed.
    pub(super) fn show(&mut self, shown: Shown) {
        self.shown.push_back(shown);
    }

    /// Whether there is room for more.
    pub(super) fn has_room(&self) -> bool {
        self.short.len() < OUTBOX_MAX
    }

    /// Windows of which something is still to be said.
    pub(super) fn windows(&self) -> usize {
        self.shown.len()
    }

    /// Whether something is to be said.
    pub(super) fn has_some(&self) -> bool {
        !self.short.is_empty() || !self.shown.is_empty()
    }

    pub(super) fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    pub(super) fn next_message(&mut self) -> Option<ToController> {
        if let Some(message) = self.short.pop_front() {
            return Some(message);
        }
        let part = self.shown.front_mut()?.next_part();
        part.or_else(|| {
            let shown = self.shown.pop_front()?;
            Some(ToController::Window(shown.report))
        })
    }

    /// Nobody hears them any more.
    pub(super) fn forget(&mut self) {
        self.short.clear();
        self.shown.clear();
    }
}
