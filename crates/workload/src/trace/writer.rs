//! Writing a trace, one arrival after the other.

use std::io::Write;

use super::Format;
use super::binary::{self, Checksum};
use super::csv;
use super::error::TraceError;
use super::header::{self, TraceHeader};
use super::reader::HEADER;
use crate::Arrival;

/// Bytes that are collected before they are written.
const SPILL_BYTES: usize = 32 << 10;

/// A trace that is being written. What is there before [`TraceWriter::finish`] reads as cut.
#[derive(Debug)]
pub struct TraceWriter<W> {
    to: W,
    format: Format,
    out: Vec<u8>,
    checksum: Checksum,
    order: Order,
    /// The header without its texts: what arrivals are held against.
    header: TraceHeader,
}

/// What makes arrivals a trace: order, known publishers, messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Order {
    records: u64,
    last_ns: u64,
}

impl<W: Write> TraceWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// [`TraceError::Refused`] if a reader would not take the header, or the system's error.
    pub fn new(to: W, format: Format, header: &TraceHeader) -> Result<Self, TraceError> {
        if let Some(text) = header.problem() {
            return Err(TraceError::Refused {
                at: HEADER.to_owned(),
                text,
            });
        }
        let mut writer = TraceWriter {
            to,
            format,
            out: Vec::with_capacity(SPILL_BYTES + 256),
            checksum: Checksum::new(),
            order: Order::default(),
            header: TraceHeader {
                source: String::new(),
                ..header.clone()
            },
        };
        let mut out = std::mem::take(&mut writer.out);
        let spill = |out: &mut Vec<u8>| writer.spill(out);
        match format {
            Format::Binary => binary::write_header(header, &mut out, spill)?,
            Format::Csv => csv::write_header(header, &mut out, spill)?,
        }
        writer.out = out;
        Ok(writer)
    }

    /// Writes one arrival.
    ///
    /// # Errors
    /// [`TraceError::Refused`] if it goes back in time, comes from nobody in the header, sends nothing or comes after the
    /// recording's length; or the system's error.
    pub fn write(&mut self, arrival: Arrival) -> Result<(), TraceError> {
        let Order { records, last_ns } = self.order;
        self.order
            .accept(arrival, &self.header)
            .map_err(|text| TraceError::Refused {
                at: format!("arrival {}", records + 1),
                text,
            })?;
        let mut out = std::mem::take(&mut self.out);
        match self.format {
            Format::Binary => binary::write_arrival(arrival, last_ns, &mut out),
            Format::Csv => csv::write_arrival(arrival, &mut out),
        }
        let spilt = self.spill(&mut out);
        self.out = out;
        spilt
    }

    /// Arrivals written so far.
    pub fn arrivals(&self) -> u64 {
        self.order.records
    }

    /// Writes the end mark and flushes.
    ///
    /// # Errors
    /// The system's.
    pub fn finish(mut self) -> Result<W, TraceError> {
        let records = self.order.records;
        match self.format {
            Format::Binary => {
                binary::write_end(&mut self.to, self.checksum, records, &mut self.out)?;
            }
            Format::Csv => csv::write_end(&mut self.to, records, &mut self.out)?,
        }
        self.to.flush()?;
        Ok(self.to)
    }

    /// Writes what has been collected, if it is much.
    fn spill(&mut self, out: &mut Vec<u8>) -> Result<(), TraceError> {
        if out.len() >= SPILL_BYTES {
            self.checksum.add(out);
            self.to.write_all(out)?;
            out.clear();
        }
        Ok(())
    }
}

impl Order {
    /// Arrivals accepted so far.
    pub(super) fn records(&self) -> u64 {
        self.records
    }

    /// The time of the last one.
    pub(super) fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Takes the next arrival, or says why it cannot be the next.
    #[inline]
    pub(super) fn accept(&mut self, arrival: Arrival, header: &TraceHeader) -> Result<(), String> {
        let Arrival {
            at_ns,
            publisher,
            messages,
        } = arrival;
        let publishers = header.publishers.len();
        if publisher as usize >= publishers {
            return Err(format!(
                "publisher {publisher} is out of range: there are {publishers}, counted from 0"
            ));
        }
        if messages == 0 {
            return Err(String::from("it has no messages"));
        }
        if at_ns < self.last_ns {
            return Err(format!(
                "it goes back in time, from {} to {at_ns} ns",
                self.last_ns
            ));
        }
        let end_ns = header
            .length
            .and_then(header::nanos)
            .unwrap_or(u64::MAX - 1);
        if at_ns > end_ns {
            return Err(format!(
                "at {at_ns} ns it is later than the end, {end_ns} ns"
            ));
        }
        self.last_ns = at_ns;
        self.records += 1;
        Ok(())
    }
}
