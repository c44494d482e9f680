//! Topics beside the one being placed.

use limit::{Burst, Rate};

use super::Trace;
use crate::{BrokerIndex, Publisher};

/// A topic that stays where it is, on brokers that another topic is fitted to: on each of them its promise counts
/// like the other's own (SRTM, section IV-B, step 3).
#[derive(Clone, Copy, Debug)]
pub struct Neighbour<'a> {
    /// Its name.
    pub name: &'a str,
    /// The percentile that its latency is promised for, above 0 and below 100.
    pub percentile: f64,
    /// The latency that is promised, in microseconds; infinite where nothing is.
    pub promise_us: f64,
    /// Its limit.
    pub limit: Option<(Rate, Burst)>,
    /// Its publishers.
    pub publishers: &'a [Publisher],
    /// Where they are.
    pub placed: &'a [Option<BrokerIndex>],
    /// By broker, the latency that the window measured, in microseconds.
    pub latency_us: &'a [Option<f64>],
    /// What arrived of it in the same window, on the same clock; publishers are those above. Without it a replay knows the
    /// topic as load only.
    pub trace: Option<&'a Trace>,
}
