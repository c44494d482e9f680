//! What a control plane asks of a broker: reports, and profiling windows (SRTM-long, sections 4.2 and 5.4); and
//! recordings of arrivals, which anybody may ask for.

use link::Attachment;

use crate::topic::TopicNews;

/// What a reactor is to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportOrder {
    /// Number of the report, for the leases that will answer it.
    pub number: u64,
    /// Name everything that is here, not only what changed.
    pub is_first: bool,
    /// About so long may topics become, in bytes.
    pub bytes_max: usize,
}

/// One reactor's part of a report.
#[derive(Debug, Default, PartialEq)]
pub struct ReactorReport {
    /// What there is to say of topics.
    pub news: TopicNews,
    /// Publishers that came or went.
    pub attachments: Vec<Attachment>,
}

/// How a profiling window is to be run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowOrder {
    /// Percentile of the end-to-end latency, e.g. 99.
    pub percentile: f64,
    /// Whether arrivals are traced.
    pub with_trace: bool,
    /// The latency that is promised at that percentile, microseconds: reports say from now on how it fares.
    pub promise_us: Option<f64>,
}

/// What a profiling window showed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WindowResult {
    /// Messages released within it.
    pub messages: u64,
    /// End-to-end latency at the percentile, microseconds; `None`: fewer samples than [`SAMPLES_MIN`].
    pub latency_us: Option<f64>,
    /// Median of the same.
    pub p50_us: Option<f64>,
    /// Samples behind it.
    pub samples: u64,
    /// Names of the publishers in `arrivals`, by their position.
    pub publishers: Vec<String>,
    /// Publish commands in order of arrival: nanoseconds since 1970, publisher, messages.
    pub arrivals: Vec<(u64, u32, u32)>,
    /// The trace did not fit ([`TRACE_ARRIVALS_MAX`]) and lacks its end.
    pub is_trace_cut: bool,
}

/// What a recording of a topic's arrivals, or a window's trace of them, holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceResult {
    /// Names of the publishers in `arrivals`, by their position.
    pub publishers: Vec<String>,
    /// Publish commands: nanoseconds since 1970, publisher, messages.
    pub arrivals: Vec<(u64, u32, u32)>,
    /// A bound was reached ([`TRACE_ARRIVALS_MAX`]): what came later is missing.
    pub is_cut: bool,
}

/// Fewer samples than this tell nothing about a percentile.
pub const SAMPLES_MIN: u64 = 100;

/// Arrivals kept in the trace of one window or recording at most, 16 bytes each.
pub const TRACE_ARRIVALS_MAX: usize = 1 << 20;
