//! Traces as CSV.
//!
//! Ours begin with `# srtm trace 1`, describe the publishers in comments, name them by index and
//! end in `# end N`. Others need only the line `at_ns,publisher,messages`: comments are skipped,
//! and the second column is the publisher's name, in the order in which names appear. No quotes: a
//! name holds no comma.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::time::Duration;

use clock::WallTime;

use super::error::TraceError;
use super::header::{self, TraceHeader, TracePublisher};
use super::input::Input;
use super::{MAX_LINE_BYTES, MAX_PUBLISHERS};
use crate::Arrival;

pub(super) const COLUMNS: &str = "at_ns,publisher,messages";
const OURS: &str = "srtm trace 1";

/// Where a reader of CSV stands.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Lines read so far.
    number: u64,
    line: Vec<u8>,
    /// Whether the header is ours: then there is an end mark.
    is_ours: bool,
    names: HashMap<String, u32>,
}

impl Lines {
    /// Reads up to the line with the columns.
    pub(super) fn read_header<R: Read>(
        &mut self,
        input: &mut Input<R>,
    ) -> Result<TraceHeader, TraceError> {
        let (mut header, mut source) = (TraceHeader::default(), Vec::new());
        loop {
            let Some(line) = self.next(input)? else {
                return Err(TraceError::cut(super::reader::HEADER));
            };
            let Some(comment) = line.strip_prefix('#') else {
                if line.replace(' ', "") == COLUMNS {
                    break;
                }
                let text = format!("not the columns {COLUMNS:?}");
                return Err(self.damaged(text));
            };
            let comment = comment.strip_prefix(' ').unwrap_or(comment).to_owned();
            if self.number == 1 {
                self.is_ours = comment == OURS;
                if !self.is_ours && comment.starts_with("srtm trace") {
                    let text = format!("it is of another version, {comment:?}");
                    return Err(TraceError::Foreign(text));
                }
            } else if self.is_ours {
                read_comment(&comment, &mut header, &mut source)
                    .map_err(|text| self.damaged(text))?;
            }
        }
        header.source = source.join("\n");
        Ok(header)
    }

    /// Reads one arrival, or the end mark after `records` of them.
    pub(super) fn read_arrival<R: Read>(
        &mut self,
        input: &mut Input<R>,
        header: &mut TraceHeader,
        records: u64,
    ) -> Result<Option<Arrival>, TraceError> {
        loop {
            let is_ours = self.is_ours;
            let before = self.number;
            let Some(line) = self.next(input)? else {
                if is_ours {
                    let text = format!("the arrivals, after line {before}");
                    return Err(TraceError::cut(text));
                }
                return Ok(None);
            };
            if is_ours && line.starts_with('#') {
                let end = line.to_owned();
                return self.read_end(input, &end, records).map(|()| None);
            }
            if !is_ours && (line.starts_with('#') || line.trim().is_empty()) {
                continue;
            }
            let mut columns = line.split(',').map(str::trim);
            let (Some(at), Some(publisher), Some(messages), None) = (
                columns.next(),
                columns.next(),
                columns.next(),
                columns.next(),
            ) else {
                return Err(self.damaged(format!("not three columns, {COLUMNS}")));
            };
            let at_ns = number(at, "time in nanoseconds");
            let messages = number(messages, "number of messages, 1 to 65535");
            let (publisher, name) = if is_ours {
                (number(publisher, "publisher's index"), None)
            } else {
                (Ok(0), Some(publisher.to_owned()))
            };
            let bad = |text| TraceError::damaged(format!("line {}", before + 1), text);
            let mut arrival = Arrival {
                at_ns: at_ns.map_err(bad)?,
                publisher: publisher.map_err(bad)?,
                messages: messages.map_err(bad)?,
            };
            if let Some(name) = name {
                arrival.publisher = self.index_of(name, header)?;
            }
            return Ok(Some(arrival));
        }
    }

    /// The line that was read last, for errors.
    pub(super) fn place(&self) -> String {
        format!("line {}", self.number)
    }

    /// The next line without its end.
    fn next<R: Read>(&mut self, input: &mut Input<R>) -> Result<Option<&str>, TraceError> {
        let Some(is_whole) = input.line(&mut self.line, MAX_LINE_BYTES)? else {
            return Ok(None);
        };
        self.number += 1;
        if !is_whole && self.line.len() == MAX_LINE_BYTES {
            return Err(self.damaged(format!("longer than {MAX_LINE_BYTES} bytes")));
        }
        if !is_whole {
            return Err(TraceError::cut(self.place()));
        }
        let place = self.place();
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        match str::from_utf8(line) {
            Ok(line) => Ok(Some(line)),
            Err(_) => Err(TraceError::damaged(place, "not UTF-8")),
        }
    }

    fn read_end<R: Read>(
        &mut self,
        input: &mut Input<R>,
        line: &str,
        records: u64,
    ) -> Result<(), TraceError> {
        let said = line.strip_prefix("# end ");
        let Some(said) = said.and_then(|said| said.parse::<u64>().ok()) else {
            return Err(self.damaged(format!("{line:?} between arrivals")));
        };
        if said != records {
            return Err(self.damaged(format!("it says {said} arrivals, there are {records}")));
        }
        if input.byte()?.is_some() {
            return Err(self.damaged("the file continues after the end"));
        }
        Ok(())
    }

    /// The index of a publisher that is named, new or old.
    fn index_of(&mut self, name: String, header: &mut TraceHeader) -> Result<u32, TraceError> {
        if let Some(index) = self.names.get(&name) {
            return Ok(*index);
        }
        if name.contains('"') {
            return Err(self.damaged("quotes: write names without quotes and commas"));
        }
        if let Some(text) = header::problem_of_name(&name) {
            return Err(self.damaged(text));
        }
        if header.publishers.len() == MAX_PUBLISHERS {
            return Err(self.damaged(format!("more than {MAX_PUBLISHERS} publishers")));
        }
        let index = header.publishers.len() as u32;
        header
            .publishers
            .push(TracePublisher::unknown(Some(name.clone())));
        self.names.insert(name, index);
        Ok(index)
    }

    fn damaged(&self, text: impl Into<String>) -> TraceError {
        TraceError::damaged(self.place(), text)
    }
}

/// Appends the header to `out`, and spills it with `spill` whenever it has grown.
pub(super) fn write_header<E>(
    header: &TraceHeader,
    out: &mut Vec<u8>,
    mut spill: impl FnMut(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    put(out, format_args!("# {OURS}"));
    if let Some(begin) = header.begin {
        put(out, format_args!("# begin_ns {}", begin.as_nanos()));
    }
    if let Some(length) = header.length {
        put(out, format_args!("# length_ns {}", length.as_nanos()));
    }
    if !header.source.is_empty() {
        for line in header.source.split('\n') {
            put(out, format_args!("# source {line}"));
        }
    }
    for (index, publisher) in header.publishers.iter().enumerate() {
        let profile = &publisher.profile;
        let group = profile.group.map(|group| format!(" group={group}"));
        let name = publisher.name.as_ref().map(|name| format!(" name={name}"));
        put(
            out,
            format_args!(
                "# publisher {index} class={} rate={} batch={} bytes={}{}{}",
                profile.class,
                profile.rate,
                profile.batch_messages,
                profile.body_bytes,
                group.unwrap_or_default(),
                name.unwrap_or_default(),
            ),
        );
        spill(out)?;
    }
    put(out, format_args!("{COLUMNS}"));
    Ok(())
}

/// Appends one arrival to `out`.
pub(super) fn write_arrival(arrival: Arrival, out: &mut Vec<u8>) {
    let Arrival {
        at_ns,
        publisher,
        messages,
    } = arrival;
    put(out, format_args!("{at_ns},{publisher},{messages}"));
}

/// Writes `out` and the end mark after `records` arrivals.
pub(super) fn write_end(
    to: &mut impl Write,
    records: u64,
    out: &mut Vec<u8>,
) -> Result<(), TraceError> {
    put(out, format_args!("# end {records}"));
    Ok(to.write_all(out)?)
}

/// One line of our header.
fn read_comment(
    comment: &str,
    header: &mut TraceHeader,
    source: &mut Vec<String>,
) -> Result<(), String> {
    let (key, rest) = comment.split_once(' ').unwrap_or((comment, ""));
    match key {
        "begin_ns" => header.begin = Some(WallTime::from_nanos(number(rest, "time")?)),
        "length_ns" => header.length = Some(Duration::from_nanos(number(rest, "time")?)),
        "source" => {
            let bytes = source.iter().map(|line| line.len() + 1).sum::<usize>();
            if bytes + rest.len() > super::MAX_SOURCE_BYTES {
                return Err(format!("more than {} bytes", super::MAX_SOURCE_BYTES));
            }
            source.push(rest.to_owned());
        }
        "publisher" => {
            let index = header.publishers.len();
            if index == MAX_PUBLISHERS {
                return Err(format!("more than {MAX_PUBLISHERS} publishers"));
            }
            header.publishers.push(read_publisher(rest, index)?);
        }
        _ => return Err(format!("{key:?} is unknown")),
    }
    Ok(())
}

/// `3 class=0 rate=10 batch=1 bytes=100 group=1 name=the rest of the line`.
fn read_publisher(text: &str, index: usize) -> Result<TracePublisher, String> {
    let (fields, name) = match text.split_once(" name=") {
        Some((fields, name)) => (fields, Some(name.to_owned())),
        None => (text, None),
    };
    let mut publisher = TracePublisher::unknown(name);
    let profile = &mut publisher.profile;
    let mut fields = fields.split(' ');
    if number::<usize>(fields.next().unwrap_or_default(), "index")? != index {
        return Err(format!("publisher {index} is due here"));
    }
    for field in fields {
        match field.split_once('=') {
            Some(("class", text)) => profile.class = number(text, "class")?,
            Some(("rate", text)) => profile.rate = number(text, "rate")?,
            Some(("batch", text)) => profile.batch_messages = number(text, "batch")?,
            Some(("bytes", text)) => profile.body_bytes = number(text, "body")?,
            Some(("group", text)) => profile.group = Some(number(text, "group")?),
            _ => return Err(format!("{field:?} is unknown")),
        }
    }
    Ok(publisher)
}

fn number<N: std::str::FromStr>(text: &str, what: &str) -> Result<N, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not a {what}"))
}

fn put(out: &mut Vec<u8>, line: std::fmt::Arguments<'_>) {
    out.extend_from_slice(line.to_string().as_bytes());
    out.push(b'\n');
}
