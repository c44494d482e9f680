//! The load of a run: a workload as the `workload` crate reads it, and the framing of batches.
//!
//! Commands take it from a file or from the flags of [`Workload`], never from both.

use std::fs;
use std::path::PathBuf;

use ::workload::{Arrivals, Spec, SpecError};
use clap::Args;
use serde::Serialize;

use crate::error::BenchError;
use crate::stamp::STAMP_BYTES;
use crate::workload::Workload;

/// Connections that one generator opens.
pub const MAX_PUBLISHERS: u32 = 60_000;
/// Messages of a batch, which is kept in memory ready to be sent.
pub const MAX_BATCH_MESSAGES: u16 = 1000;

/// Classes that a title spells out.
const SHOWN_CLASSES: usize = 4;

/// A load, from a file or from flags.
#[derive(Debug, Clone, Args)]
pub struct LoadOptions {
    /// Workload file (see docs/workloads.md), in place of the flags of the load; only --mpub may be given with it.
    #[arg(
        value_name = "W.toml",
        conflicts_with_all = [
            "publishers", "rate_per_publisher", "arrivals", "batch_messages", "body_bytes",
            "group_publishers", "warmup_ms", "measure_ms", "seed",
        ]
    )]
    pub file: Option<PathBuf>,
    /// The flags.
    #[command(flatten)]
    pub flags: Workload,
}

/// A load that can be sent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Load {
    /// Who sends what when.
    #[serde(flatten)]
    pub spec: Spec,
    /// Send a batch as one MPUB instead of several PUBs (NSQ only).
    pub mpub: bool,
}

impl LoadOptions {
    /// The load that was asked for.
    ///
    /// # Errors
    /// When the file cannot be read, is no workload, or the load is more than the generator can send.
    pub fn load(&self) -> Result<Load, BenchError> {
        let Some(file) = &self.file else {
            return self.flags.load();
        };
        let shown = file.display().to_string();
        let text = fs::read_to_string(file).map_err(BenchError::io(format!("read {shown}")))?;
        let in_file = |source| BenchError::Workload {
            from: shown.clone(),
            source,
        };
        let load = Load {
            spec: Spec::parse(&text).map_err(in_file)?,
            mpub: self.flags.mpub,
        };
        load.fits().map_err(in_file)?;
        Ok(load)
    }
}

impl Load {
    /// When each publisher is due: for ever.
    pub fn schedule(&self) -> Arrivals {
        self.spec.arrivals()
    }

    /// Messages per second of all publishers together.
    pub fn offered_per_second(&self) -> f64 {
        self.spec.messages_per_second()
    }

    /// The same load with all rates changed alike, so that all publishers together send `messages_per_second`.
    #[must_use]
    pub fn at_rate(&self, messages_per_second: f64) -> Self {
        let factor = messages_per_second / self.offered_per_second();
        let mut load = self.clone();
        for class in &mut load.spec.publishers {
            class.rate *= factor;
        }
        load
    }

    /// Checks what the types leave open.
    ///
    /// # Errors
    /// Names the key that is out of range and the range.
    pub fn check(&self) -> Result<(), BenchError> {
        let checked = self.spec.check().and_then(|()| self.fits());
        checked.map_err(|source| BenchError::Workload {
            from: "load".to_owned(),
            source,
        })
    }

    /// The load in a few words.
    pub fn title(&self) -> String {
        let class = |class: &::workload::Class| {
            format!(
                "{} x {} msg/s, {} B, batch {}, {:?}",
                class.count, class.rate, class.body_bytes, class.batch_messages, class.arrivals
            )
        };
        let all = &self.spec.publishers;
        let mut classes: Vec<String> = all.iter().take(SHOWN_CLASSES).map(class).collect();
        if all.len() > SHOWN_CLASSES {
            classes.push(format!("and {} more classes", all.len() - SHOWN_CLASSES));
        }
        format!(
            "{} publishers, {:.0} msg/s offered ({})",
            self.spec.publisher_count(),
            self.offered_per_second(),
            classes.join("; ")
        )
    }

    /// What this generator asks beyond the spec.
    fn fits(&self) -> Result<(), SpecError> {
        let refuse = |class: usize, key: &str, text: String| {
            Err(SpecError::Value {
                place: None,
                key: format!("publishers[{}].{key}", class + 1),
                text,
            })
        };
        let mut publishers = 0;
        for (number, class) in self.spec.publishers.iter().enumerate() {
            publishers += class.count;
            if publishers > MAX_PUBLISHERS {
                let text = format!(
                    "{publishers} publishers, counted up to this class: the load generator opens at most {MAX_PUBLISHERS}"
                );
                return refuse(number, "count", text);
            }
            if (class.body_bytes as usize) < STAMP_BYTES {
                let text = format!(
                    "{} bytes are too few: the load generator's stamp takes {STAMP_BYTES}",
                    class.body_bytes
                );
                return refuse(number, "bytes", text);
            }
            if class.batch_messages > MAX_BATCH_MESSAGES {
                let text = format!(
                    "{} messages are too many for the load generator: at most {MAX_BATCH_MESSAGES}",
                    class.batch_messages
                );
                return refuse(number, "batch", text);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser, Debug)]
    struct Line {
        #[command(flatten)]
        load: LoadOptions,
    }

    fn file(name: &str, text: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("srtm-load-{}-{name}", std::process::id()));
        fs::write(&path, text).expect("a temporary file");
        path
    }

    fn from_file(name: &str, text: &str) -> Result<Load, BenchError> {
        let path = file(name, text);
        let line =
            Line::try_parse_from(["bench".as_ref(), path.as_os_str()]).expect("a file alone");
        let load = line.load.load();
        fs::remove_file(path).expect("it is there");
        load
    }

    #[test]
    fn a_file_takes_the_place_of_the_flags() {
        let text = "duration = \"3s\"\n[[publishers]]\ncount = 10\nrate = 5\n\
                    [[publishers]]\ncount = 2\nrate = 100\nbatch = 10\nbytes = 400\n";
        let load = from_file("good", text).expect("valid");
        assert_eq!(load.offered_per_second(), 250.0);
        assert_eq!(load.at_rate(500.0).offered_per_second(), 500.0);
        let expected = "12 publishers, 250 msg/s offered (10 x 5 msg/s, 100 B, batch 1, Poisson; \
                        2 x 100 msg/s, 400 B, batch 10, Poisson)";
        assert_eq!(load.title(), expected);
        let json = serde_json::to_value(&load).expect("plain data");
        assert_eq!(json["publishers"][1]["batch"], 10);
        assert_eq!(
            (&json["duration"], &json["mpub"]),
            (&"3s".into(), &false.into())
        );
    }

    #[test]
    fn a_file_and_flags_contradict_each_other() {
        for flag in [
            ["--publishers", "5"],
            ["--rate-per-publisher", "5"],
            ["--arrivals", "periodic"],
            ["--batch-messages", "5"],
            ["--body-bytes", "50"],
            ["--group-publishers", "5"],
            ["--warmup-ms", "5"],
            ["--measure-ms", "5"],
            ["--seed", "5"],
        ] {
            let error = Line::try_parse_from(["bench", "w.toml", flag[0], flag[1]]);
            let error = error.expect_err("both are given").to_string();
            assert!(
                error.contains("cannot be used with") && error.contains(flag[0]),
                "{error}"
            );
            assert!(Line::try_parse_from(["bench", flag[0], flag[1]]).is_ok());
        }
        let line = Line::try_parse_from(["bench", "w.toml", "--mpub"]).expect("framing only");
        assert!(line.load.flags.mpub);
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        let class = "[[publishers]]\ncount = 10\nrate = 5\n";
        for (text, expected) in [
            (
                format!("{class}bytes = 23"),
                "publishers[1].bytes: 23 bytes are too few: the load generator's stamp takes 24",
            ),
            (
                format!("{class}batch = 1001"),
                "publishers[1].batch: 1001 messages are too many",
            ),
            (
                format!("{class}{}", class.replace("10", "60000")),
                "publishers[2].count: 60010 publishers, counted up to this class",
            ),
            (
                format!("{class}rate = 3"),
                "line 4, column 1: duplicate key",
            ),
            (
                class.replace("10", "0"),
                "line 2, column 1: publishers[1].count: 0 is out of range",
            ),
        ] {
            let error = from_file("bad", &text).expect_err(&text).to_string();
            assert!(error.contains(expected), "{error}");
            assert!(error.contains("srtm-load-"), "{error}");
        }
        let missing = Line::try_parse_from(["bench", "/nowhere/w.toml"]).expect("a file alone");
        let error = missing.load.load().expect_err("no such file").to_string();
        assert!(error.starts_with("read /nowhere/w.toml: "), "{error}");
    }
}
