//! How many flows were refused something lately, without remembering any of them.
//!
//! Where more is refused than passes, a TCP flow no longer has a window: it sends a packet per
//! timeout, waits twice as long after each one that is lost, and is fast for a second when it is
//! lucky. A sample of flows then holds the lucky ones. They are about as fast at a limiter that has
//! much as at one that has little, so the traffic divided by their rate says how much traffic there
//! is, not how many flows want it: limiters would keep whatever parts they happen to have, and
//! drift. There the flows themselves are counted, and each counts as one, because what it sends
//! says nothing of what it wants.
//!
//! *Linear counting* (Whang, Vander-Zanden and Taylor): a flow marks one of m cells, by its hash.
//! With n flows a cell stays free with probability e^(−n/m), so n = m ln(m/free). A cell remembers
//! when it was marked last, not by whom.
//!
//! It does not tell a flow that wants little from one that wants much. So it is used only where
//! both hold: more than a third is refused, and few packets pass per flow ([`Crowd::corrected`]).
//! Figures: docs/sharing.md.

/// m. 3,500 flows are counted to 1.3 % (one standard deviation), 20,000 to 3.6 %.
const CELLS: usize = 4096;

/// How long a flow counts after a refusal, seconds: a timeout that was doubled four times. Longer, and short transfers that
/// are over would be most of what counts.
const MEMORY_S: f64 = 5.0;

/// The unit of cells' ages, seconds.
const TICK_S: f64 = 0.05;

/// An age beyond all memory. All ages that count are below it.
const FORGOTTEN: u8 = u8::MAX;

/// The part that is refused from which on flows begin to live by timeouts, and that at which all of them do.
const SOME_TIMEOUTS: f64 = 1.0 / 3.0;
const ONLY_TIMEOUTS: f64 = 0.5;

/// Packets of a flow within [`MEMORY_S`] from which on it can be told from others by its rate, and up to which it cannot be
/// at all.
const TELLING_PACKETS: f64 = 12.0;
const FEW_PACKETS: f64 = 6.0;

#[derive(Clone, Debug)]
pub(super) struct Crowd {
    /// By cell, ticks since it was marked.
    ages: Box<[u8; CELLS]>,
    /// The rest of the last tick.
    rest_s: f64,
}

impl Crowd {
    pub(super) fn new() -> Self {
        Crowd {
            ages: Box::new([FORGOTTEN; CELLS]),
            rest_s: 0.0,
        }
    }

    /// Counts a flow that is refused something.
    pub(super) fn refused(&mut self, flow: u64) {
        self.ages[cell(flow)] = 0;
    }

    /// Ends an interval of `seconds`.
    pub(super) fn end(&mut self, seconds: f64) {
        self.rest_s += seconds;
        let ticks = (self.rest_s / TICK_S) as u32;
        self.rest_s = (self.rest_s - f64::from(ticks) * TICK_S).max(0.0);
        let ticks = ticks.min(u32::from(FORGOTTEN)) as u8;
        for age in self.ages.iter_mut() {
            *age = age.saturating_add(ticks);
        }
    }

    /// Flows that were refused something within the memory, from 0 to m ln m = 34,000.
    pub(super) fn flows(&self) -> f64 {
        let oldest = (MEMORY_S / TICK_S) as u8;
        let free = self.ages.iter().filter(|&&age| age > oldest).count();
        let cells = CELLS as f64;
        cells * (cells / free.max(1) as f64).ln()
    }

    /// The number of flows where a sample says `sampled`, `packets` pass per second and a part `refused` of what arrives
    /// does not: the sample's, as long as a sample can tell.
    pub(super) fn corrected(&self, sampled: f64, packets: f64, refused: f64) -> f64 {
        let by_timeouts = (refused - SOME_TIMEOUTS) / (ONLY_TIMEOUTS - SOME_TIMEOUTS);
        if by_timeouts <= 0.0 {
            return sampled;
        }
        let flows = self.flows().max(1.0);
        let each = packets * MEMORY_S / flows;
        let untold = (TELLING_PACKETS / each).ln() / (TELLING_PACKETS / FEW_PACKETS).ln();
        let counted = by_timeouts.min(1.0) * untold.clamp(0.0, 1.0);
        sampled.powf(1.0 - counted) * flows.powf(counted)
    }

    /// Forgets all flows.
    pub(super) fn clear(&mut self) {
        self.ages.fill(FORGOTTEN);
    }
}

/// The cell of a flow, by SplitMix64's finaliser: flows may be numbered one by one, or in steps.
fn cell(flow: u64) -> usize {
    let mut mixed = flow.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    (mixed % CELLS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(flows: std::ops::Range<u64>) -> Crowd {
        let mut crowd = Crowd::new();
        flows.for_each(|flow| crowd.refused(flow));
        crowd
    }

    #[test]
    fn flows_are_counted_however_they_are_numbered() {
        for flows in [1, 10, 100, 1_000, 5_000, 20_000_u64] {
            for step in [1, 4_096, 1 << 32, 0x1_0000_0001] {
                let mut crowd = Crowd::new();
                for flow in 0..flows {
                    // Twice is once.
                    crowd.refused(flow * step);
                    crowd.refused(flow * step);
                }
                let error = crowd.flows() / flows as f64 - 1.0;
                assert!(error.abs() < 0.12, "{flows} flows by {step}: {error}");
            }
        }
        assert_eq!(Crowd::new().flows(), 0.0);
        let all = of(0..10_000_000).flows();
        assert!((30_000.0..40_000.0).contains(&all), "{all}: the bound");
    }

    /// Whatever the intervals are, also if they are no multiples of a tick.
    #[test]
    fn a_flow_counts_for_five_seconds() {
        for interval_s in [0.001, 0.01, 0.07, 0.5, 3.0] {
            let mut crowd = of(0..50);
            let mut passed_s = 0.0;
            while passed_s + interval_s < 4.9 {
                crowd.end(interval_s);
                passed_s += interval_s;
            }
            assert!(crowd.flows() > 45.0, "{interval_s}: after {passed_s}");
            crowd.end(5.2 - passed_s);
            assert_eq!(crowd.flows(), 0.0, "{interval_s}");
        }
        let mut crowd = of(0..50);
        crowd.end(1e9);
        assert_eq!(crowd.flows(), 0.0, "ages do not begin anew");
        let mut crowd = of(0..50);
        crowd.clear();
        assert_eq!(crowd.flows(), 0.0);
    }

    #[test]
    fn the_sample_is_believed_where_it_can_tell() {
        let crowd = of(0..1_000);
        let flows = crowd.flows();
        // By packets per second and flow, and the part that is refused.
        for (each, refused, counted) in [
            (0.5, 0.3, 0.0),
            (0.5, 0.6, 1.0),
            (1.2, 0.6, 1.0),
            (1.7, 0.6, 0.5),
            (2.4, 0.6, 0.0),
            (100.0, 0.9, 0.0),
            (0.5, 5.0 / 12.0, 0.5),
            (0.0, 1.0, 1.0),
        ] {
            let found = crowd.corrected(10.0, each * flows, refused);
            let expected = 10.0 * (flows / 10.0).powf(counted);
            let off = (found / expected).ln().abs();
            assert!(off < 0.03, "{each} {refused}: {found}, not {expected}");
            if counted == 0.0 {
                assert_eq!(found, 10.0, "{each} {refused}: to the last digit");
            }
        }
        assert_eq!(
            Crowd::new().corrected(3.0, 10.0, 0.9),
            3.0,
            "nobody refused"
        );
        assert_eq!(Crowd::new().corrected(3.0, 0.0, 0.9), 1.0, "nothing passes");
    }
}
