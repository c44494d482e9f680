//! Measurements that a control plane asks of a broker, reports and profiling windows (SRTM-long,
//! sections 4.2 and 5.4), and recordings of arrivals, which anybody may ask for.

use link::Attachment;
use topics::TopicNews;
pub use topics::{SAMPLES_MIN, TRACE_ARRIVALS_MAX, TraceResult, WindowOrder, WindowResult};

/// Which parts a reactor is to report.
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
