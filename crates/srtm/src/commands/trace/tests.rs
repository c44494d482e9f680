//! Traces written, summed up and converted, in a folder of their own.

use super::*;

const WORKLOAD: &str = "warmup = \"1s\"\nduration = \"2s\"\n[[publishers]]\r\ncount = 20\nrate = 50\n\
                        batch = 5\ngroup = 10\n";

/// A folder of its own that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("srtm-trace-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("it is there");
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry
                .expect("readable")
                .file_name()
                .to_string_lossy()
                .into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn recorded(folder: &Folder, output: &str) -> PathBuf {
    let workload = folder.file("w.toml");
    fs::write(&workload, WORKLOAD).expect("writable");
    let output = folder.file(output);
    record(&RecordFlags {
        workload,
        output: output.clone(),
    })
    .expect("recorded");
    output
}

fn converted(from: &Path, to: &Path) -> Result<(), Failure> {
    convert(&ConvertFlags {
        from: from.to_owned(),
        to: to.to_owned(),
    })
}

#[test]
fn a_recording_holds_what_follows_from_the_workload() {
    let folder = Folder::new("record");
    let (header, summary) = read(&recorded(&folder, "t.trace")).expect("whole");
    let spec = Spec::parse(WORKLOAD).expect("valid");
    let expected = spec
        .arrivals()
        .take_while(|arrival| arrival.at_ns < 3_000_000_000);
    assert_eq!(summary.arrivals, expected.count() as u64);
    assert_eq!(
        (summary.min_batch_messages, summary.max_batch_messages),
        (5, 5)
    );
    assert_eq!(header.publishers.len(), 20);
    assert_eq!(header.source, WORKLOAD.replace('\r', ""));
    let text = to_text(&header, &summary);
    for expected in [
        "publishers  20, 20 of them sent",
        "groups      2\n",
        "over 3.000 s",
        "5 to 5 messages, 5.00",
        "source      [[publishers]]\n",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    let json = to_json(&header, &summary);
    assert_eq!(
        (json["sends"].as_u64(), json["groups"].as_u64()),
        (Some(summary.arrivals), Some(2))
    );
    assert_eq!(folder.names(), ["t.trace", "w.toml"]);
}

#[test]
fn a_trace_survives_conversion_there_and_back() {
    let folder = Folder::new("convert");
    let binary = recorded(&folder, "a.trace");
    let (csv, back) = (folder.file("b.csv"), folder.file("c.trace"));
    converted(&binary, &csv).expect("to CSV");
    converted(&csv, &back).expect("and back");
    assert!(
        fs::read(&csv)
            .expect("there")
            .starts_with(b"# srtm trace 1\n")
    );
    assert_eq!(
        fs::read(&back).expect("there"),
        fs::read(&binary).expect("there")
    );
    // In place, too.
    converted(&back, &back).expect("onto itself");
    assert_eq!(
        fs::read(&back).expect("there"),
        fs::read(&binary).expect("there")
    );
}

#[test]
fn csv_of_others_keeps_its_names() {
    let folder = Folder::new("names");
    let (csv, binary) = (folder.file("a.csv"), folder.file("b.trace"));
    fs::write(&csv, "at_ns,publisher,messages\n5,s7,1\n9,s2,3\n").expect("writable");
    converted(&csv, &binary).expect("valid");
    let (header, summary) = read(&binary).expect("whole");
    let names: Vec<Option<&str>> = header
        .publishers
        .iter()
        .map(|p| p.name.as_deref())
        .collect();
    assert_eq!(names, [Some("s7"), Some("s2")]);
    assert_eq!(summary.messages, 4);
}

#[test]
fn nothing_partial_is_left() {
    let folder = Folder::new("partial");
    let whole = recorded(&folder, "a.trace");
    let bytes = fs::read(&whole).expect("there");
    let (cut, to) = (folder.file("cut.trace"), folder.file("to.csv"));
    fs::write(&cut, &bytes[..bytes.len() - 9]).expect("writable");
    let error = converted(&cut, &to).expect_err("it is cut");
    let expected = format!(
        "{}: the trace ends in the middle of the end mark",
        cut.display()
    );
    assert!(error.to_string().starts_with(&expected), "{error}");
    assert_eq!(error.exit_code(), 2);
    assert_eq!(folder.names(), ["a.trace", "cut.trace", "w.toml"]);
    // An arrival that fails midway leaves the old file as it was.
    let (header, _) = read(&whole).expect("whole");
    let good = trace_file::open(&whole).expect("whole").take(10);
    let bad = std::iter::once(Err(workload::trace::TraceError::Io(
        std::io::ErrorKind::Other.into(),
    )));
    assert!(trace_file::write(&whole, &header, good.chain(bad)).is_err());
    assert_eq!(fs::read(&whole).expect("there"), bytes);
    assert_eq!(folder.names(), ["a.trace", "cut.trace", "w.toml"]);
}

#[test]
fn errors_name_the_file() {
    let folder = Folder::new("errors");
    let workload = folder.file("w.toml");
    fs::write(&workload, "[[publishers]]\ncount = 5\nrate = -1\n").expect("writable");
    let output = folder.file("t.trace");
    let error = record(&RecordFlags {
        workload: workload.clone(),
        output,
    })
    .expect_err("a bad rate");
    let expected = format!(
        "{}: line 3, column 1: publishers[1].rate: -1 is not a rate",
        workload.display()
    );
    assert!(error.to_string().starts_with(&expected), "{error}");
    let error = read(&workload).expect_err("no trace");
    assert!(
        error
            .to_string()
            .contains("w.toml: not a trace: it begins with \"[[publis\""),
        "{error}"
    );
    let error = read(&folder.file("none")).expect_err("no file");
    assert!(error.to_string().starts_with("open "), "{error}");
    let error = record(&RecordFlags {
        workload,
        output: folder.file("no/such/folder"),
    });
    assert!(error.is_err());
    assert_eq!(folder.names(), ["w.toml"]);
}
