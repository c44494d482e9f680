//! `srtm trace`: writes down the arrivals of a workload, sums traces up, converts them.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use clock::DurationText;
use serde_json::json;
use workload::Spec;
use workload::trace::{Summary, TraceHeader};

use crate::error::Failure;
use crate::trace_file;

const RECORD_EXAMPLES: &str = "\
Examples:
  srtm trace record hall.toml -o hall.trace
  srtm trace record hall.toml -o hall.csv        CSV, for other tools";
const SHOW_EXAMPLES: &str = "\
Examples:
  srtm trace show hall.trace
  srtm trace show hall.trace --json";
const CONVERT_EXAMPLES: &str = "\
Examples:
  srtm trace convert hall.trace hall.csv
  srtm trace convert measured.csv measured.trace     a CSV with the columns at_ns,publisher,messages";

/// What to do with traces.
#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Records who sends what, and when, in the warm-up and measurement of a workload.
    #[command(after_help = RECORD_EXAMPLES)]
    Record(RecordFlags),
    /// Summarises a trace: publishers, messages, rate, batches.
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ShowFlags),
    /// Converts a trace to another format; a name that ends in .csv means CSV.
    #[command(after_help = CONVERT_EXAMPLES)]
    Convert(ConvertFlags),
}

/// Flags of `srtm trace record`.
#[derive(Args, Debug)]
pub(crate) struct RecordFlags {
    /// The workload (see docs/workloads.md).
    #[arg(value_name = "W.toml")]
    workload: PathBuf,
    /// The trace; an existing file is replaced.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Flags of `srtm trace show`.
#[derive(Args, Debug)]
pub(crate) struct ShowFlags {
    /// The trace.
    #[arg(value_name = "FILE")]
    trace: PathBuf,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Flags of `srtm trace convert`.
#[derive(Args, Debug)]
pub(crate) struct ConvertFlags {
    /// The trace.
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// The new trace; an existing file is replaced.
    #[arg(value_name = "TO")]
    to: PathBuf,
}

/// Does what the command says.
pub(crate) fn run(command: &TraceCommand) -> Result<(), Failure> {
    match command {
        TraceCommand::Record(flags) => record(flags),
        TraceCommand::Show(flags) => show(flags),
        TraceCommand::Convert(flags) => convert(flags),
    }
}

fn record(flags: &RecordFlags) -> Result<(), Failure> {
    let shown = flags.workload.display();
    let text = fs::read_to_string(&flags.workload).map_err(Failure::io(format!("read {shown}")))?;
    let spec = Spec::parse(&text).map_err(|error| Failure::Usage(format!("{shown}: {error}")))?;
    let header = TraceHeader::of_spec(&spec, text.replace('\r', ""));
    // A spec is at most a day long.
    let end_ns = spec.length().as_nanos() as u64;
    let arrivals = spec.arrivals().take_while(|arrival| arrival.at_ns < end_ns);
    let written = trace_file::write(&flags.output, &header, arrivals.map(Ok))?;
    println!(
        "{}: {written} sends in {}",
        flags.output.display(),
        DurationText(spec.length())
    );
    Ok(())
}

fn show(flags: &ShowFlags) -> Result<(), Failure> {
    let (header, summary) = read(&flags.trace)?;
    if flags.json {
        println!("{:#}", to_json(&header, &summary));
    } else {
        print!("{}", to_text(&header, &summary));
    }
    Ok(())
}

/// Reads twice: a part is not converted, and CSV names its publishers only as they come up.
fn convert(flags: &ConvertFlags) -> Result<(), Failure> {
    let (header, _) = read(&flags.from)?;
    let again = trace_file::open(&flags.from)?;
    let written = trace_file::write(&flags.to, &header, again)?;
    println!("{}: {written} sends", flags.to.display());
    Ok(())
}

/// Reads a trace to its end without keeping it.
fn read(path: &Path) -> Result<(TraceHeader, Summary), Failure> {
    let mut reader = trace_file::open(path)?;
    let mut summary = Summary::default();
    while let Some(arrival) = reader.next() {
        summary.add(arrival.map_err(trace_file::failed(path))?, reader.header());
    }
    Ok((reader.into_header(), summary))
}

fn to_text(header: &TraceHeader, summary: &Summary) -> String {
    let publishers = header.publishers.len();
    let active = summary.active_publishers();
    let mut text = format!("publishers  {publishers}, {active} of them sent\n");
    let groups = groups(header);
    if groups > 0 {
        text.push_str(&format!("groups      {groups}\n"));
    }
    text.push_str(&format!(
        "messages    {} in {} sends, {} bytes of bodies\n",
        summary.messages, summary.arrivals, summary.body_bytes
    ));
    text.push_str(&format!(
        "rate        {:.1} messages/s over {:.3} s\n",
        summary.messages_per_second(header),
        summary.seconds(header)
    ));
    text.push_str(&format!(
        "batches     {} to {} messages, {:.2} in the mean\n",
        summary.min_batch_messages,
        summary.max_batch_messages,
        summary.mean_batch_messages()
    ));
    text.push_str(&format!(
        "span        {:.9} s to {:.9} s\n",
        summary.first_ns as f64 / 1e9,
        summary.last_ns as f64 / 1e9
    ));
    if let Some(begin) = header.begin {
        let begin_s = begin.as_nanos() as f64 / 1e9;
        text.push_str(&format!(
            "began       {begin_s:.3} s after 1970-01-01 UTC\n"
        ));
    }
    for line in header.source.lines() {
        text.push_str(&format!("source      {line}\n"));
    }
    text
}

fn to_json(header: &TraceHeader, summary: &Summary) -> serde_json::Value {
    json!({
        "publishers": header.publishers.len(),
        "active_publishers": summary.active_publishers(),
        "groups": groups(header),
        "messages": summary.messages,
        "sends": summary.arrivals,
        "body_bytes": summary.body_bytes,
        "messages_per_second": summary.messages_per_second(header),
        "seconds": summary.seconds(header),
        "min_batch": summary.min_batch_messages,
        "max_batch": summary.max_batch_messages,
        "mean_batch": summary.mean_batch_messages(),
        "first_ns": summary.first_ns,
        "last_ns": summary.last_ns,
        "begin_ns": header.begin.map(clock::WallTime::as_nanos),
        "source": header.source,
    })
}

/// Correlation groups of more than one.
fn groups(header: &TraceHeader) -> usize {
    let mut groups: Vec<u32> = header
        .publishers
        .iter()
        .filter_map(|p| p.profile.group)
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups.len()
}

#[cfg(test)]
mod tests;
