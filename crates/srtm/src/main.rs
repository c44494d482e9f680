//! The `srtm` command: flags in, daemons and tools out.
//!
//! The only crate that reads flags, the environment and signals. Every subcommand has one file in
//! `commands`; what two of them share stands beside it. Called as `nsqd` or `nsqlookupd` (a link or
//! a copy of the binary under that name) it behaves as `srtm nsqd` or `srtm nsqlookupd`.
//!
//! Exit codes: 0 success, also after a drain by signal; 1 failure; 2 wrong usage; 3 when a stop
//! lost messages; 130 when a second signal cuts the drain short.

mod access_flags;
mod address;
mod announce_flags;
mod auth_flags;
mod broker_flags;
mod byte_size;
mod children;
mod cli;
mod commands;
mod configuration;
mod control_flags;
mod controller_daemon;
mod controller_tls_flags;
mod daemon;
mod disk_flags;
mod drained;
mod duration;
mod error;
mod go_flags;
mod http_flags;
mod key_place;
mod layer_flags;
mod link_key;
mod log;
mod lookupd_flags;
mod secure;
mod servers;
mod statsd_flags;
mod stranger_flags;
mod time;
mod token_flags;
mod trace_file;
mod trust_flags;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use cli::Cli;
use error::Failure;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_default();
    let result = if is_called(&program, "nsqd") {
        commands::nsqd::run(arguments.collect())
    } else if is_called(&program, "nsqlookupd") {
        commands::nsqlookupd::run(arguments.collect())
    } else {
        run(std::iter::once(program).chain(arguments).collect())
    };
    log::finish();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("srtm: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let variable = &configuration::process_variable;
    let complete = configuration::complete(&Cli::command(), arguments, variable)?;
    // Wrong usage ends the process here, with code 2 and a text of what is right.
    Cli::parse_from(complete).run()
}

fn is_called(program: &OsString, name: &str) -> bool {
    Path::new(program).file_name() == Some(OsStr::new(name))
}
