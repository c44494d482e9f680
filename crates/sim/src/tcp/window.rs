//! How much may be in the network: NewReno's growth, and reductions in proportion to what arrives (RFC 6937).

/// Segments that may be sent before anything is acknowledged (RFC 6928).
const INITIAL_WINDOW: u32 = 10;

/// The largest window: what a receiver's buffer holds.
const WINDOW_MAX: u32 = 2048;

/// The smallest slow start threshold.
const LEAST_THRESHOLD: u32 = 2;

/// A congestion window, segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    size: u32,
    /// Acknowledgements towards the next segment of growth.
    credit: u32,
    threshold: u32,
    reduction: Reduction,
}

/// A reduction that goes on.
#[derive(Clone, Copy, Debug, Default)]
struct Reduction {
    window_before: u32,
    delivered: u32,
    sent: u32,
}

impl Default for Window {
    fn default() -> Self {
        Window {
            size: INITIAL_WINDOW,
            credit: 0,
            threshold: u32::MAX,
            reduction: Reduction::default(),
        }
    }
}

impl Window {
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// A segment was sent.
    pub(super) fn sent(&mut self) {
        self.reduction.sent += 1;
    }

    /// Begins with one segment.
    pub(super) fn collapse(&mut self) {
        self.size = 1;
        self.credit = 0;
    }

    /// What is lost is to cost half of the window.
    pub(super) fn halve_threshold(&mut self) {
        self.threshold = (self.size / 2).max(LEAST_THRESHOLD);
    }

    /// The window is what it is to be after a reduction.
    pub(super) fn settle(&mut self) {
        self.size = self.threshold;
    }

    pub(super) fn begin_reduction(&mut self) {
        self.halve_threshold();
        self.credit = 0;
        self.reduction = Reduction {
            window_before: self.size,
            ..Reduction::default()
        };
    }

    /// The window during a recovery with `flying` segments in the network: half of what it was goes out per window that
    /// arrives, and never less than it takes to come back to the threshold if more than half was lost.
    pub(super) fn reduce(&mut self, flying: u32, delivered: u32, more_lost: bool) {
        if delivered == 0 {
            return;
        }
        self.reduction.delivered += delivered;
        let Reduction {
            window_before,
            delivered: all,
            sent,
        } = self.reduction;
        let wanted = if flying > self.threshold {
            let owed = (all * self.threshold).div_ceil(window_before.max(1));
            owed.saturating_sub(sent)
        } else {
            let owed = all.saturating_sub(sent).max(delivered) + u32::from(!more_lost);
            owed.min(self.threshold - flying)
        };
        self.size = flying + wanted.max(u32::from(sent == 0));
    }

    /// A segment per segment below the threshold, a segment per window above.
    pub(super) fn grow(&mut self, delivered: u32) {
        let mut left = delivered;
        if self.size < self.threshold {
            let step = left.min(self.threshold - self.size);
            self.size += step;
            left -= step;
        }
        self.credit += left;
        if self.credit >= self.size {
            self.credit -= self.size;
            self.size += 1;
        }
        self.size = self.size.min(WINDOW_MAX);
    }
}
