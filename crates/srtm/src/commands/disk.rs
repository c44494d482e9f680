//! `srtm disk`: inspects messages on disk while no broker uses them.

mod dump;

use std::path::{Path, PathBuf};

use broker::{BACKLOG_FOLDER, LOGS_FOLDER};
use clap::{Args, Subcommand};
use disk::{FileReport, FileView, Folder, Logs, Untouched};

use crate::error::Failure;

const EXAMPLES: &str = "\
Examples:
  srtm disk check /var/lib/srtm";
const DUMP_EXAMPLES: &str = "\
Examples:
  srtm disk dump /var/lib/srtm
  srtm disk dump /var/lib/srtm --bodies | jq -r 'select(.topic == \"orders\") | .body | @base64d'";

/// Flags of `srtm disk`.
#[derive(Args, Debug)]
pub(crate) struct DiskCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Reads all files with messages, and says whose they are and what is damaged. Changes nothing.
    #[command(after_help = EXAMPLES)]
    Check {
        /// Data folder of a broker that does not run.
        #[arg(value_name = "FOLDER")]
        data_path: PathBuf,
    },
    /// Writes each message on disk as a line of JSON, and each damage with file and offset. Changes
    /// nothing.
    #[command(after_help = DUMP_EXAMPLES)]
    Dump {
        /// Data folder of a broker that does not run.
        #[arg(value_name = "FOLDER")]
        data_path: PathBuf,
        /// Writes bodies, too, as base64.
        #[arg(long)]
        bodies: bool,
    },
}

/// Runs it.
pub(crate) fn run(command: &DiskCommand) -> Result<(), Failure> {
    match &command.what {
        What::Check { data_path } => check(data_path),
        What::Dump { data_path, bodies } => dump::run(data_path, *bodies),
    }
}

fn check(data_path: &Path) -> Result<(), Failure> {
    let folder = data_path.join(BACKLOG_FOLDER);
    let found = std::fs::metadata(&folder);
    found.map_err(Failure::io(format!("looking at {}", folder.display())))?;
    let views = disk::inspect(&mut Folder::open(&folder)?)?;
    let mut damaged = 0;
    for view in &views {
        let lines = lines_of(view);
        damaged += usize::from(is_damaged(view));
        lines.iter().for_each(|line| println!("{line}"));
    }
    let segments = views.iter().flat_map(|view| &view.segments);
    let messages: usize = segments.map(|segment| segment.messages).sum();
    println!("{} files, {messages} messages", views.len());
    let logs = folder.join(LOGS_FOLDER);
    if logs.exists() {
        damaged += check_logs(&logs)?;
    }
    match damaged {
        0 => Ok(()),
        files => Err(Failure::Damaged { files }),
    }
}

/// Tells what logs have; gives how many of their files are damaged.
fn check_logs(folder: &Path) -> Result<usize, Failure> {
    let (logs, logged) = Logs::open(Untouched(Folder::open(folder)?), dump::LOGS, 0)?;
    for log in &logged.topics {
        let (topic, messages) = (&log.topic, logs.live(&log.topic));
        println!("log of topic {topic}: {messages} messages");
        if !log.is_whole {
            println!(
                "log of topic {topic}: messages of its queues in other files are not copied into it yet; the broker does that when it starts"
            );
        }
    }
    for report in &logged.reports {
        lines_of_report(report)
            .iter()
            .for_each(|line| println!("{LOGS_FOLDER}/{line}"));
        if report.is_nobodys {
            println!("{LOGS_FOLDER}/{}: nobody knows whose", report.file);
        }
    }
    println!("{} files of logs", logs.files());
    let damaged = logged.reports.iter();
    Ok(damaged
        .filter(|report| is_report_damaged(report) || report.is_nobodys)
        .count())
}

fn is_damaged(view: &FileView) -> bool {
    is_report_damaged(&view.report) || view.owner.is_none()
}

fn is_report_damaged(report: &FileReport) -> bool {
    let is_lost = report.messages_missing > 0 || report.failure.is_some();
    !report.damages.is_empty() || is_lost
}

fn lines_of(view: &FileView) -> Vec<String> {
    let file = &view.report.file;
    let messages: usize = view.segments.iter().map(|segment| segment.messages).sum();
    let owner = view.owner.as_ref();
    let owner = owner.map_or_else(|| String::from("nobody knows whose"), ToString::to_string);
    let mut lines = vec![format!("{file}: {messages} messages, {owner}")];
    lines.extend(lines_of_report(&view.report));
    lines
}

fn lines_of_report(report: &FileReport) -> Vec<String> {
    let (file, mut lines) = (&report.file, Vec::new());
    for damage in &report.damages {
        let (bytes, offset) = (damage.bytes, damage.offset);
        lines.push(format!("{file}: {bytes} bytes at {offset} are damaged"));
    }
    if report.messages_missing > 0 {
        let missing = report.messages_missing;
        lines.push(format!("{file}: {missing} messages are missing"));
    }
    if let Some(cut) = report.cut {
        let (bytes, offset) = (cut.bytes, cut.offset);
        lines.push(format!(
            "{file}: the last {bytes} bytes, from {offset} on, are not whole"
        ));
    }
    if report.is_unended {
        lines.push(format!(
            "{file}: not ended in order; its broker was killed, or it was cut"
        ));
    }
    if let Some(failure) = &report.failure {
        lines.push(format!("{file}: cannot be read: {failure}"));
    }
    lines
}
