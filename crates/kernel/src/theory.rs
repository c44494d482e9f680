//! Queueing theory of tasks with shares: what to expect before anything is measured, and how to
//! calibrate from measurements.
//!
//! Every task is a queueing system of its own whose server is a share of the whole (Tempo, section
//! on the scheduling mechanism). Four tools follow from that:
//!
//! * [`guaranteed_rate`], [`Mm1`], [`mean_wait`], [`largest_share`]: what shares, rates and the
//!   number of threads imply.
//! * [`wait_bound`]: how long an event waits at worst, whatever other tasks do.
//! * [`Demand`]: the work that arrives within any window, which decides whether no event waits
//!   longer than a period.
//! * [`ShareSearch`]: the smallest share under which a wanted mean wait is measured.
//!
//! Rates are events per second. Nothing here is fitted to anything, and the costs of a turn beside
//! its events are left out.
//!
//! ```
//! use kernel::theory::{Mm1, guaranteed_rate, largest_share};
//!
//! // 10,000 events/s on the whole server, a fifth of it declared: 2,000 events/s.
//! let service_rate = guaranteed_rate(10_000.0, 0.2, 1.0);
//! let queue = Mm1 { arrival_rate: 1_500.0, service_rate };
//! let response = queue.mean_response().expect("it is stable");
//! assert_eq!(response.as_micros(), 2_000);
//! assert_eq!(largest_share(4, 1.0), 0.25);
//! ```

mod bound;
mod demand;
mod search;
#[cfg(all(test, not(feature = "loom")))]
mod tests;

pub use bound::{Claim, claims, wait_bound};
pub use demand::Demand;
pub use search::{Found, Infeasible, ShareSearch, Why};

use std::time::Duration;

/// Events per second that a task with `share` is served at least, of a server that serves `service_rate` events per
/// second and tasks whose shares sum up to `shares`: μ_j = μ · S_j / Σ S.
#[must_use]
pub fn guaranteed_rate(service_rate: f64, share: f64, shares: f64) -> f64 {
    service_rate * share / shares
}

/// A queue with exponential gaps between arrivals and exponential service times, one server.
///
/// For a task with a share it is an orientation, neither a bound nor a promise: the server is not slower by the share, it is
/// elsewhere for the rest of the time. While others leave room, events take less than this; when others leave none, a
/// task that has used its credits waits for the rest of a period, and its events may take longer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mm1 {
    /// λ, events per second.
    pub arrival_rate: f64,
    /// μ, events per second.
    pub service_rate: f64,
}

impl Mm1 {
    /// ρ = λ/μ: the part of the time that the server is busy, if that is below 1.
    #[must_use]
    pub fn intensity(&self) -> f64 {
        self.arrival_rate / self.service_rate
    }

    /// 1/(μ − λ): from arrival to the end of service; `None` where that grows without end.
    #[must_use]
    pub fn mean_response(&self) -> Option<Duration> {
        let spare = self.service_rate - self.arrival_rate;
        seconds(1.0 / spare).filter(|_| spare > 0.0)
    }

    /// ρ/(μ − λ): from arrival to the beginning of service; `None` where that grows without end.
    #[must_use]
    pub fn mean_wait(&self) -> Option<Duration> {
        let spare = self.service_rate - self.arrival_rate;
        seconds(self.intensity() / spare).filter(|_| spare > 0.0)
    }

    /// ρ/(1 − ρ): events that wait or are being served; `None` where they become ever more.
    #[must_use]
    pub fn mean_present(&self) -> Option<f64> {
        let response = self.mean_response()?;
        Some(mean_queue_length(self.arrival_rate, response))
    }

    /// The time from arrival to the end of service that the fraction `part` (0.99 for p99) of the events takes no longer
    /// than: exponentially distributed around the mean.
    #[must_use]
    pub fn response_percentile(&self, part: f64) -> Option<Duration> {
        let mean = self.mean_response()?.as_secs_f64();
        seconds(-mean * (-part).ln_1p())
    }
}

/// Little's law: events present in the mean, where `rate` per second pass and each stays for `time` in the mean.
#[must_use]
pub fn mean_queue_length(rate: f64, time: Duration) -> f64 {
    rate * time.as_secs_f64()
}

/// Little's law the other way round: the mean time that events stay, from their mean number and their rate per second.
/// `None` where nothing passes.
#[must_use]
pub fn mean_wait(queue_length: f64, rate: f64) -> Option<Duration> {
    seconds(queue_length / rate).filter(|_| rate > 0.0)
}

/// The largest part of all scheduling time that one task can have, with `threads` threads on as many processors, each of
/// which runs with probability `availability`, independently of the others: (1 − (1 − P)^N) / (N · P).
///
/// A task is with one thread at most, so it is served at most while at least one thread runs; N · P threads run in
/// the mean. For P = 1 that is 1/N; for P towards 0 it becomes 1, since then hardly ever two threads run at once. With P
/// fixed and N growing it behaves as 1/(N · P): the paper says 1/N, which is the same for P = 1 only.
///
/// It holds for threads that lose their processor between two turns. A thread that loses it in the middle of a turn keeps its
/// task: the task is then served while this one thread runs, P of the time, hence 1/N of the whole whatever P is.
///
/// An `availability` of 0 counts as one that goes towards 0; 0 threads count as 1.
#[must_use]
pub fn largest_share(threads: u32, availability: f64) -> f64 {
    let threads = f64::from(threads.max(1));
    let availability = availability.clamp(0.0, 1.0);
    if availability <= f64::EPSILON {
        return 1.0;
    }
    // 1 − (1 − P)^N, precise also where P is small.
    let some_run = -(threads * (-availability).ln_1p()).exp_m1();
    some_run / (threads * availability)
}

/// A time of so many seconds; `None` for what is not one.
fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}
