//! The smallest share under which a wanted mean wait is measured.
//!
//! How the wait falls with the share depends on the distributions of arrivals and service, so it is
//! measured (Tempo, section on the scheduling mechanism: the share is increased until the wait is
//! adequate or the configuration is found not to be feasible). The share is doubled until the wait
//! holds, so that others lose no more than they must, and then bisected between the last that did
//! not hold and the first that did. The search assumes that a larger share never waits longer;
//! where measurements are noisy, the share found is one under which the wait was measured, not the
//! smallest.

use std::fmt;
use std::time::Duration;

use crate::share::CpuShare;

/// What is searched for, and within which bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareSearch {
    /// The mean wait that is wanted.
    pub wanted: Duration,
    /// The share to begin with, which is not gone below.
    pub least: CpuShare,
    /// All that others leave.
    pub most: CpuShare,
    /// The share found is at most this part larger than one that did not hold: 0.05 for 5 %.
    pub tolerance: f64,
    /// Measurements at most; at least one is made.
    pub measurements_max: u32,
}

/// A share under which the wanted wait holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// The smallest that held.
    pub share: CpuShare,
    /// The mean wait that was measured under it.
    pub wait: Duration,
    /// Measurements that were made.
    pub measurements: u32,
}

/// No share that was measured holds the wanted wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Infeasible {
    /// The shortest wait, and its share; `None` where the task was unstable under every share.
    pub best: Option<(CpuShare, Duration)>,
    /// Why no more was tried.
    pub why: Why,
    /// Measurements that were made.
    pub measurements: u32,
}

/// Why a search ends without a share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// Not even all that others leave is enough.
    NothingLeft(CpuShare),
    /// As many measurements as were allowed.
    Measurements(u32),
}

impl ShareSearch {
    /// Searches. `measure` puts a share in force and gives the mean wait under it, `None` where the task is unstable.
    ///
    /// # Errors
    /// What `measure` returns; the search ends with it.
    pub fn run<E>(
        &self,
        mut measure: impl FnMut(CpuShare) -> Result<Option<Duration>, E>,
    ) -> Result<Result<Found, Infeasible>, E> {
        let mut best: Option<(CpuShare, Duration)> = None;
        let mut missed = None;
        let mut share = self.least.min(self.most);
        let mut measurements = 0;
        let mut found = loop {
            measurements += 1;
            let wait = measure(share)?;
            if let Some(wait) = wait.filter(|&wait| wait <= self.wanted) {
                break Found {
                    share,
                    wait,
                    measurements,
                };
            }
            if let Some(wait) = wait
                && best.is_none_or(|(_, shortest)| wait < shortest)
            {
                best = Some((share, wait));
            }
            missed = Some(share);
            let why = if share == self.most {
                Some(Why::NothingLeft(self.most))
            } else {
                (measurements >= self.measurements_max).then_some(Why::Measurements(measurements))
            };
            if let Some(why) = why {
                return Ok(Err(Infeasible {
                    best,
                    why,
                    measurements,
                }));
            }
            share = fraction(share.as_f64() * 2.0, self.most);
        };
        while let Some(low) = missed
            && found.measurements < self.measurements_max
            && found.share.as_f64() > low.as_f64() * (1.0 + self.tolerance)
        {
            let middle = fraction((low.as_f64() + found.share.as_f64()) / 2.0, found.share);
            if middle == low || middle == found.share {
                break;
            }
            found.measurements += 1;
            match measure(middle)? {
                Some(wait) if wait <= self.wanted => (found.share, found.wait) = (middle, wait),
                _ => missed = Some(middle),
            }
        }
        Ok(Ok(found))
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::NothingLeft(most) => write!(f, "others leave only {most}"),
            Why::Measurements(count) => write!(f, "{count} measurements were allowed"),
        }
    }
}

/// The share of so much, at most `most`.
fn fraction(value: f64, most: CpuShare) -> CpuShare {
    CpuShare::new(value).map_or(most, |share| share.min(most))
}
