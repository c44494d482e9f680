//! Trace files, written whole or not at all.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use workload::Arrival;
use workload::trace::{Format, Trace, TraceError, TraceHeader, TraceReader, TraceWriter, read_all};

use crate::error::Failure;

/// A file that gets its name when it is whole. Dropped before, it is removed.
struct WholeFile<'a> {
    path: &'a Path,
    partial: PathBuf,
    is_whole: bool,
}

/// Reads a trace to its end.
pub(crate) fn read(path: &Path) -> Result<Trace, Failure> {
    let file = File::open(path).map_err(Failure::io(format!("open {}", path.display())))?;
    read_all(BufReader::new(file)).map_err(failed(path))
}

/// Begins to read a trace that need not fit into memory.
pub(crate) fn open(path: &Path) -> Result<TraceReader<File>, Failure> {
    let file = File::open(path).map_err(Failure::io(format!("open {}", path.display())))?;
    TraceReader::open(file).map_err(failed(path))
}

/// Writes a trace, whole or not at all; gives the number of arrivals.
pub(crate) fn write(
    path: &Path,
    header: &TraceHeader,
    arrivals: impl Iterator<Item = Result<Arrival, TraceError>>,
) -> Result<u64, Failure> {
    let is_csv = path
        .extension()
        .is_some_and(|suffix| suffix.eq_ignore_ascii_case("csv"));
    let format = if is_csv { Format::Csv } else { Format::Binary };
    let (whole, file) = WholeFile::create(path)?;
    let mut writer = TraceWriter::new(file, format, header).map_err(failed(path))?;
    for arrival in arrivals {
        let written = arrival.and_then(|arrival| writer.write(arrival));
        written.map_err(failed(path))?;
    }
    let written = writer.arrivals();
    let file = writer.finish().map_err(failed(path))?;
    whole.keep(&file)?;
    Ok(written)
}

/// Says what is wrong with the trace at `path`; for `map_err`.
pub(crate) fn failed(path: &Path) -> impl Fn(TraceError) -> Failure {
    let shown = path.display().to_string();
    move |error| match error {
        TraceError::Io(source) => Failure::io(shown.clone())(source),
        error => Failure::Usage(format!("{shown}: {error}")),
    }
}

impl<'a> WholeFile<'a> {
    /// Begins a file that is to be called `path`, beside it.
    fn create(path: &'a Path) -> Result<(Self, File), Failure> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file =
            File::create(&partial).map_err(Failure::io(format!("create {}", partial.display())))?;
        let is_whole = false;
        let whole = WholeFile {
            path,
            partial,
            is_whole,
        };
        Ok((whole, file))
    }

    /// Gives the file its name.
    fn keep(mut self, file: &File) -> Result<(), Failure> {
        let shown = self.path.display();
        file.sync_all()
            .map_err(Failure::io(format!("write {shown}")))?;
        fs::rename(&self.partial, self.path).map_err(Failure::io(format!("name {shown}")))?;
        self.is_whole = true;
        Ok(())
    }
}

impl Drop for WholeFile<'_> {
    fn drop(&mut self) {
        if !self.is_whole {
            // Nobody is left to be told; the name says what it is.
            let _ = fs::remove_file(&self.partial);
        }
    }
}
