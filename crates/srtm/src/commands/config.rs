//! `srtm config`: files of settings checked, settings shown with their origin, a file to begin with.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::builder::Command;
use clap::{Args, CommandFactory, Parser, Subcommand};
use settings::sample;

use super::{nsqd, nsqlookupd};
use crate::cli::Cli;
use crate::configuration::{self, Told};
use crate::error::Failure;

const CHECK_EXAMPLES: &str = "\
Examples:
  srtm config check /etc/srtm/broker.toml --for broker
  srtm config check /etc/nsqd.cfg --for nsqd            nsqd's own file";

const SHOW_EXAMPLES: &str = "\
Examples:
  srtm config show broker
  srtm config show broker --config /etc/srtm/broker.toml --msg-timeout 90s";

const SAMPLE_EXAMPLES: &str = "\
Examples:
  srtm config sample broker > broker.toml";

/// What is done with settings.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Says whether a daemon could start with a file, and what is wrong with it.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Check),
    /// Shows each setting of a daemon as it would be, and who says so: a flag, the environment, a file
    /// or nobody.
    #[command(after_help = SHOW_EXAMPLES)]
    Show(Show),
    /// Prints a file with all settings of a daemon in comments, with what they mean.
    #[command(after_help = SAMPLE_EXAMPLES)]
    Sample(Sample),
}

/// Flags of `srtm config check`.
#[derive(Args, Debug)]
pub(crate) struct Check {
    /// The file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The daemon that is to read it, as in `srtm DAEMON`.
    #[arg(long = "for", value_name = "DAEMON")]
    daemon: String,
}

/// Flags of `srtm config show`.
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// The daemon, as in `srtm DAEMON`.
    #[arg(value_name = "DAEMON")]
    daemon: String,
    /// Its flags.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "FLAG"
    )]
    flags: Vec<OsString>,
}

/// Flags of `srtm config sample`.
#[derive(Args, Debug)]
pub(crate) struct Sample {
    /// The daemon, as in `srtm DAEMON`.
    #[arg(value_name = "DAEMON")]
    daemon: String,
}

/// Does it.
pub(crate) fn run(command: &ConfigCommand) -> Result<(), Failure> {
    let srtm = Cli::command();
    match command {
        ConfigCommand::Check(Check { file, daemon }) => {
            let count = check(&srtm, file, daemon)?;
            println!(
                "{}: good for srtm {daemon}, {count} settings",
                file.display()
            );
        }
        ConfigCommand::Show(Show { daemon, flags }) => {
            let command = daemon_of(&srtm, daemon)?;
            let told = Told::gather(command, flags, &configuration::process_variable)?;
            start_with(daemon, told.arguments(), flags)?;
            print!("{}", shown(&told));
        }
        ConfigCommand::Sample(Sample { daemon }) => {
            let settings = configuration::settings_of(daemon_of(&srtm, daemon)?);
            print!("# Settings of srtm {daemon}. Take the # off those that are to differ.\n\n");
            print!("{}", sample(&settings));
        }
    }
    Ok(())
}

/// How many settings a good file has.
fn check(srtm: &Command, file: &Path, daemon: &str) -> Result<usize, Failure> {
    match daemon {
        "nsqd" => return nsqd::check_file(file),
        "nsqlookupd" => return nsqlookupd::check_file(file),
        _ => {}
    }
    let told = Told::of_file(daemon_of(srtm, daemon)?, file)?;
    start_with(daemon, told.arguments(), &[])?;
    Ok(told.count())
}

/// Whether a daemon takes these flags.
fn start_with(daemon: &str, said: Vec<String>, flags: &[OsString]) -> Result<(), Failure> {
    let line = ["srtm", daemon].map(OsString::from).into_iter();
    let line = line
        .chain(said.into_iter().map(OsString::from))
        .chain(flags.to_vec());
    match Cli::try_parse_from(line) {
        Ok(cli) => cli.check(),
        Err(error) => {
            let text = error.render().to_string();
            let text = text.trim_start_matches("error: ").trim_end();
            Err(Failure::Usage(text.to_owned()))
        }
    }
}

fn daemon_of<'a>(srtm: &'a Command, name: &str) -> Result<&'a Command, Failure> {
    configuration::daemon(srtm, OsStr::new(name)).ok_or_else(|| {
        let daemons = srtm.get_subcommands().filter(|c| configuration::is_daemon(c));
        let names: Vec<_> = daemons.map(Command::get_name).collect();
        Failure::Usage(format!(
            "`{name}` is no daemon with a file of this kind; use one of {} (check also takes nsqd and nsqlookupd)",
            names.join(", ")
        ))
    })
}

/// A line per setting: key, value, origin.
fn shown(told: &Told) -> String {
    let all = told.effective();
    let width = |of: fn(&configuration::Effective) -> usize| all.iter().map(of).max().unwrap_or(0);
    let (key, value) = (width(|e| e.key.len()), width(|e| e.value.len()).min(40));
    let lines = all.iter().map(|each| {
        let configuration::Effective {
            key: name,
            value: text,
            origin,
        } = each;
        format!("{name:<key$}  {text:<value$}  {origin}\n")
    });
    lines.collect()
}
