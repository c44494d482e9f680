//! A broker's memory of one topic's traffic.

use std::time::Duration;

use clock::Instant;

use crate::{InvalidReport, Traffic};

/// Length of a history: `steps` steps of `step_ms`. The paper's: 10 of 1 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLength {
    steps: usize,
    step_ms: u64,
}

/// Tokens asked for and greatest backlog of the last steps. Its size is fixed when it is made.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    length: HistoryLength,
    /// The closed steps; a ring once it is full.
    closed: Vec<Step>,
    /// Where the next closed step goes.
    next: usize,
    open: Step,
    opened_at: Instant,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Step {
    tokens: f64,
    max_backlog: f64,
}

impl HistoryLength {
    /// A history of `steps` steps of `step_ms` milliseconds.
    ///
    /// # Errors
    /// [`InvalidReport::HistoryLength`] unless there are 1 to 600 steps of 10 ms to 60 s.
    pub fn new(steps: usize, step_ms: u64) -> Result<Self, InvalidReport> {
        if (1..=600).contains(&steps) && (10..=60_000).contains(&step_ms) {
            Ok(HistoryLength { steps, step_ms })
        } else {
            Err(InvalidReport::HistoryLength { steps, step_ms })
        }
    }

    /// All steps together.
    pub fn duration(&self) -> Duration {
        Duration::from_millis(self.step_ms * self.steps as u64)
    }

    fn step(&self) -> Duration {
        Duration::from_millis(self.step_ms)
    }
}

impl Default for HistoryLength {
    fn default() -> Self {
        HistoryLength {
            steps: 10,
            step_ms: 1000,
        }
    }
}

impl History {
    /// A history that begins at `now` and knows of nothing.
    pub fn new(length: HistoryLength, now: Instant) -> Self {
        History {
            length,
            closed: Vec::with_capacity(length.steps),
            next: 0,
            open: Step::default(),
            opened_at: now,
        }
    }

    /// Notes `tokens` asked for at `now`, and the backlog with them: everything that waits for
    /// tokens, these included, plus
    /// [`TokenBucket::unfinished_at`](crate::TokenBucket::unfinished_at). One call per batch is as
    /// good as one per message, since the backlog is greatest after the last of them. Never
    /// allocates.
    #[inline]
    pub fn arrived(&mut self, now: Instant, tokens: f64, backlog: f64) {
        self.advance(now);
        // What is no number counts as nothing.
        self.open.tokens += tokens.max(0.0);
        self.open.max_backlog = self.open.max_backlog.max(backlog);
    }

    /// Notes the backlog alone: at the end of a step in which nothing arrived something may still
    /// wait.
    pub fn waiting(&mut self, now: Instant, backlog: f64) {
        self.arrived(now, 0.0, backlog);
    }

    /// The traffic of the closed steps, and of the open step its backlog.
    ///
    /// Before the first step has closed its tokens count as those of one whole step. Sums that are
    /// beyond belief stop at [`Traffic::MAX`].
    pub fn traffic(&mut self, now: Instant) -> Traffic {
        self.advance(now);
        let tokens: f64 = self.closed.iter().map(|step| step.tokens).sum();
        let tokens = if self.closed.is_empty() {
            self.open.tokens
        } else {
            tokens
        };
        let seconds = self.length.step().as_secs_f64() * self.closed.len().max(1) as f64;
        let backlogs = self.closed.iter().map(|step| step.max_backlog);
        let max_backlog = backlogs.fold(self.open.max_backlog, f64::max);
        Traffic {
            mean_rate: (tokens / seconds).clamp(0.0, Traffic::MAX),
            max_backlog: max_backlog.clamp(0.0, Traffic::MAX),
        }
    }

    /// Closes the steps that have ended by `now`. A clock that goes backwards closes none.
    #[inline]
    fn advance(&mut self, now: Instant) {
        if now >= self.opened_at + self.length.step() {
            self.close_until(now);
        }
    }

    fn close_until(&mut self, now: Instant) {
        let step = self.length.step();
        let ended = (now - self.opened_at).as_nanos() / step.as_nanos();
        // Beyond a whole history every step is empty but the one that was open, which is out of it
        // too.
        let to_close = ended.min(self.length.steps as u128 + 1);
        for _ in 0..to_close {
            self.close();
        }
        let ended_ns = u64::try_from(ended * step.as_nanos()).unwrap_or(u64::MAX);
        self.opened_at += Duration::from_nanos(ended_ns);
    }

    fn close(&mut self) {
        let step = std::mem::take(&mut self.open);
        if self.closed.len() < self.length.steps {
            self.closed.push(step);
        } else {
            self.closed[self.next] = step;
        }
        self.next = (self.next + 1) % self.length.steps;
    }
}
