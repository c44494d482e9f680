//! SCHED_FIFO's priorities.

use std::fmt;
use std::str::FromStr;

use crate::error::RealtimeError;

/// A priority of SCHED_FIFO, 1 (lowest) to 99 (highest). Any of them goes before all ordinary threads; threads that the
/// kernel serves interrupts with have 50 as a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// The highest.
    pub const MAX: Priority = Priority(99);

    /// The priority `value`.
    ///
    /// # Errors
    /// [`RealtimeError::Priority`] outside 1 to 99.
    pub fn new(value: u8) -> Result<Priority, RealtimeError> {
        if (1..=Priority::MAX.0).contains(&value) {
            Ok(Priority(value))
        } else {
            Err(RealtimeError::Priority(value.to_string()))
        }
    }

    /// Its number.
    #[must_use]
    pub fn get(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    /// 10: above ordinary threads and below those of interrupts, which bring the messages.
    fn default() -> Self {
        Priority(10)
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Priority {
    type Err = RealtimeError;

    fn from_str(text: &str) -> Result<Priority, RealtimeError> {
        let value = text.parse().ok();
        let priority = value.and_then(|value| Priority::new(value).ok());
        priority.ok_or_else(|| RealtimeError::Priority(text.to_owned()))
    }
}
