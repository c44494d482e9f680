//! Checks of the house that no compiler makes: `cargo xtask tidy`.
//!
//! The idea: rules are tables and small functions from a source file to findings, so that each rule has a snippet that
//! breaks it and one that keeps it in the tests. Nothing is changed on disk, nothing is fetched.

mod finding;
mod source;
mod tidy;

use std::process::ExitCode;

const USAGE: &str =
    "usage: cargo xtask tidy    checks names, sizes, purity, documentation, code map and changelog";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => run_tidy(),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn run_tidy() -> ExitCode {
    let sources = match source::of_repository() {
        Ok(sources) => sources,
        Err(error) => {
            eprintln!("xtask: {error}");
            return ExitCode::from(2);
        }
    };
    let findings = tidy::check(&sources);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} files, nothing to do", sources.len());
        ExitCode::SUCCESS
    } else {
        println!(
            "tidy: {} findings in {} files",
            findings.len(),
            sources.len()
        );
        ExitCode::FAILURE
    }
}
