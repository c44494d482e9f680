//! Reading a trace, one arrival after the other.

use std::io::Read;

use super::binary::{self, Checksum};
use super::csv::{self, Lines};
use super::error::TraceError;
use super::header::TraceHeader;
use super::input::Input;
use super::writer::Order;
use crate::Arrival;

pub(super) const HEADER: &str = "the header";

/// The arrivals of a trace in order of time; memory does not grow with their number.
///
/// An error is the last item. Only an iterator that ends without one has given a whole trace.
#[derive(Debug)]
pub struct TraceReader<R> {
    input: Input<R>,
    format: Reading,
    header: TraceHeader,
    order: Order,
    is_over: bool,
}

#[derive(Debug)]
enum Reading {
    Binary(Checksum),
    Csv(Lines),
}

impl<R: Read> TraceReader<R> {
    /// Finds out the format and reads the header.
    ///
    /// # Errors
    /// [`TraceError`]: not a trace, cut, damaged.
    pub fn open(from: R) -> Result<Self, TraceError> {
        let mut input = Input::new(from);
        let begins = input.peek(binary::MAGIC.len())?;
        let mut format = format(begins)?;
        let header = match &mut format {
            Reading::Binary(checksum) => binary::read_header(&mut input, checksum)?,
            Reading::Csv(lines) => lines.read_header(&mut input)?,
        };
        match header.problem() {
            Some(text) => Err(TraceError::damaged(HEADER, text)),
            None => Ok(TraceReader {
                input,
                format,
                header,
                order: Order::default(),
                is_over: false,
            }),
        }
    }

    /// Who publishes. In CSV without our header, publishers come up with their first arrivals.
    pub fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// The header, when the arrivals have been read.
    pub fn into_header(self) -> TraceHeader {
        self.header
    }

    fn read(&mut self) -> Result<Option<Arrival>, TraceError> {
        let records = self.order.records();
        let arrival = match &mut self.format {
            Reading::Binary(checksum) => {
                binary::read_arrival(&mut self.input, checksum, self.order.last_ns(), records)
            }
            Reading::Csv(lines) => lines.read_arrival(&mut self.input, &mut self.header, records),
        }?;
        if let Some(arrival) = arrival
            && let Err(text) = self.order.accept(arrival, &self.header)
        {
            let at = match &self.format {
                Reading::Binary(_) => format!("arrival {}", records + 1),
                Reading::Csv(lines) => lines.place(),
            };
            return Err(TraceError::damaged(at, text));
        }
        Ok(arrival)
    }
}

impl<R: Read> Iterator for TraceReader<R> {
    type Item = Result<Arrival, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let item = self.read().transpose();
        self.is_over = !matches!(item, Some(Ok(_)));
        item
    }
}

/// The format of a file that begins so.
fn format(begins: &[u8]) -> Result<Reading, TraceError> {
    let version = binary::MAGIC.len() - 1;
    if begins == binary::MAGIC {
        return Ok(Reading::Binary(Checksum::new()));
    }
    if begins.is_empty() {
        return Err(TraceError::Foreign(String::from("the file is empty")));
    }
    if begins.len() <= version && binary::MAGIC.starts_with(begins) {
        return Err(TraceError::cut(HEADER));
    }
    let shown = begins.escape_ascii();
    if begins.starts_with(&binary::MAGIC[..version]) {
        let text = format!("it is of another version, \"{shown}\"");
        return Err(TraceError::Foreign(text));
    }
    let columns = &csv::COLUMNS.as_bytes()[..5];
    if begins.starts_with(b"#") || begins.starts_with(columns) {
        return Ok(Reading::Csv(Lines::default()));
    }
    let text = format!("it begins with \"{shown}\"");
    Err(TraceError::Foreign(text))
}
