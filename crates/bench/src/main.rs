//! The `bench` program: [`bench::Command`] and nothing else.

use std::process::ExitCode;

use clap::Parser;

/// Measures brokers on this machine.
#[derive(Parser)]
#[command(name = "bench", version)]
struct Arguments {
    #[command(subcommand)]
    command: bench::Command,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match bench::execute(&arguments.command, &[]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
