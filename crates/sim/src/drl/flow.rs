//! One flow of the world: both its ends, and when they want to be woken.

use std::time::Duration;

use clock::Instant;

use super::outcome::FlowOutcome;
use super::scenario::Flows;
use crate::tcp::{Receiver, Sender};

#[derive(Debug)]
pub(super) struct Flow {
    pub(super) limiter: u32,
    pub(super) bottleneck: Option<usize>,
    /// Of which web sessions it is a transfer.
    pub(super) session: Option<u32>,
    /// From the limiter to the receiver, and from there back to the sender.
    pub(super) half_trip: Duration,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    pub(super) sender_alarm: Alarm,
    pub(super) receiver_alarm: Alarm,
    pub(super) outcome: FlowOutcome,
}

/// The earliest event that was scheduled for a deadline. A deadline that moves back leaves its event where it is; the
/// event then finds nothing due and is scheduled anew.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alarm {
    at: Instant,
}

impl Alarm {
    const OFF: Alarm = Alarm { at: Instant::MAX };

    /// Whether an event has to be scheduled for `deadline`.
    pub(super) fn sets(&mut self, deadline: Instant) -> bool {
        let sooner = deadline < self.at;
        if sooner {
            self.at = deadline;
        }
        sooner
    }

    /// Whether the event at `now` is the one that counts.
    pub(super) fn rings(&mut self, now: Instant) -> bool {
        let rings = self.at == now;
        if rings {
            self.at = Instant::MAX;
        }
        rings
    }
}

impl Flow {
    pub(super) fn new(kind: &Flows, began: Instant, session: Option<u32>) -> Self {
        let web = session.is_some();
        Flow {
            session,
            limiter: kind.limiter,
            bottleneck: kind.bottleneck,
            half_trip: Duration::from_secs_f64(kind.rtt_ms / 2e3),
            sender: Sender::new(kind.transfer_bytes),
            receiver: Receiver::default(),
            sender_alarm: Alarm::OFF,
            receiver_alarm: Alarm::OFF,
            outcome: FlowOutcome::new(kind.limiter, web, began, kind.transfer_bytes),
        }
    }
}
