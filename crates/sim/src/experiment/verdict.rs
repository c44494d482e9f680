//! A finding, and whether results show it.

/// Whether a finding of the paper appears.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The experiment, or the figure where several are compared.
    pub experiment: String,
    /// The finding.
    pub finding: &'static str,
    /// Whether it appears.
    pub holds: bool,
    /// What it was judged by.
    pub figures: String,
}
