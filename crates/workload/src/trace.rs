//! Trace files: arrivals that were recorded, or that follow from a spec, kept for another program
//! or another day.
//!
//! A trace is a [`TraceHeader`] (who publishes, where it comes from) and arrivals in order of time.
//! [`TraceWriter`] and [`TraceReader`] go over any `Write` and `Read`; both stream, so a trace may
//! be longer than memory. There are two [`Format`]s, byte by byte in `docs/workloads.md`: a compact
//! one, and CSV for other tools.
//!
//! A cut, damaged or foreign file is an error that says where. Both formats end in a mark with the
//! number of arrivals (and, in the compact one, a checksum), so that a part is never taken for the
//! whole: a reader of arrivals has a whole trace only when the iterator has ended without an error.
//! Programs write to a temporary name and rename.

mod binary;
mod csv;
mod error;
mod header;
mod input;
mod reader;
mod summary;
#[cfg(test)]
mod tests;
mod writer;

use std::io::Read;

use crate::Arrival;

pub use error::TraceError;
pub use header::{TraceHeader, TracePublisher};
pub use reader::TraceReader;
pub use summary::Summary;
pub use writer::TraceWriter;

/// Longest name of a publisher.
pub const MAX_NAME_BYTES: usize = 255;
/// Longest text of where a trace comes from.
pub const MAX_SOURCE_BYTES: usize = 1 << 20;
/// Longest line of CSV, and of the source.
pub const MAX_LINE_BYTES: usize = 1 << 16;
/// Most publishers.
pub const MAX_PUBLISHERS: usize = crate::spec::MAX_PUBLISHERS as usize;

/// How a trace is written down. Readers find it out themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Differences of time as numbers of variable length, with a checksum: about six bytes per arrival.
    #[default]
    Binary,
    /// Lines `at_ns,publisher,messages`, with the header in comments.
    Csv,
}

/// A whole trace in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Who publishes, where it comes from.
    pub header: TraceHeader,
    /// What was sent when.
    pub arrivals: Vec<Arrival>,
}

/// Reads a whole trace. Publishers that the trace does not describe get their measured rate and largest batch.
///
/// # Errors
/// [`TraceError`]; then nothing of the trace is to be used.
pub fn read_all(from: impl Read) -> Result<Trace, TraceError> {
    let mut reader = TraceReader::open(from)?;
    let arrivals = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    let mut header = reader.into_header();
    header.measure(&arrivals);
    Ok(Trace { header, arrivals })
}
