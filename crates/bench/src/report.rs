//! Results for machines (a JSON line each, with everything needed to judge it) and for people (a table).

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use model::Machine;
use serde::Serialize;

use crate::error::BenchError;
use crate::sys;

/// The machine that this runs on.
pub fn this_machine() -> Machine {
    let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Machine::parse(&cpu_info, &kernel)
}

/// One result with its circumstances.
#[derive(Debug, Clone, Serialize)]
pub struct Record<'a, W: Serialize, R: Serialize> {
    /// What kind of measurement: `run`, `compare`, `sweep`, `throughput`, `limit`.
    pub kind: &'a str,
    /// The broker.
    pub peer: &'a str,
    /// Which repetition.
    pub round: u32,
    /// Seconds since the Unix epoch.
    pub at_s: u64,
    /// What was measured on.
    pub machine: &'a Machine,
    /// Commit of the working tree, `-dirty` when it had changes.
    pub commit: &'a str,
    /// The command line.
    pub command: &'a str,
    /// What was sent.
    pub workload: &'a W,
    /// What came out.
    pub result: &'a R,
}

/// A file of results that grows.
#[derive(Debug)]
pub struct Results<'a> {
    path: Option<&'a Path>,
    machine: Machine,
    commit: String,
    command: String,
}

impl<'a> Results<'a> {
    /// Results that are appended to `path`, or kept nowhere.
    pub fn new(path: Option<&'a Path>) -> Self {
        Self {
            path,
            machine: this_machine(),
            commit: commit(),
            command: command_line(),
        }
    }

    /// Appends one result.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append(
        &self,
        kind: &str,
        peer: &str,
        round: u32,
        workload: &impl Serialize,
        result: &impl Serialize,
    ) -> Result<(), BenchError> {
        let Some(path) = self.path else {
            return Ok(());
        };
        let record = Record {
            kind,
            peer,
            round,
            at_s: sys::realtime_ns() / 1_000_000_000,
            machine: &self.machine,
            commit: &self.commit,
            command: &self.command,
            workload,
            result,
        };
        let mut line = serde_json::to_string(&record)
            .map_err(|error| BenchError::Options(format!("result is not JSON: {error}")))?;
        line.push('\n');
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(BenchError::io("make the folder of results"))?;
        }
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(BenchError::io(format!("open {}", path.display())))?;
        file.write_all(line.as_bytes())
            .map_err(BenchError::io(format!("write {}", path.display())))
    }
}

/// Rows of text in columns: the first column to the left, the others to the right.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let header: Vec<String> = header.iter().map(|cell| (*cell).to_owned()).collect();
    for row in std::iter::once(&header).chain(rows) {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, &width))| {
                if column == 0 {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown".to_owned();
    };
    let clean =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|text| text.is_empty());
    if clean {
        commit
    } else {
        format!("{commit}-dirty")
    }
}

/// The arguments of this process; of the program only its name, since its place says nothing.
fn command_line() -> String {
    let bytes = fs::read("/proc/self/cmdline").unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut arguments = text.split_terminator('\0');
    let program = arguments
        .next()
        .unwrap_or_default()
        .rsplit('/')
        .next()
        .unwrap_or_default();
    std::iter::once(program)
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;

    #[test]
    fn a_record_is_one_line_with_all_circumstances() {
        let machine = Machine {
            cpu: "c".to_owned(),
            cores: 2,
            kernel: "k".to_owned(),
        };
        let record = Record {
            kind: "run",
            peer: "relay",
            round: 1,
            at_s: 5,
            machine: &machine,
            commit: "abc",
            command: "bench run",
            workload: &Workload::default(),
            result: &crate::measurement::Percentiles::default(),
        };
        let line = serde_json::to_string(&record).expect("plain data");
        assert!(!line.contains('\n'));
        let value: serde_json::Value = serde_json::from_str(&line).expect("valid JSON");
        assert_eq!(value["machine"]["cores"], 2);
        assert_eq!(value["workload"]["arrivals"], "poisson");
        assert_eq!(value["workload"]["publishers"], 4000);
        assert_eq!(value["result"]["p99_us"], 0.0);
        for key in ["kind", "peer", "round", "at_s", "commit", "command"] {
            assert!(!value[key].is_null(), "{key}");
        }
    }

    #[test]
    fn tables_are_aligned() {
        let rows = [
            vec!["a".to_owned(), "1".to_owned()],
            vec!["long".to_owned(), "µ".to_owned()],
        ];
        assert_eq!(
            table(&["name", "value"], &rows),
            "name  value\na         1\nlong      µ\n"
        );
    }
}
