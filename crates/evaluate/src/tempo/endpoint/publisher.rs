//! A publisher: an open loop that sends what is due, and listens to echoes.
//!
//! It sleeps between sends and never spins, since others share its core. A sleep ends some 50 to
//! 150 us late, so above a few thousand messages per second each waking sends several messages. How
//! late the oldest of them was is reported apart: it is not part of the delay, which counts from
//! the mark.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::body::Bodies;
use super::outlet::Outlet;
use super::{Window, rest_until};
use crate::tempo::delay::Delays;
use crate::tempo::pace::Pace;
use crate::tempo::way::Way;
use bench::BenchError;
use bench::sys;

/// Marks per second that are aimed at; an [`client::Echoer`] sends at most 1,000 a second.
const MARKS_PER_SECOND: f64 = 800.0;
/// Shortest sleep.
const REST_MIN_NS: u64 = 20_000;
/// How long echoes are waited for after the last send.
const ECHO_WAIT: Duration = Duration::from_millis(500);
/// Longest time that the last messages may take to be written after the window.
const LINGER_NS: u64 = 500_000_000;

/// A publisher's task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Publishing {
    /// The way to the subscriber.
    pub way: Way,
    /// The topic.
    pub topic: String,
    /// Messages per second; `None`: as many as get through.
    pub rate: Option<f64>,
    /// Size of every message.
    pub body_bytes: usize,
    /// Whether a sample carries marks.
    pub is_marked: bool,
    /// Bound of the messages under way, for a run without a rate; none where nobody echoes.
    pub under_way_messages: Option<u64>,
    /// Messages of a write at least, in protocols other than Tempo's.
    pub batch_messages: u64,
    /// Connections, in protocols other than Tempo's.
    pub connections: usize,
    /// In NSQ: what is due together is one MPUB instead of several PUBs.
    pub is_mpub: bool,
}

/// A publisher's results.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Messages sent in the window.
    pub sent: u64,
    /// Delays of the sample, in nanoseconds, of echoes that arrived after the window began.
    pub delays_ns: Vec<u64>,
    /// How late the oldest message of each send was.
    pub lateness: Delays,
}

impl Publishing {
    /// One in this many messages carries a mark; 0: none.
    fn mark_every(&self) -> u32 {
        if !self.is_marked {
            return 0;
        }
        // Without a rate: sparse enough for a million messages per second.
        let rate = self.rate.unwrap_or(1e6);
        ((rate / MARKS_PER_SECOND).ceil() as u32).max(1)
    }
}

/// Connects, waits for the window, publishes.
pub(super) fn publish(
    publishing: &Publishing,
    await_window: impl FnOnce() -> Result<Window, BenchError>,
) -> Result<Published, BenchError> {
    let Publishing {
        way,
        topic,
        body_bytes,
        connections,
        is_mpub,
        ..
    } = publishing;
    let mut bodies = Bodies::new(
        *body_bytes,
        publishing.mark_every(),
        publishing.under_way_messages,
    )?;
    let outlet = Outlet::open(*way, topic, *body_bytes, *connections, *is_mpub)?;
    let window = await_window()?;
    let mut run = Run {
        pace: Pace::new(publishing.rate, window.begin_ns),
        least: publishing.batch_messages.max(1),
        outlet,
        window,
    };
    rest_until(window.begin_ns);
    while run.turn(&mut bodies, window.start_ns, &mut |_| {})? {}
    let sent_before = run.pace.sent();
    let _before_the_window = bodies.delays_ns();
    let mut lateness_ns = Vec::new();
    // Without a rate nothing is ever late.
    let has_rate = publishing.rate.is_some();
    let mut note = |late_ns| {
        if has_rate {
            lateness_ns.push(late_ns);
        }
    };
    while run.turn(&mut bodies, window.end_ns, &mut note)? {}
    let sent = run.pace.sent() - sent_before;
    sys::pause_for(ECHO_WAIT);
    Ok(Published {
        sent,
        delays_ns: bodies.delays_ns(),
        lateness: Delays::of(lateness_ns),
    })
}

struct Run {
    pace: Pace,
    least: u64,
    outlet: Outlet,
    window: Window,
}

impl Run {
    /// Sends what is due, or rests; false when `until_ns` has passed.
    fn turn(
        &mut self,
        bodies: &mut Bodies,
        until_ns: u64,
        on_late: &mut impl FnMut(u64),
    ) -> Result<bool, BenchError> {
        let now_ns = sys::monotonic_ns();
        if now_ns >= until_ns {
            return Ok(false);
        }
        let due = self.pace.due(now_ns);
        let messages = if due < self.least {
            0
        } else {
            bodies.allowed(due)?
        };
        if messages == 0 {
            let next_ns = self.pace.batch_ns(self.least).max(now_ns + REST_MIN_NS);
            rest_until(next_ns.min(until_ns));
            return Ok(true);
        }
        on_late(now_ns.saturating_sub(self.pace.next_ns()));
        for _ in 0..messages {
            self.outlet.put(bodies.next())?;
        }
        if self.outlet.flush(self.window.end_ns + LINGER_NS)? {
            self.pace.note(messages);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_as_dense_as_echoes_may_be() {
        let mut publishing = Publishing {
            way: Way::Nats("127.0.0.1:9".parse().expect("an address")),
            topic: "t".to_owned(),
            rate: Some(500.0),
            body_bytes: 128,
            is_marked: true,
            under_way_messages: None,
            batch_messages: 1,
            connections: 1,
            is_mpub: true,
        };
        for (rate, expected) in [(Some(500.0), 1), (Some(120_000.0), 150), (None, 1250)] {
            publishing.rate = rate;
            assert_eq!(publishing.mark_every(), expected, "{rate:?}");
        }
        publishing.is_marked = false;
        assert_eq!(publishing.mark_every(), 0);
    }
}
