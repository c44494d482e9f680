//! Decides whether a rest between turns pays. On some machines it saves a tenth of the time per
//! message, on others it only adds latency. So the loop tries both under load now and then, and
//! keeps the cheaper one.

use std::time::Duration;

use clock::Instant;

/// A trial alternates between turns with rests and without, in windows of this length.
const WINDOW: Duration = Duration::from_millis(100);
/// So many pairs of windows make a verdict.
const PAIRS: u32 = 9;
/// A rest pays where most windows with it cost at most this fraction of those without: less is not
/// worth the latency.
const WORTH: f64 = 0.95;
/// Bytes below which a window says nothing.
const BYTES_MIN: u64 = 20_000;
/// A verdict holds so long, for the load may be another one then.
const VERDICT_HOLDS: Duration = Duration::from_secs(30);

/// Tries out whether resting pays, and says whether to rest.
#[derive(Debug)]
pub(super) struct Resting {
    /// Rests are allowed now.
    is_allowed: bool,
    /// When what goes on ends: a window of a trial, or the verdict.
    ends: Instant,
    trial: Option<Trial>,
    /// Bytes received so far.
    bytes: u64,
}

/// Windows so far.
#[derive(Debug, Default)]
struct Trial {
    /// Time of the core and bytes when the window began.
    at_begin: (Duration, u64),
    /// Nanoseconds per byte of the window with rests, once it is over.
    with_rests: Option<f64>,
    pairs: u32,
    /// Pairs in which the rests paid.
    paid: u32,
}

impl Resting {
    /// It rests until the first trial, which comes soon.
    pub(super) fn new(now: Instant) -> Resting {
        Resting {
            is_allowed: true,
            ends: now + WINDOW,
            trial: None,
            bytes: 0,
        }
    }

    /// Whether to rest.
    #[inline]
    pub(super) fn is_allowed(&self) -> bool {
        self.is_allowed
    }

    /// So many bytes were received.
    #[inline]
    pub(super) fn received(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Whether [`Resting::go_on`] is to be called.
    #[inline]
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.ends
    }

    /// A window or a verdict is over; `spent` is the time that this thread has had of a core.
    pub(super) fn go_on(&mut self, now: Instant, spent: Duration) {
        self.ends = now + WINDOW;
        let Some(trial) = &mut self.trial else {
            self.is_allowed = true;
            self.trial = Some(Trial {
                at_begin: (spent, self.bytes),
                ..Trial::default()
            });
            return;
        };
        let (time, bytes) = (
            spent.saturating_sub(trial.at_begin.0),
            self.bytes - trial.at_begin.1,
        );
        trial.at_begin = (spent, self.bytes);
        if bytes < BYTES_MIN {
            // No load to rest under. What the pair had so far was under another load.
            trial.with_rests = None;
            self.is_allowed = true;
            return;
        }
        let cost = time.as_nanos() as f64 / bytes as f64;
        match trial.with_rests.take() {
            None => {
                trial.with_rests = Some(cost);
                self.is_allowed = false;
            }
            Some(with_rests) => {
                trial.pairs += 1;
                trial.paid += u32::from(with_rests <= cost * WORTH);
                self.is_allowed = true;
            }
        }
        if trial.pairs == PAIRS {
            self.is_allowed = trial.paid > PAIRS / 2;
            self.trial = None;
            self.ends = now + VERDICT_HOLDS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a loop for `seconds` of virtual time that is given `bytes_per_s`, and spends `cost_ns` per byte, with rests and
    /// without. Gives how long it was allowed to rest in the last third.
    fn rested(seconds: u64, bytes_per_s: usize, cost_ns: [f64; 2]) -> f64 {
        let turn = Duration::from_micros(200);
        let mut now = Instant::ZERO;
        let mut resting = Resting::new(now);
        let (mut spent, mut allowed, mut turns) = (0.0, 0.0, 0.0);
        let end = now + Duration::from_secs(seconds);
        // The machine's own noise, alike in every run: a window is off by up to a tenth.
        let mut noise = 1_u64;
        while now < end {
            now += turn;
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let off = 0.9 + 0.2 * ((noise >> 33) as f64 / f64::from(1_u32 << 31));
            let bytes = bytes_per_s / 5000;
            resting.received(bytes);
            spent += bytes as f64 * cost_ns[usize::from(!resting.is_allowed())] * off;
            if resting.is_due(now) {
                resting.go_on(now, Duration::from_nanos(spent as u64));
            }
            if now.as_nanos() > end.as_nanos() / 3 * 2 {
                turns += 1.0;
                allowed += f64::from(u8::from(resting.is_allowed()));
            }
        }
        allowed / turns
    }

    #[test]
    fn it_rests_where_that_saves_and_nowhere_else() {
        let much = 2_000_000;
        for (cost_ns, at_least, at_most) in [
            ([70.0, 80.0], 0.95, 1.0),
            ([80.0, 80.0], 0.0, 0.05),
            ([90.0, 80.0], 0.0, 0.05),
            ([78.0, 80.0], 0.0, 0.05),
        ] {
            let part = rested(60, much, cost_ns);
            assert!((at_least..=at_most).contains(&part), "{cost_ns:?}: {part}");
        }
    }

    #[test]
    fn without_load_nothing_is_tried() {
        assert!(rested(60, 100_000, [90.0, 80.0]) > 0.99);
    }
}
