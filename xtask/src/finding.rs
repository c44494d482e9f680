//! What a rule reports: where, which rule, what to do.

use std::fmt;

/// One place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Path from the top folder.
    pub path: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Name of the rule.
    pub rule: &'static str,
    /// What to do about it.
    pub advice: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}: {}",
            self.path, self.line, self.rule, self.advice
        )
    }
}
