//! `srtm disk`: messages on disk, looked at while no broker has them.

use std::path::PathBuf;

use broker::BACKLOG_FOLDER;
use clap::{Args, Subcommand};
use disk::{FileView, Folder};

use crate::error::Failure;

const EXAMPLES: &str = "\
Examples:
  srtm disk check /var/lib/srtm";

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
}

/// Runs it.
pub(crate) fn run(command: &DiskCommand) -> Result<(), Failure> {
    let What::Check { data_path } = &command.what;
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
    match damaged {
        0 => Ok(()),
        files => Err(Failure::Damaged { files }),
    }
}

fn is_damaged(view: &FileView) -> bool {
    let report = &view.report;
    let is_lost = report.messages_missing > 0 || report.failure.is_some();
    !report.damages.is_empty() || is_lost || view.owner.is_none()
}

fn lines_of(view: &FileView) -> Vec<String> {
    let report = &view.report;
    let file = &report.file;
    let messages: usize = view.segments.iter().map(|segment| segment.messages).sum();
    let owner = view.owner.as_ref();
    let owner = owner.map_or_else(|| String::from("nobody knows whose"), ToString::to_string);
    let mut lines = vec![format!("{file}: {messages} messages, {owner}")];
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
