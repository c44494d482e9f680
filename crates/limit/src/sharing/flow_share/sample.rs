//! A constant number of flows and how fast each is served.
//!
//! FPS takes the fastest flow of a limiter for one that only the limiter holds back (DRL, section
//! 3.2.2). To find it without a counter per flow, a set of flows is kept. A flow outside it gets in
//! by chance with one of its packets, the sooner the more it sends, and takes the place of the
//! slowest.
//!
//! Beyond the paper, because a limiter would otherwise take its luckiest flow for typical:
//!
//! * the rate of an unbottlenecked flow is the mean of all flows that have at least half of what
//!   the fastest has: a loss halves a flow, so they are where the fastest one was or will be;
//! * flows are averaged over the time in which an unbottlenecked one sends [`PACKETS_TOLD`]
//!   packets, if that is longer than what the EWMA remembers;
//! * a flow counts when it has been observed for half of that time; a quarter of the set at most
//!   are flows that have not, and these are not displaced;
//! * a flow that sends nothing for the time of [`PACKETS_MISSED`] packets of an unbottlenecked one
//!   is given up; otherwise traffic whose flows were all replaced would be judged by ended flows
//!   until the last of them is small;
//! * all that is served is averaged in the same way, so that the number of flows, the one divided
//!   by the other, does not lag behind when both change.

use super::super::estimate::Smoothed;

/// Packets of a flow that its rate is told from.
const PACKETS_TOLD: f64 = 12.0;

/// The longest memory, seconds, however slow the flows.
const LONGEST_MEMORY_S: f64 = 10.0;

/// The part of an unbottlenecked flow's rate below which a flow is not worth a place.
const SMALL: f64 = 0.01;

/// Packets of an unbottlenecked flow in whose time a flow that sends nothing is over.
const PACKETS_MISSED: f64 = 4.0;

/// The shortest time after which it is: a timeout of TCP lasts a fifth of a second and some round trips.
const SHORTEST_PAUSE_S: f64 = 0.5;

/// How much of an average over all time is enough to go by.
const GROWN_UP: f64 = 0.5;

#[derive(Clone, Debug)]
pub(super) struct FlowSample {
    capacity: usize,
    flows: Vec<Sampled>,
    /// Units served since the last interval's end, and packets.
    served_units: f64,
    served_packets: f64,
    served: Smoothed,
    packets: Smoothed,
    /// The rate of an unbottlenecked flow.
    unbottlenecked: f64,
}

#[derive(Clone, Copy, Debug)]
struct Sampled {
    flow: u64,
    units: f64,
    rate: Smoothed,
    /// Since the last interval with a packet.
    pause_s: f64,
}

impl FlowSample {
    pub(super) fn new(capacity: usize) -> Self {
        FlowSample {
            capacity,
            flows: Vec::with_capacity(capacity),
            served_units: 0.0,
            served_packets: 0.0,
            served: Smoothed::default(),
            packets: Smoothed::default(),
            unbottlenecked: 0.0,
        }
    }

    /// Counts a packet that passes. Returns whether its flow is watched.
    pub(super) fn passed(&mut self, flow: u64, units: f64) -> bool {
        self.served_units += units;
        self.served_packets += 1.0;
        let watched = self.flows.iter_mut().find(|sampled| sampled.flow == flow);
        match watched {
            Some(sampled) => {
                sampled.units += units;
                true
            }
            None => false,
        }
    }

    /// Whether a flow can be watched without another one's being given up.
    pub(super) fn has_room(&self) -> bool {
        self.flows.len() < self.capacity
    }

    /// Watches `flow` from its next packet on: the one that got it in would count for too much.
    pub(super) fn admit(&mut self, flow: u64) {
        let admitted = Sampled {
            flow,
            units: 0.0,
            rate: Smoothed::default(),
            pause_s: 0.0,
        };
        if self.has_room() {
            self.flows.push(admitted);
            return;
        }
        let young = self.flows.iter().filter(|sampled| !sampled.is_grown_up());
        if young.count() >= self.capacity.div_ceil(4) {
            return;
        }
        let grown_up = self
            .flows
            .iter_mut()
            .filter(|sampled| sampled.is_grown_up());
        let slowest = grown_up.min_by(|a, b| a.rate.get().total_cmp(&b.rate.get()));
        if let Some(slowest) = slowest {
            *slowest = admitted;
        }
    }

    /// Ends an interval of `seconds` remembered with a time constant of `memory_s` at least.
    pub(super) fn end(&mut self, seconds: f64, memory_s: f64) {
        let kept = (-seconds / self.memory_s(memory_s)).exp();
        self.served.take(self.served_units / seconds, kept);
        self.packets.take(self.served_packets / seconds, kept);
        self.served_units = 0.0;
        self.served_packets = 0.0;
        for sampled in &mut self.flows {
            sampled.rate.take(sampled.units / seconds, kept);
            sampled.pause_s = if sampled.units > 0.0 {
                0.0
            } else {
                sampled.pause_s + seconds
            };
            sampled.units = 0.0;
        }
        let longest_pause_s = self.unbottlenecked_s(PACKETS_MISSED).max(SHORTEST_PAUSE_S);
        self.flows.retain(|flow| flow.pause_s < longest_pause_s);
        let any_grown_up = self.flows.iter().any(Sampled::counts_by_itself);
        let counted = || {
            let counted = self.flows.iter();
            let counted = counted.filter(move |flow| !any_grown_up || flow.is_grown_up());
            counted.map(|flow| flow.rate.get())
        };
        let fastest = counted().fold(0.0, f64::max);
        let (sum, count) = counted()
            .filter(|&rate| rate >= 0.5 * fastest)
            .fold((0.0, 0.0), |(sum, count), rate| (sum + rate, count + 1.0));
        self.unbottlenecked = sum / f64::max(count, 1.0);
        let small = SMALL * self.unbottlenecked;
        self.flows
            .retain(|flow| !flow.is_grown_up() || flow.rate.get() > small);
    }

    /// The number of unbottlenecked flows that would be served as much as all flows are, at least 1; `None` while there
    /// is no flow to go by.
    pub(super) fn equivalent_flows(&self) -> Option<f64> {
        let each = self.unbottlenecked;
        (each > 0.0).then(|| (self.served.get() / each).max(1.0))
    }

    /// Packets per second, as served lately.
    pub(super) fn packets_per_s(&self) -> f64 {
        self.packets.get()
    }

    /// Units per packet, as served lately.
    pub(super) fn packet_units(&self) -> f64 {
        let packets = self.packets.get();
        if packets > 0.0 {
            self.served.get() / packets
        } else {
            0.0
        }
    }

    /// Forgets all flows.
    pub(super) fn clear(&mut self) {
        self.flows.clear();
        self.served = Smoothed::default();
        self.packets = Smoothed::default();
        self.unbottlenecked = 0.0;
    }

    fn memory_s(&self, memory_s: f64) -> f64 {
        let told_s = self.unbottlenecked_s(PACKETS_TOLD);
        told_s.min(LONGEST_MEMORY_S).max(memory_s)
    }

    /// The time in which an unbottlenecked flow sends `packets`, seconds; 0 while none is known.
    fn unbottlenecked_s(&self, packets: f64) -> f64 {
        if self.unbottlenecked > 0.0 {
            packets * self.packet_units() / self.unbottlenecked
        } else {
            0.0
        }
    }
}

impl Sampled {
    fn is_grown_up(&self) -> bool {
        self.rate.seen() >= GROWN_UP
    }

    fn counts_by_itself(&self) -> bool {
        self.is_grown_up() && self.rate.get() > 0.0
    }
}
