//! `srtm bench`: loads for any broker, and evaluations by the program `srtm-evaluate` beside this
//! one.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process;

use clap::{Args, Subcommand};

use crate::error::Failure;

/// The program that carries evaluations out.
const EVALUATE: &str = "srtm-evaluate";

/// What is measured.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    #[command(flatten)]
    Load(bench::Command),
    /// Loads a topic beyond its limit and compares every release with the theory (uses
    /// srtm-evaluate).
    ///
    /// Example: srtm bench limit --rate 1000 --burst 50 --publishers 100 --rate-per-publisher 20
    #[command(disable_help_flag = true)]
    Limit(Passed),
    /// Compares the latency that the broker reports with the true one (uses srtm-evaluate).
    ///
    /// Example: srtm bench latency --publishers 100 --measure-ms 30000
    #[command(disable_help_flag = true)]
    Latency(Passed),
    /// Shows what the kernel's arrival timestamps improve (uses srtm-evaluate).
    ///
    /// Example: srtm bench clock --levels 1000,3000,6000
    #[command(disable_help_flag = true)]
    Clock(Passed),
    /// Moves, kills and drains in a live cluster under load, and counts every message (uses
    /// srtm-evaluate).
    ///
    /// Example: srtm bench cluster moves --brokers 3
    #[command(disable_help_flag = true)]
    Cluster(Passed),
    /// Repeats the evaluation of the Tempo paper (uses srtm-evaluate).
    ///
    /// Example: srtm bench tempo rate
    #[command(disable_help_flag = true)]
    Tempo(Passed),
    /// Floods one topic and shows the effect on a conformant one beside it (uses srtm-evaluate).
    ///
    /// Example: srtm bench neighbour --rows srtm-shares,nsqd
    #[command(disable_help_flag = true)]
    Neighbour(Passed),
}

/// Handed on as they are, --help too.
#[derive(Args, Debug)]
pub(crate) struct Passed {
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "FLAG"
    )]
    arguments: Vec<OsString>,
}

/// Carries out a measurement. One that starts this program again calls it by the same subcommand.
pub(crate) fn run(command: &BenchCommand) -> Result<(), Failure> {
    let (name, passed) = match command {
        BenchCommand::Load(command) => {
            return Ok(bench::execute(command, &["bench".to_owned()])?);
        }
        BenchCommand::Limit(passed) => ("limit", passed),
        BenchCommand::Latency(passed) => ("latency", passed),
        BenchCommand::Clock(passed) => ("clock", passed),
        BenchCommand::Cluster(passed) => ("cluster", passed),
        BenchCommand::Tempo(passed) => ("tempo", passed),
        BenchCommand::Neighbour(passed) => ("neighbour", passed),
    };
    evaluate(name, &passed.arguments)
}

/// Becomes `srtm-evaluate`, which lies beside this program.
fn evaluate(name: &str, arguments: &[OsString]) -> Result<(), Failure> {
    let this = env::current_exe().map_err(Failure::io("finding this program"))?;
    let program = this.with_file_name(EVALUATE);
    if !program.is_file() {
        return Err(Failure::Usage(format!(
            "srtm bench {name} needs {}, which does not exist; build it with cargo build --release -p evaluate",
            program.display()
        )));
    }
    let error = process::Command::new(&program)
        .arg(name)
        .args(arguments)
        .exec();
    Err(Failure::io(format!("starting {}", program.display()))(
        error,
    ))
}
