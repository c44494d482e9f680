//! `srtm experiment NAME --live`: the same experiments with the kernel's TCP, by `experiments/testbed`.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use sim::drl::experiment::Study;

use super::{Flags, drl};
use crate::error::Failure;

/// Targets of the testbed that are called otherwise there.
const OTHER_NAMES: [(&str, &str); 1] = [("drl-flows", "drl-scale")];

/// What the testbed does not do.
const ONLY_VIRTUAL: [&str; 1] = ["drl-robust"];

/// Runs the testbed for the figures that were asked for; its output is this command's.
pub(super) fn run(experiments: &[Study], flags: &Flags) -> Result<(), Failure> {
    let targets = targets(experiments, flags)?;
    let script = flags.testbed.join("run.py");
    if !script.is_file() {
        return Err(Failure::Usage(format!(
            "{} does not exist; run from the top of the repository, or give --testbed DIR",
            script.display()
        )));
    }
    if !is_root() {
        return Err(Failure::Usage(
            "--live creates network namespaces and TUN devices, which needs root; run it with sudo"
                .to_owned(),
        ));
    }
    let program = env::current_exe().map_err(Failure::io("finding this program"))?;
    let mut python = Command::new("python3");
    python.arg(&script).args(&targets);
    python.arg("--srtm").arg(program);
    python.arg("--results").arg(flags.out.join("live"));
    let numbers = [
        ("--runs", flags.repeats.map(|runs| runs.to_string())),
        (
            "--seconds",
            flags.seconds.map(|seconds| seconds.to_string()),
        ),
        ("--parallel", flags.jobs.map(|jobs| jobs.to_string())),
        ("--seed", flags.seed.map(|seed| seed.to_string())),
        ("--policies", flags.policies.clone()),
    ];
    for (name, value) in numbers {
        if let Some(value) = value {
            python.arg(name).arg(value);
        }
    }
    let ended = python
        .status()
        .map_err(Failure::io("starting python3 (is it installed?)"))?;
    if ended.success() {
        return Ok(());
    }
    Err(Failure::Testbed {
        code: ended.code().unwrap_or(-1),
    })
}

fn targets(experiments: &[Study], flags: &Flags) -> Result<Vec<String>, Failure> {
    let known = drl::names(experiments);
    let live = || known.iter().filter(|name| !ONLY_VIRTUAL.contains(name));
    let asked: Vec<&str> = match flags.all {
        true => live().copied().collect(),
        false => flags.names.iter().map(String::as_str).collect(),
    };
    let target = |name: &&str| {
        if !live().any(|known| known == name) {
            let live: Vec<&str> = live().copied().collect();
            let live = live.join(", ");
            let said = format!("{name:?} cannot run with --live; choose from {live}");
            return Err(Failure::Usage(said));
        }
        let other = OTHER_NAMES.iter().find(|(here, _)| here == name);
        Ok(other.map_or(*name, |(_, there)| there).to_owned())
    };
    asked.iter().map(target).collect()
}

/// The owner of a process's own folder is its effective user.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
