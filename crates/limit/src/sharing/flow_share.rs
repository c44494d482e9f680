//! Flow proportional share: a part of the limit per flow that is held back (DRL, section 3.2.2,
//! figure 2).
//!
//! Every limiter has a weight, and its bucket the rate L · w_i / Σ w_j. The weight is
//!
//! * where the limiter holds traffic back: the number of flows as fast as its fastest one that its
//!   traffic is worth;
//! * where traffic is held back elsewhere: whatever makes the local limit equal to the demand;
//! * where there is no traffic: as good as nothing.
//!
//! The paper leaves the rest open. docs/sharing.md has our choices, the reasons and the figures. In
//! short: weights have floors that add up to [`IDLE_PART`] of the limit; a limiter that wakes gets
//! no more than 1/N at once; one that has just refused something waits for its flows' timeouts;
//! flows that live by timeouts are counted ([`Crowd`]); weights are averaged geometrically and
//! local limits above 1/N arithmetically; a drop is taken as evidence that the limiter is what
//! holds its traffic back; what has passed beyond the limit is owed ([`Balance`]).

mod balance;
mod crowd;
mod sample;

use std::time::Duration;

use clock::{Instant, Xoshiro256PlusPlus, uniform};

use super::estimate::{Ended, Memory, Traffic};
use super::{Figures, Limiter, Remote, Sharing, SharingError, Update, Verdict, counted};
use crate::{Burst, Rate, Share, TokenBucket};
use balance::Balance;
use crowd::Crowd;
use sample::FlowSample;

/// The part of the limit that all limiters would have together if they were idle but one. Each has 1/N of it at least,
/// which is what lets a first packet through, and fills the bucket for the next ones.
const IDLE_PART: f64 = 0.02;

/// Where traffic is held back elsewhere, the local limit is this much above the demand: at the demand itself every
/// fluctuation would look as if the limiter were what holds it back.
const HEADROOM: f64 = 1.05;

/// The least part of its limit that traffic has which is held back here: a single flow's saw tooth goes from 1 to 1/2.
/// Only traffic that was refused something is measured by it.
const SAW_TOOTH: f64 = 0.5;

/// How long ago a refusal may be to tell that. Longer than a tooth lasts on most paths.
const REFUSAL_MEMORY: Duration = Duration::from_secs(2);

/// Gaps between packets, as expected, after which there is no more traffic: 1 in 55 gaps of random arrivals is as long.
const SILENT_GAPS: f64 = 4.0;

/// Gaps after a refusal that do not count as silence: flows that lost something wait for a timeout
/// and are not over. The more packets there are, the fewer of their losses take a timeout to
/// repair.
const TIMEOUT_GAPS: f64 = 12.0;

/// The longest of those times: a timeout of TCP, 200 ms and some round trips.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The longest gap that is waited for.
const LONGEST_GAP: Duration = Duration::from_secs(2);

/// How many times as long as the EWMA flows are averaged: the fastest of some saw teeth is to be the one that is fastest
/// in the mean, not the one that is just at its tip.
const FLOW_MEMORY: f64 = 4.0;

/// How fast a local limit above 1/N grows at most: by a factor of e in a second. While limiters grow together, none of them
/// has heard yet how much the others want.
const GROWTH_1S: f64 = 1.0;

/// How many times as long as the EWMA the overbooking remembers: slower than the updates that it goes by, or it swings.
const OVERBOOKING_MEMORY: f64 = 4.0;

/// The most that overbooking aims above what it is. It has to fall as far by excess alone, which is smaller than the room
/// that traffic leaves when it goes.
const OVERBOOKING_STEP: f64 = 1.1;

/// The greatest weight: this many flows.
const WEIGHT_MAX: f64 = 1e9;

#[derive(Debug)]
pub(super) struct FlowShare {
    sharing: Sharing,
    memory: Memory,
    random: Xoshiro256PlusPlus,
    bucket: TokenBucket,
    traffic: Traffic,
    flows: FlowSample,
    /// Flows that were refused something.
    crowd: Crowd,
    weight: f64,
    local_limit: f64,
    limit: f64,
    /// The local limit as a multiple of its part, 1 to the config's `overbooking`.
    overbooked: f64,
    /// The debt of all limiters together.
    balance: Balance,
    silent: bool,
    /// How long there has been no traffic.
    silent_s: f64,
    /// Whether the weight comes from flows that were counted since the last silence.
    counted: bool,
    last_arrival: Instant,
    last_refusal: Option<Instant>,
}

/// Where the traffic is held back.
#[derive(Clone, Copy, Debug, PartialEq)]
enum HeldBack {
    /// There is none.
    Silent,
    /// Nobody knows yet: it has just begun.
    Begins,
    /// This limiter.
    Here,
    /// Something else: a slow link, a slow sender.
    Elsewhere,
}

impl FlowShare {
    pub(super) fn new(sharing: &Sharing, now: Instant, random: Xoshiro256PlusPlus) -> Self {
        let config = sharing.config();
        let limiters = f64::from(config.limiters);
        let local_limit = config.rate.get() / limiters;
        let depth = sharing.depth(1.0 / limiters);
        FlowShare {
            sharing: *sharing,
            memory: Memory::new(config.ewma_1s),
            random,
            bucket: TokenBucket::empty(sharing.rate(local_limit), depth, now),
            traffic: Traffic::new(config.ewma_1s, now),
            flows: FlowSample::new(config.sampled_flows),
            crowd: Crowd::new(),
            weight: IDLE_PART / limiters,
            local_limit,
            limit: config.rate.get(),
            overbooked: 1.0,
            balance: Balance::default(),
            silent: true,
            silent_s: f64::INFINITY,
            counted: false,
            last_arrival: now,
            last_refusal: None,
        }
    }

    fn arrived(&mut self, now: Instant, units: f64) {
        self.traffic.arrived(units);
        self.last_arrival = self.last_arrival.max(now);
    }

    fn passed(&mut self, flow: u64, units: f64) {
        self.traffic.passed(units);
        let watched = self.flows.passed(flow, units);
        let chance = self.sharing.config().resample_probability;
        if !watched && (self.flows.has_room() || uniform(&mut self.random) < chance) {
            self.flows.admit(flow);
        }
    }

    fn refused(&mut self, now: Instant, flow: u64) {
        self.crowd.refused(flow);
        self.last_refusal = Some(now);
    }

    fn held_back(&self, now: Instant, ended: Ended) -> HeldBack {
        if ended.arrived > 0.0 {
            if self.silent {
                return HeldBack::Begins;
            }
        } else if self.silent || self.is_over(now, ended) {
            return HeldBack::Silent;
        }
        let demand = self.traffic.arriving();
        let refused = self.has_refused(now, REFUSAL_MEMORY);
        if demand >= self.local_limit || (refused && demand >= SAW_TOOTH * self.local_limit) {
            HeldBack::Here
        } else {
            HeldBack::Elsewhere
        }
    }

    /// Whether the traffic is, of which nothing has arrived in the interval that has just ended.
    fn is_over(&self, now: Instant, ended: Ended) -> bool {
        let gap_s = self.gap_s();
        let timeout = Duration::from_secs_f64((TIMEOUT_GAPS * gap_s).min(TIMEOUT.as_secs_f64()));
        let longest_s = (SILENT_GAPS * gap_s).max(ended.seconds);
        let longest = Duration::from_secs_f64(longest_s.min(LONGEST_GAP.as_secs_f64()));
        now - self.last_arrival >= longest && !self.has_refused(now, timeout)
    }

    /// Seconds between packets, as expected.
    fn gap_s(&self) -> f64 {
        let demand = self.traffic.arriving();
        if demand > 0.0 {
            self.flows.packet_units() / demand
        } else {
            0.0
        }
    }

    /// Whether anything was refused in the last `time`.
    fn has_refused(&self, now: Instant, time: Duration) -> bool {
        self.last_refusal.is_some_and(|at| now - at <= time)
    }

    /// The part of what arrives that does not pass.
    fn refused_part(&self) -> f64 {
        let arriving = self.traffic.arriving();
        if arriving > 0.0 {
            1.0 - self.traffic.passing() / arriving
        } else {
            0.0
        }
    }

    /// The number of unbottlenecked flows that the traffic is worth; `None` while there is no flow to go by.
    fn equivalent_flows(&self) -> Option<f64> {
        let sampled = self.flows.equivalent_flows()?;
        let packets = self.flows.packets_per_s();
        Some(self.crowd.corrected(sampled, packets, self.refused_part()))
    }

    /// The weight that gives this limiter `rate` while the others have `remote`: figure 2, line 9.
    fn weight_for(&self, rate: f64, remote: f64) -> f64 {
        let rate = rate.min(self.limit * (1.0 - 1e-6));
        rate * remote / (self.limit - rate)
    }

    fn weigh(&mut self, ended: Ended, held_back: HeldBack, around: Around) {
        let demand = self.traffic.arriving();
        let mut kept = self.memory.kept(ended.seconds);
        let ideal = match held_back {
            HeldBack::Silent => {
                self.weight = around.floor;
                return;
            }
            HeldBack::Begins => {
                let fair = self.limit / around.connected;
                let rate = ended.arrived.min(fair.max(self.local_limit));
                self.weight = self.weight_for(rate, around.remote).max(around.floor);
                self.counted = false;
                return;
            }
            HeldBack::Here => {
                let counted = self.equivalent_flows();
                if counted.is_some() && !self.counted {
                    // There is nothing to average the first count with.
                    kept = 0.0;
                    self.counted = true;
                }
                counted.unwrap_or(self.weight)
            }
            HeldBack::Elsewhere => {
                let weight = self.weight_for(demand * HEADROOM, around.remote);
                // Where nobody is held back, weights would shrink together, and soon one flow would weigh them all up.
                weight / (around.remote + weight).min(1.0)
            }
        };
        let ideal = ideal.max(around.floor);
        let averaged = self.weight.powf(kept) * ideal.powf(1.0 - kept);
        self.weight = averaged.clamp(around.floor, WEIGHT_MAX);
    }

    /// Figure 2, line 10, averaged above L/N.
    fn divide(&mut self, ended: Ended, held_back: HeldBack, around: Around) {
        let part = self.limit * self.weight / (around.remote + self.weight);
        let passed = self.traffic.passing() + around.passed;
        let depth = self.sharing.config().burst.get();
        self.balance.end(ended.seconds, self.limit, passed, depth);
        if held_back == HeldBack::Silent {
            self.overbooked = 1.0;
            self.local_limit = part;
            return;
        }
        let kept = self.memory.kept(ended.seconds);
        let fill = self.limit / passed.max(1e-9 * self.limit);
        self.overbook(held_back, fill, kept);
        let target = part * self.overbooked * fill.min(1.0) * self.balance.part(self.limit);
        let averaged = self.local_limit * kept + target * (1.0 - kept);
        let fair = self.limit / around.connected;
        self.local_limit = if target > self.local_limit {
            let grown = self.local_limit * (GROWTH_1S * ended.seconds).exp();
            averaged.min(grown).max(target.min(fair))
        } else {
            averaged
        };
    }

    /// Brings the bucket to the local limit.
    fn resize(&mut self, now: Instant) {
        let rate = self.sharing.rate(self.local_limit);
        // A part of the whole limit, not of what is left of it: so all depths together stay what they were.
        let part = self.local_limit / self.sharing.config().rate.get();
        self.bucket.resize(now, rate, self.sharing.depth(part));
    }

    /// Books more than the limit while limiters that hold traffic back cannot fill their parts, with `fill` the
    /// multiple of what passes that the limit is.
    fn overbook(&mut self, held_back: HeldBack, fill: f64, kept: f64) {
        let towards = match held_back {
            HeldBack::Here if !self.balance.is_owed() => {
                // What passes follows a changed limit late, and would look like room that nobody can fill.
                let most = if self.balance.is_settled() {
                    OVERBOOKING_STEP
                } else {
                    1.0
                };
                self.overbooked * fill.clamp(0.5, most)
            }
            _ => 1.0,
        };
        let step = (1.0 - kept) / OVERBOOKING_MEMORY;
        let overbooked = self.overbooked + (towards - self.overbooked) * step;
        self.overbooked = overbooked.clamp(1.0, self.sharing.config().overbooking);
    }
}

/// The other limiters, as they count.
#[derive(Clone, Copy, Debug)]
struct Around {
    /// Limiters that are connected, this one included.
    connected: f64,
    /// The others' weights together.
    remote: f64,
    /// Units per second that passed the others.
    passed: f64,
    /// The least weight.
    floor: f64,
}

impl Around {
    fn new(remote: Remote, limiters: u32) -> Self {
        let connected = f64::from(remote.connected.clamp(1, limiters));
        let passed = remote.others.passed();
        // What others cannot have less than, whether they were heard or not.
        let least = IDLE_PART / connected;
        let remote = remote.others.demand().max(least * (connected - 1.0));
        // Makes the local limit IDLE_PART / N of the limit.
        let floor = IDLE_PART * remote / (connected - IDLE_PART);
        Around {
            connected,
            remote,
            passed,
            floor: floor.clamp(least, WEIGHT_MAX),
        }
    }
}

impl Limiter for FlowShare {
    fn handle(&mut self, now: Instant, flow: u64, units: f64) -> Verdict {
        let units = counted(units);
        self.arrived(now, units);
        if self.bucket.try_take(now, units) {
            self.passed(flow, units);
            Verdict::Forward
        } else {
            self.refused(now, flow);
            Verdict::Drop
        }
    }

    fn observe(&mut self, now: Instant, flow: u64, units: f64, waits: bool) {
        let units = counted(units);
        self.arrived(now, units);
        self.passed(flow, units);
        if waits {
            self.refused(now, flow);
        }
    }

    fn estimate(&mut self, now: Instant, remote: Remote) -> Update {
        let Some(ended) = self.traffic.end(now) else {
            return Update::measured(self.weight, self.traffic.passing());
        };
        let config = self.sharing.config();
        let around = Around::new(remote, config.limiters);
        let limit = self.sharing.limit_of(remote.connected);
        // Who is gone takes a part of everybody's limit away. What comes back with it is divided anew: a limiter alone has
        // all of its 1/N, and N times that would be the whole limit, N times.
        self.local_limit *= (limit / self.limit).min(1.0);
        if limit != self.limit {
            self.balance.limit_changed();
        }
        self.limit = limit;
        let memory_s = FLOW_MEMORY * self.memory.time_constant_s();
        self.flows.end(ended.seconds, memory_s);
        self.crowd.end(ended.seconds);
        let held_back = self.held_back(now, ended);
        if held_back == HeldBack::Begins {
            let long = self.silent_s >= LONGEST_GAP.as_secs_f64();
            self.traffic.begin_anew(ended, long);
        }
        self.weigh(ended, held_back, around);
        self.divide(ended, held_back, around);
        if held_back == HeldBack::Silent && !self.silent {
            self.flows.clear();
            self.crowd.clear();
            self.last_refusal = None;
        }
        self.silent = held_back == HeldBack::Silent;
        self.silent_s = match self.silent {
            true => self.silent_s + ended.seconds,
            false => 0.0,
        };
        self.resize(now);
        Update::measured(self.weight, self.traffic.passing())
    }

    fn part(&self) -> Share {
        self.bucket.share()
    }

    fn set_limit(&mut self, now: Instant, rate: Rate, burst: Burst) -> Result<(), SharingError> {
        let changed = self.sharing.with_limit(rate, burst)?;
        let factor = rate.get() / self.sharing.config().rate.get();
        self.sharing = changed;
        self.limit *= factor;
        self.local_limit *= factor;
        self.balance.limit_changed();
        self.resize(now);
        Ok(())
    }

    fn figures(&self) -> Figures {
        Figures {
            weight: self.weight,
            ..self.traffic.figures(self.bucket.rate().get(), self.limit)
        }
    }
}
