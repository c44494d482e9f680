//! Shares of the period: those that tasks declare, and the rest for tasks that declare none.

use std::fmt;

use crate::error::KernelError;

const WHOLE_PPM: u32 = 1_000_000;

/// A fraction of the period that a task is entitled to: above 0, at most 1, in millionths (Tempo, section on the scheduling
/// mechanism). Millionths are summed exactly, so that 0.5 + 0.3 + 0.2 is 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuShare(u32);

/// The sum of what tasks declare. Never above one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    declared_ppm: u32,
    undeclared: u32,
}

impl CpuShare {
    /// The whole period.
    pub const WHOLE: CpuShare = CpuShare(WHOLE_PPM);

    /// The share that is the fraction `value`, rounded to a millionth.
    ///
    /// # Errors
    /// [`KernelError::Share`] for what is not a number, below half a millionth, or above 1.
    pub fn new(value: f64) -> Result<CpuShare, KernelError> {
        let ppm = (value * f64::from(WHOLE_PPM)).round();
        if (1.0..=f64::from(WHOLE_PPM)).contains(&ppm) {
            Ok(CpuShare(ppm as u32))
        } else {
            Err(KernelError::Share(value))
        }
    }

    /// The fraction, 0 to 1.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(WHOLE_PPM)
    }

    pub(crate) fn as_ppm(self) -> u32 {
        self.0
    }

    /// The share of so many millionths; none of none.
    pub(crate) fn from_ppm(ppm: u32) -> Option<CpuShare> {
        (ppm > 0).then_some(CpuShare(ppm))
    }

    /// So much of `period_ns` nanoseconds.
    #[must_use]
    pub fn of_ns(self, period_ns: u64) -> u64 {
        let ns = u128::from(period_ns) * u128::from(self.0) / u128::from(WHOLE_PPM);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

impl Shares {
    /// Notes a task with its share, or one that takes what is left.
    ///
    /// # Errors
    /// [`KernelError::Oversubscribed`] where the sum would exceed 1.
    pub fn add(&mut self, share: Option<CpuShare>) -> Result<(), KernelError> {
        let Some(CpuShare(ppm)) = share else {
            self.undeclared += 1;
            return Ok(());
        };
        if self.declared_ppm + ppm > WHOLE_PPM {
            return Err(KernelError::Oversubscribed {
                wanted: CpuShare(ppm).as_f64(),
                declared: self.declared(),
            });
        }
        self.declared_ppm += ppm;
        Ok(())
    }

    /// Forgets a task that was [added](Shares::add) with `share`.
    pub fn remove(&mut self, share: Option<CpuShare>) {
        match share {
            Some(CpuShare(ppm)) => self.declared_ppm = self.declared_ppm.saturating_sub(ppm),
            None => self.undeclared = self.undeclared.saturating_sub(1),
        }
    }

    /// The sum of the declared shares, 0 to 1.
    #[must_use]
    pub fn declared(&self) -> f64 {
        f64::from(self.declared_ppm) / f64::from(WHOLE_PPM)
    }

    /// The part of `period_ns` nanoseconds that each task without a declared share gets: what is left, in equal parts.
    #[must_use]
    pub fn left_for_each_ns(&self, period_ns: u64) -> u64 {
        let left = u64::from(WHOLE_PPM - self.declared_ppm);
        let left_ns = u128::from(period_ns) * u128::from(left) / u128::from(WHOLE_PPM);
        u64::try_from(left_ns).unwrap_or(u64::MAX) / u64::from(self.undeclared.max(1))
    }
}

impl fmt::Debug for CpuShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuShare({self})")
    }
}

impl fmt::Display for CpuShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_f64())
    }
}

impl std::str::FromStr for CpuShare {
    type Err = KernelError;

    fn from_str(text: &str) -> Result<CpuShare, KernelError> {
        CpuShare::new(text.trim().parse().unwrap_or(f64::NAN))
    }
}
