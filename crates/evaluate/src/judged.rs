//! Records of checks and the conditions on them, for records just made or read from a file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bench::BenchError;
use clap::Args;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sim::experiment::Verdict;

/// A check's record of a run.
pub trait Judged: Serialize + DeserializeOwned {
    /// `kind` of its records.
    const KIND: &'static str;

    /// The conditions on it.
    fn verdicts(&self) -> Vec<Verdict>;
}

/// Options of `srtm-evaluate check`.
#[derive(Debug, Clone, Args)]
pub struct CheckOptions {
    /// Files of results: a JSON line per record.
    #[arg(
        value_name = "FILE",
        default_values = ["bench/results/cluster.jsonl", "bench/results/sharing.jsonl"]
    )]
    files: Vec<PathBuf>,
}

/// How the records of a kind are judged.
pub type Judge = fn(Value) -> Result<Vec<Verdict>, serde_json::Error>;

/// Judges records of `R`.
///
/// # Errors
/// For a result of another form.
pub fn judge<R: Judged>(result: Value) -> Result<Vec<Verdict>, serde_json::Error> {
    serde_json::from_value(result).map(|record: R| record.verdicts())
}

/// The conditions that a record does not meet, in words.
pub fn unmet(record: &impl Judged) -> Vec<String> {
    let verdicts = record.verdicts().into_iter();
    let unmet = verdicts.filter(|verdict| !verdict.holds);
    unmet.map(|verdict| line(&verdict)).collect()
}

/// A finding of a check.
pub fn verdict(of: &str, finding: &'static str, holds: bool, figures: String) -> Verdict {
    Verdict {
        experiment: of.to_owned(),
        finding,
        holds,
        figures,
    }
}

/// Whether every message came, and each once.
pub fn delivered_once(of: &str, lost: u64, duplicated: u64) -> Verdict {
    verdict(
        of,
        "nothing is lost, nothing comes twice",
        lost == 0 && duplicated == 0,
        format!("{lost} lost, {duplicated} twice"),
    )
}

/// Judges kept records without running anything: of each check the latest.
///
/// # Errors
/// When a file cannot be read or holds no result that can be judged, and when something does not hold.
pub fn check(options: &CheckOptions, judges: &[(&str, Judge)]) -> Result<(), BenchError> {
    let mut latest = BTreeMap::new();
    for path in &options.files {
        let text =
            fs::read_to_string(path).map_err(BenchError::io(format!("read {}", path.display())))?;
        take(path, &text, judges, &mut latest)?;
    }
    let verdicts: Vec<Verdict> = latest.into_values().collect();
    if verdicts.is_empty() {
        let text = "no record in these files belongs to a check that can be judged".to_owned();
        return Err(BenchError::Options(text));
    }
    for verdict in &verdicts {
        let word = if verdict.holds {
            "holds"
        } else {
            "does not hold"
        };
        println!("{word}: {}", line(verdict));
    }
    let unmet = verdicts.iter().filter(|verdict| !verdict.holds).count();
    if unmet == 0 {
        return Ok(());
    }
    let text = format!(
        "{unmet} of {} findings; the lines above say which",
        verdicts.len()
    );
    Err(BenchError::protocol(
        "a condition that must hold does not",
        text,
    ))
}

/// The latest verdict by experiment and finding.
type Latest = BTreeMap<(String, &'static str), Verdict>;

#[derive(Deserialize)]
struct Kept {
    kind: String,
    result: Value,
}

fn take(
    path: &Path,
    text: &str,
    judges: &[(&str, Judge)],
    latest: &mut Latest,
) -> Result<(), BenchError> {
    for (number, line) in (1..).zip(text.lines()) {
        let refuse = |error: serde_json::Error| {
            let path = path.display();
            BenchError::Options(format!("{path}, line {number}: not a record: {error}"))
        };
        let kept: Kept = serde_json::from_str(line).map_err(refuse)?;
        let Some((_, judge)) = judges.iter().find(|(kind, _)| *kind == kept.kind) else {
            continue;
        };
        for verdict in judge(kept.result).map_err(refuse)? {
            latest.insert((verdict.experiment.clone(), verdict.finding), verdict);
        }
    }
    Ok(())
}

fn line(verdict: &Verdict) -> String {
    let Verdict {
        experiment,
        finding,
        figures,
        ..
    } = verdict;
    format!("{experiment}: {finding}: {figures}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Lost {
        case: String,
        lost: u64,
    }

    impl Judged for Lost {
        const KIND: &'static str = "lost";

        fn verdicts(&self) -> Vec<Verdict> {
            let figures = format!("{} lost", self.lost);
            vec![verdict(
                &self.case,
                "nothing is lost",
                self.lost == 0,
                figures,
            )]
        }
    }

    const JUDGES: [(&str, Judge); 1] = [(Lost::KIND, judge::<Lost>)];

    fn judged(text: &str) -> Result<Vec<(String, bool)>, BenchError> {
        let mut latest = Latest::new();
        take(Path::new("f"), text, &JUDGES, &mut latest)?;
        let verdicts = latest.into_values();
        Ok(verdicts
            .map(|verdict| (verdict.experiment, verdict.holds))
            .collect())
    }

    #[test]
    fn the_latest_record_of_each_check_counts() {
        let record = |case: &str, lost: u64| {
            format!("{{\"kind\":\"lost\",\"result\":{{\"case\":\"{case}\",\"lost\":{lost}}}}}\n")
        };
        let other = "{\"kind\":\"run\",\"result\":{}}\n";
        let text = record("a", 1) + &record("b", 0) + other + &record("a", 0) + &record("b", 2);
        let expected = [("a".to_owned(), true), ("b".to_owned(), false)];
        assert_eq!(judged(&text).expect("records"), expected);
    }

    #[test]
    fn what_is_no_record_is_named() {
        for text in ["{}", "{\"kind\":\"lost\",\"result\":{\"case\":\"a\"}}"] {
            let error = judged(&format!("{{\"kind\":\"run\",\"result\":1}}\n{text}\n"));
            let error = error.expect_err(text).to_string();
            assert!(error.contains("f, line 2: not a record"), "{error}");
        }
    }

    #[test]
    fn the_results_that_are_kept_can_be_judged() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/results"));
        for name in ["cluster.jsonl", "sharing.jsonl"] {
            let path = folder.join(name);
            let text = fs::read_to_string(&path).expect("results are part of the sources");
            let mut latest = Latest::new();
            take(&path, &text, &crate::cluster::JUDGES, &mut latest).expect("records");
            assert!(!latest.is_empty(), "{name}");
        }
    }

    #[test]
    fn what_does_not_hold_is_told() {
        let case = "killed".to_owned();
        let told = unmet(&Lost { case, lost: 3 });
        assert_eq!(told, ["killed: nothing is lost: 3 lost"]);
    }
}
