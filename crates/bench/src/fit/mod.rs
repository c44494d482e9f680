//! `bench fit`: the highest load that a broker carries under a percentile goal, and how certain
//! that is.
//!
//! Open loop throughout: latency counts from the instant at which a message was due. [`search`]
//! chooses the rates, [`estimate`] derives a knee and its interval from the verdicts; both are
//! pure. The brokers take turns, one run each, so that other work on the machine affects all of
//! them alike. A miss that the generator may have caused is not counted against a broker. Besides
//! the brokers that can be started here, a running one can be loaded.
//!
//! One topic and one subscriber, as everywhere in `bench`. [`crate::calibrate`] asks the same
//! question about SRTM alone, faster and without an interval.

mod contest;
pub mod estimate;
pub mod options;
pub mod search;
mod standings;
pub mod subject;

use crate::calibrate;
use crate::error::BenchError;
use crate::report::Results;
use crate::sys;

use contest::Contest;
pub use options::FitOptions;
use standings::Standing;
use subject::Subject;

/// Fits every broker that `options` name, prints each run and the table, and appends both to the file of results.
/// `relaunch` are the arguments after which this program understands `relay`.
///
/// # Errors
/// When the options are wrong, no broker can be loaded, or results cannot be written; not when one of several brokers
/// is missing or fails.
pub fn fit(options: &FitOptions, relaunch: &[String]) -> Result<(), BenchError> {
    let bounds = options.search(calibrate::max_publishers()?)?;
    let mut contests: Vec<Contest<'_>> = Subject::all(options, relaunch)
        .into_iter()
        .map(|subject| Contest::new(subject, bounds))
        .collect();
    if let [only] = contests.as_slice() {
        only.subject.check()?;
    }
    some_are_left(&contests)?;
    let core = options.programs.generator_core;
    sys::pin_to_core(core).map_err(BenchError::io(format!("run on core {core}")))?;
    let results = Results::new(Some(&options.results));
    println!("{}", standings::plan(options, &bounds));
    run_in_turns(&mut contests, options, &results)?;
    let standings: Vec<Standing> = contests
        .iter()
        .map(|contest| contest.standing(options))
        .collect();
    for standing in &standings {
        results.append("fit", &standing.peer, 1, &options.workload, standing)?;
    }
    print!(
        "{}",
        standings::render(&options.goal(), options.confidence().level, &standings)
    );
    some_are_left(&contests)
}

/// An error when every broker is left out, with the reasons.
fn some_are_left(contests: &[Contest<'_>]) -> Result<(), BenchError> {
    let failures: Vec<&str> = contests
        .iter()
        .filter_map(|contest| contest.failure.as_deref())
        .collect();
    if failures.len() < contests.len() {
        return Ok(());
    }
    Err(BenchError::Broker {
        name: "to be fitted".to_owned(),
        text: format!("every broker is left out: {}", failures.join("; ")),
    })
}

/// One run of each broker, again and again, until no search wants another.
fn run_in_turns(
    contests: &mut [Contest<'_>],
    options: &FitOptions,
    results: &Results<'_>,
) -> Result<(), BenchError> {
    let mut is_under_way = true;
    while is_under_way {
        is_under_way = false;
        for contest in &mut *contests {
            let Some(step) = contest.next_step() else {
                continue;
            };
            is_under_way = true;
            contest.run(step, options, results)?;
        }
    }
    Ok(())
}
