//! Trace files, whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use workload::trace::{Format, Trace, TraceError, TraceWriter, read_all};

use crate::error::Failure;

/// Reads a trace to its end.
pub(super) fn read(path: &Path) -> Result<Trace, Failure> {
    let file = File::open(path).map_err(Failure::io(path.display().to_string()))?;
    read_all(BufReader::new(file)).map_err(failed(path))
}

/// Writes a trace under a name of its own and gives it its name when it is whole.
pub(super) fn write(path: &Path, trace: &Trace) -> Result<(), Failure> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let written = write_to(&partial, path, trace);
    if written.is_err() {
        // It may not be there at all.
        let _ = fs::remove_file(&partial);
    }
    written.map_err(failed(path))
}

fn write_to(partial: &Path, path: &Path, trace: &Trace) -> Result<(), TraceError> {
    let is_csv = path
        .extension()
        .is_some_and(|suffix| suffix.eq_ignore_ascii_case("csv"));
    let format = if is_csv { Format::Csv } else { Format::Binary };
    let mut writer = TraceWriter::new(File::create(partial)?, format, &trace.header)?;
    for &arrival in &trace.arrivals {
        writer.write(arrival)?;
    }
    writer.finish()?.sync_all()?;
    fs::rename(partial, path)?;
    Ok(())
}

fn failed(path: &Path) -> impl FnOnce(TraceError) -> Failure {
    let path = path.display().to_string();
    move |error| Failure::Io {
        what: path,
        source: match error {
            TraceError::Io(error) => error,
            error => io::Error::new(io::ErrorKind::InvalidData, error),
        },
    }
}
