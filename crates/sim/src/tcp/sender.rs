//! The sender: how much may be in the network, and what to send when.

use std::time::Duration;

use clock::Instant;

use super::round_trip::RoundTrip;
use super::scoreboard::{Delivered, Newest, Scoreboard};
use super::window::Window;
use super::{Ack, Content, MSS_BYTES, Segment};

/// Segments that must have overtaken another until it counts as lost without a wait.
const REORDERED: u32 = 3;

/// How late a look for reordered segments is, by the granularity of timers.
const REORDERING_MARGIN: Duration = Duration::from_millis(2);

/// Times that a SYN is repeated after the same time; the waits double from then on.
const STEADY_SYNS: u32 = 4;

/// The most SYNs; then the transfer is given up.
const SYNS: u32 = 11;

/// The sending end of one transfer.
#[derive(Clone, Debug)]
pub struct Sender {
    stage: Stage,
    /// Bytes to send; `None` for as many as possible.
    transfer_bytes: Option<u64>,
    scoreboard: Scoreboard,
    phase: Phase,
    window: Window,
    round_trip: RoundTrip,
    newest: Newest,
    /// Whether new segments go before lost ones, until it is clear whether a timeout was right.
    new_first: bool,
    probe: Option<Probe>,
    timers: Timers,
    /// A segment that goes out whatever the window.
    forced: Option<Forced>,
    counts: SenderCounts,
}

/// What a sender has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounts {
    /// SYNs.
    pub syns: u32,
    /// Data segments, repeated ones included.
    pub segments: u64,
    /// Repeated data segments.
    pub repeated: u64,
    /// Probes of the end of a window.
    pub probes: u32,
    /// Timeouts of data.
    pub timeouts: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Closed,
    Opening,
    Open,
    Done,
    GivenUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing is known to be lost.
    Open,
    /// Repairing losses that were seen, until all below `high` is there.
    Recovery { high: u32 },
    /// Repairing after a timeout. `doubted`: it may have been needless.
    Loss { high: u32, doubted: bool },
}

/// A probe that is on its way.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// Segments below this were sent before it, or are it.
    high: u32,
    repeats: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forced {
    Syn,
    New,
    Last,
}

#[derive(Clone, Copy, Debug)]
struct Timers {
    timeout_at: Instant,
    probe_at: Instant,
    reordering_at: Instant,
}

impl Timers {
    const NONE: Timers = Timers {
        timeout_at: Instant::MAX,
        probe_at: Instant::MAX,
        reordering_at: Instant::MAX,
    };
}

impl Sender {
    /// Of `transfer_bytes`, at least 1, or of as much as possible.
    pub fn new(transfer_bytes: Option<u64>) -> Self {
        Sender {
            stage: Stage::Closed,
            transfer_bytes: transfer_bytes.map(|bytes| bytes.max(1)),
            scoreboard: Scoreboard::default(),
            phase: Phase::Open,
            window: Window::default(),
            round_trip: RoundTrip::default(),
            newest: Newest::default(),
            new_first: false,
            probe: None,
            timers: Timers::NONE,
            forced: None,
            counts: SenderCounts::default(),
        }
    }

    /// Begins.
    pub fn open(&mut self, now: Instant) {
        if self.stage == Stage::Closed {
            self.stage = Stage::Opening;
            self.send_syn(now);
        }
    }

    /// Stops: nothing is sent any more.
    pub fn stop(&mut self) {
        if !matches!(self.stage, Stage::Done | Stage::GivenUp) {
            self.stage = Stage::GivenUp;
        }
        self.timers = Timers::NONE;
        self.forced = None;
    }

    /// Takes an acknowledgement.
    pub fn acknowledged(&mut self, now: Instant, ack: Ack) {
        match self.stage {
            Stage::Opening => self.established(now, ack),
            Stage::Open => self.progress(now, ack),
            Stage::Closed | Stage::Done | Stage::GivenUp => {}
        }
    }

    /// Does what is due at `now`; nothing before [`Sender::deadline`].
    pub fn expire(&mut self, now: Instant) {
        if now >= self.timers.reordering_at {
            self.timers.reordering_at = Instant::MAX;
            self.find_losses(now);
            if matches!(self.phase, Phase::Recovery { .. }) {
                self.window.reduce(self.scoreboard.flying(), 1, true);
            }
        } else if now >= self.timers.probe_at {
            self.timers.probe_at = Instant::MAX;
            self.send_probe(now);
        } else if now >= self.timers.timeout_at {
            self.time_out(now);
        }
    }

    /// When to call [`Sender::expire`]; [`Instant::MAX`] for never.
    pub fn deadline(&self) -> Instant {
        let Timers {
            timeout_at,
            probe_at,
            reordering_at,
        } = self.timers;
        timeout_at.min(probe_at).min(reordering_at)
    }

    /// The next segment to put on the wire at `now`; to be asked until there is none.
    pub fn next_segment(&mut self, now: Instant) -> Option<Segment> {
        let number = match self.forced.take() {
            Some(Forced::Syn) => {
                return Some(Segment {
                    content: Content::Syn,
                    sent_at: now,
                });
            }
            Some(Forced::New) => self.send_new(now),
            Some(Forced::Last) => self.send_again(now, self.scoreboard.next() - 1),
            None => self.next_number(now)?,
        };
        Some(Segment {
            content: Content::Data {
                number,
                bytes: self.bytes_of(number),
            },
            sent_at: now,
        })
    }

    /// Whether everything is acknowledged.
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// What it has done so far.
    pub fn counts(&self) -> SenderCounts {
        self.counts
    }

    /// Segments that may be in the network.
    pub fn window(&self) -> u32 {
        self.window.size()
    }

    fn next_number(&mut self, now: Instant) -> Option<u32> {
        if self.stage != Stage::Open || self.scoreboard.flying() >= self.window.size() {
            return None;
        }
        let lost = self.scoreboard.first_lost();
        if self.new_first && self.has_new() {
            return Some(self.send_new(now));
        }
        match lost {
            Some(number) => Some(self.send_again(now, number)),
            None => self.has_new().then(|| self.send_new(now)),
        }
    }

    fn send_syn(&mut self, now: Instant) {
        self.counts.syns += 1;
        self.forced = Some(Forced::Syn);
        self.timers.timeout_at = now + self.round_trip.timeout();
        if self.counts.syns > STEADY_SYNS {
            self.round_trip.timed_out();
        }
    }

    fn established(&mut self, now: Instant, ack: Ack) {
        self.stage = Stage::Open;
        self.round_trip.measured(now - ack.echo);
        if self.counts.syns > 2 {
            self.window.collapse();
        }
        self.timers = Timers::NONE;
    }

    fn send_new(&mut self, now: Instant) -> u32 {
        if self.scoreboard.is_empty() {
            self.timers.timeout_at = now + self.round_trip.timeout();
        }
        let number = self.scoreboard.send_new(now);
        self.counts.segments += 1;
        self.window.sent();
        self.await_probe(now);
        number
    }

    fn send_again(&mut self, now: Instant, number: u32) -> u32 {
        self.scoreboard.send_again(now, number);
        self.counts.segments += 1;
        self.counts.repeated += 1;
        self.window.sent();
        if number == self.scoreboard.first() {
            self.timers.timeout_at = now + self.round_trip.timeout();
        }
        number
    }

    /// The time for a probe of the window's end, if this is a time for one.
    fn await_probe(&mut self, now: Instant) {
        let calm = self.phase == Phase::Open && self.scoreboard.sacked() == 0;
        self.timers.probe_at = if calm && !self.scoreboard.is_empty() && self.probe.is_none() {
            let probe_at = now + self.round_trip.probe_timeout(self.scoreboard.len());
            probe_at.min(self.timers.timeout_at)
        } else {
            Instant::MAX
        };
    }

    fn send_probe(&mut self, now: Instant) {
        let repeats = !self.has_new();
        self.forced = Some(if repeats { Forced::Last } else { Forced::New });
        self.probe = Some(Probe {
            high: self.scoreboard.next() + u32::from(!repeats),
            repeats,
        });
        self.counts.probes += 1;
        self.timers.timeout_at = now + self.round_trip.timeout();
    }

    fn time_out(&mut self, now: Instant) {
        if self.stage == Stage::Opening {
            if self.counts.syns >= SYNS {
                self.stop();
            } else {
                self.send_syn(now);
            }
            return;
        }
        self.counts.timeouts += 1;
        // What a recovery or the last timeout has reduced is not reduced again before something arrives.
        let reduced = match self.phase {
            Phase::Open => false,
            Phase::Recovery { .. } => true,
            Phase::Loss { .. } => self.round_trip.is_backed_off(),
        };
        if !reduced {
            self.window.halve_threshold();
        }
        self.scoreboard.lose_all();
        self.window.collapse();
        self.phase = Phase::Loss {
            high: self.scoreboard.next(),
            doubted: true,
        };
        self.new_first = false;
        self.probe = None;
        self.timers = Timers::NONE;
        self.round_trip.timed_out();
        self.timers.timeout_at = now + self.round_trip.timeout();
    }

    fn progress(&mut self, now: Instant, ack: Ack) {
        let first = self.scoreboard.first();
        let delivered = self.account(now, ack);
        let advanced = self.scoreboard.first() > first;
        if advanced {
            self.round_trip.measured(now - ack.echo);
        }
        self.new_first = false;
        self.judge_probe(ack);
        self.leave_phase();
        let marked = self.find_losses(now);
        match self.phase {
            Phase::Recovery { .. } => {
                let flying = self.scoreboard.flying();
                self.window
                    .reduce(flying, delivered, marked > 0 || !advanced);
            }
            Phase::Open if advanced => self.window.grow(delivered),
            Phase::Open => {}
            Phase::Loss { high, doubted } => {
                self.doubt(high, doubted, advanced, ack);
                if advanced {
                    self.window.grow(delivered);
                }
            }
        }
        if self.is_all_there() {
            self.stage = Stage::Done;
            self.timers = Timers::NONE;
            return;
        }
        if advanced {
            self.timers.timeout_at = if self.scoreboard.is_empty() {
                Instant::MAX
            } else {
                now + self.round_trip.timeout()
            };
        }
        self.await_probe(now);
    }

    /// Brings the scoreboard up to date; returns how many segments are newly there.
    fn account(&mut self, now: Instant, ack: Ack) -> u32 {
        let (newest, shortest) = (&mut self.newest, self.round_trip.shortest());
        let mut delivered = 0;
        let mut take = |arrived: Delivered| {
            delivered += 1;
            newest.take(now, arrived, shortest);
        };
        self.scoreboard.acknowledge(ack.cumulative, &mut take);
        if let Some(arrived) = ack.sacked.and_then(|number| self.scoreboard.sack(number)) {
            take(arrived);
        }
        delivered
    }

    /// A probe that repeated a segment and made it arrive has repaired a loss, which costs half of the window.
    fn judge_probe(&mut self, ack: Ack) {
        let Some(probe) = self.probe else {
            return;
        };
        if ack.cumulative < probe.high {
            return;
        }
        self.probe = None;
        if probe.repeats && !ack.duplicate {
            self.window.halve_threshold();
            self.window.settle();
        }
    }

    fn leave_phase(&mut self) {
        let first = self.scoreboard.first();
        match self.phase {
            Phase::Recovery { high } if first >= high => {
                self.window.settle();
                self.phase = Phase::Open;
            }
            Phase::Loss { high, .. } if first >= high => self.phase = Phase::Open,
            _ => {}
        }
    }

    /// Marks losses, and begins to repair them if nothing was amiss before.
    fn find_losses(&mut self, now: Instant) -> u32 {
        let calm = self.phase == Phase::Open && self.scoreboard.sacked() < REORDERED;
        let reordering = if calm {
            self.round_trip
                .smoothed()
                .min(self.round_trip.shortest() / 4)
        } else {
            Duration::ZERO
        };
        let (marked, wait) = self.scoreboard.mark_lost(now, self.newest, reordering);
        self.timers.reordering_at = match wait {
            Some(wait) => now + wait + REORDERING_MARGIN,
            None => Instant::MAX,
        };
        if marked > 0 && self.phase == Phase::Open {
            self.window.begin_reduction();
            self.phase = Phase::Recovery {
                high: self.scoreboard.next(),
            };
            self.timers.probe_at = Instant::MAX;
        }
        marked
    }

    /// After a timeout whose first repetition is answered new segments are sent: if they get through in order, nothing
    /// was lost.
    fn doubt(&mut self, high: u32, doubted: bool, advanced: bool, ack: Ack) {
        if !doubted {
            return;
        }
        let next = self.scoreboard.next();
        if next > high {
            let doubted = ack.sacked.is_none() && !ack.duplicate;
            self.phase = Phase::Loss { high, doubted };
        } else if advanced && self.has_new() {
            self.new_first = true;
            self.phase = Phase::Loss {
                high: next,
                doubted: true,
            };
        } else {
            self.phase = Phase::Loss {
                high,
                doubted: false,
            };
        }
    }

    fn segments(&self) -> u32 {
        match self.transfer_bytes {
            None => u32::MAX,
            Some(bytes) => u32::try_from(bytes.div_ceil(u64::from(MSS_BYTES))).unwrap_or(u32::MAX),
        }
    }

    fn has_new(&self) -> bool {
        self.scoreboard.next() < self.segments()
    }

    fn is_all_there(&self) -> bool {
        self.scoreboard.first() >= self.segments()
    }

    fn bytes_of(&self, number: u32) -> u32 {
        match self.transfer_bytes {
            Some(bytes) if number + 1 == self.segments() => {
                (bytes - u64::from(number) * u64::from(MSS_BYTES)) as u32
            }
            _ => MSS_BYTES,
        }
    }
}
