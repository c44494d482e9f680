//! `srtm experiment`: the figures and tables of the papers' evaluations, simulated; DRL's with `--live` in real time.

mod drl;
mod live;
mod machine;
mod view;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use clap::Args;
use serde::Serialize;
use sim::drl::experiment::{self as drl_experiment, Study};
use sim::experiment::{
    Experiment, ExperimentError, Progress, Results, RunOptions, Verdict, run_experiment,
};
use sim::figures::{Figure, Panel, Row, Summary, built_in, check};

use crate::error::Failure;
use machine::Begun;
use view::View;

const EXAMPLES: &str = "\
Examples:
  srtm experiment --list
  srtm experiment fig6a
  srtm experiment fig7 table1 --quick
  srtm experiment --all && srtm experiment --all --check
  srtm experiment drl-fig5 drl-table1 --check
  srtm experiment drl
  sudo srtm experiment drl-fig3 --live --seconds 30
  srtm experiment fig9 --dir my-experiments --out my-results --repeats 3";

/// Flags of `srtm experiment`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// Experiments to run: a figure with all its panels (fig7), a panel (fig7a), drl-fig3, or drl
    /// for all of the DRL paper.
    #[arg(value_name = "NAME", required_unless_present_any = ["all", "list"], conflicts_with = "all")]
    names: Vec<String>,
    /// Runs all experiments.
    #[arg(long)]
    all: bool,
    /// Lists the experiments.
    #[arg(long, conflicts_with = "all")]
    list: bool,
    /// Folder of definitions, one TOML file per figure [default: the built-in definitions].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Folder to keep results in.
    #[arg(long, value_name = "DIR", default_value = "experiments/results")]
    out: PathBuf,
    /// Seed; replaces the seed of the definition.
    #[arg(long)]
    seed: Option<u64>,
    /// Repeats of each point; replaces the number in the definition.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: Option<u32>,
    /// Runs at the same time [default: as many as there are cores].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Starts again instead of continuing an interrupted run.
    #[arg(long)]
    fresh: bool,
    /// Runs two repeats of 5 s only (DRL: two whole repeats, with the first two numbers of
    /// limiters). The results are marked and kept in NAME.quick.jsonl.
    #[arg(long)]
    quick: bool,
    /// Runs nothing. Checks the kept results and fails if a finding of the paper does not appear in
    /// them.
    #[arg(long, conflicts_with_all = ["list", "seed", "repeats", "jobs", "fresh"])]
    check: bool,
    /// Runs experiments of the DRL paper with the kernel's TCP, in experiments/testbed. Needs root.
    /// Results go to live/ in the folder of results; --jobs is the number of runs at the same time.
    #[arg(long, conflicts_with_all = ["list", "dir", "check", "quick", "fresh"])]
    live: bool,
    /// Length of a live run in seconds [default: that of the testbed].
    #[arg(long, value_name = "S", requires = "live")]
    seconds: Option<f64>,
    /// Policies of live runs, separated by commas, such as ctb,fps [default: those of the testbed].
    #[arg(long, value_name = "LIST", requires = "live")]
    policies: Option<String>,
    /// Folder of the testbed.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "experiments/testbed",
        requires = "live"
    )]
    testbed: PathBuf,
}

/// How much a run was.
#[derive(Serialize)]
struct Counted {
    /// Runs whose time is not in the whole.
    runs_left_by_an_interrupted_run: usize,
    messages_measured: u64,
}

/// Repeats of a quick run.
const QUICK_REPEATS: u32 = 2;

/// Runs, prints, and keeps results; or judges those that are kept.
pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    let (figures, of_drl) = match &flags.dir {
        Some(folder) => from_folder(folder)?,
        None => (built_in()?, drl_experiment::built_in()?),
    };
    if flags.list {
        list(&figures);
        drl::list(&of_drl);
        return Ok(());
    }
    if flags.live {
        return live::run(&of_drl, flags);
    }
    let chosen = choose(&figures, &of_drl, flags)?;
    let results = Results::new(&flags.out);
    let mut failed = 0;
    for (figure, panels) in &chosen {
        println!("{}: {} ({})", figure.name, figure.title, figure.paper);
        let mut summaries: Vec<(&str, Summary)> = Vec::new();
        for panel in panels {
            let summary = Summary::of(&rows(panel, &results, flags)?);
            println!("\n{}: {}", panel.name, panel.title);
            println!("{}", sim::figures::table(panel, &summary));
            summaries.push((&panel.panel, summary));
        }
        let panels: Vec<(&str, &Summary)> = summaries.iter().map(|(p, s)| (*p, s)).collect();
        failed += print_verdicts(&check(&figure.name, &panels));
    }
    let names = (!flags.all).then_some(flags.names.as_slice());
    failed += drl::run_all(&drl::choose(&of_drl, names), &results, flags)?;
    if flags.check && failed > 0 {
        return Err(Failure::Findings { failed });
    }
    Ok(())
}

fn rows(panel: &Panel, results: &Results, flags: &Flags) -> Result<Vec<Row>, Failure> {
    let mut view = View::new(panel, flags.options().repeats);
    let counted = |rows: &[Row], finished_before: usize| Counted {
        runs_left_by_an_interrupted_run: finished_before,
        messages_measured: rows.iter().map(|row| row.messages).sum(),
    };
    records(panel, results, flags, counted, |progress| {
        view.show(progress);
    })
}

/// The records of an experiment: kept ones, or those of a run, which are kept together with what `counted` says of their size
/// and of how many were finished before.
fn records<E: Experiment, C: Serialize>(
    experiment: &E,
    results: &Results,
    flags: &Flags,
    counted: impl FnOnce(&[E::Record], usize) -> C,
    mut watch: impl FnMut(Progress<'_, E::Record>),
) -> Result<Vec<E::Record>, Failure> {
    let name = experiment.name();
    if flags.check {
        let kept = results.records(name, flags.quick)?;
        let path = || results.path(name, flags.quick).display().to_string();
        return kept.ok_or_else(|| {
            let name = name.to_owned();
            Failure::Experiment(ExperimentError::NoResults { name, path: path() })
        });
    }
    let options = flags.options();
    let begun = Begun::now();
    let mut finished_before = 0;
    let records = run_experiment(experiment, results, &options, |progress| {
        if let Progress::Begins { finished, .. } = progress {
            finished_before = finished;
        }
        watch(progress);
    })?;
    let counted = counted(&records, finished_before);
    let meta = begun.meta(name, options.jobs, records.len(), counted);
    results.replace(&results.meta_path(name, flags.quick), &meta)?;
    Ok(records)
}

impl Flags {
    fn options(&self) -> RunOptions {
        RunOptions {
            seed: self.seed,
            repeats: self.repeats.or(self.quick.then_some(QUICK_REPEATS)),
            jobs: self.jobs.map_or_else(cores, usize::from),
            fresh: self.fresh,
            quick: self.quick,
        }
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// How many of them do not hold.
fn print_verdicts(verdicts: &[Verdict]) -> usize {
    for verdict in verdicts {
        let word = if verdict.holds {
            "holds"
        } else {
            "does not hold"
        };
        println!(
            "  {}: {}: {word}: {}",
            verdict.experiment, verdict.finding, verdict.figures
        );
    }
    verdicts.iter().filter(|verdict| !verdict.holds).count()
}

fn list(figures: &[Figure]) {
    for figure in figures {
        println!("{:8} {} ({})", figure.name, figure.title, figure.paper);
        for experiment in &figure.panels {
            if experiment.name != figure.name {
                println!("  {:8} {}", experiment.name, experiment.title);
            }
        }
    }
}

/// What is to be run: figures with the panels that were asked for, each once, in the order of the paper.
fn choose<'a>(
    figures: &'a [Figure],
    of_drl: &[Study],
    flags: &Flags,
) -> Result<Vec<(&'a Figure, Vec<&'a Panel>)>, Failure> {
    let is_chosen = |figure: &Figure, experiment: &Panel| {
        flags.all
            || flags
                .names
                .iter()
                .any(|name| *name == figure.name || *name == experiment.name)
    };
    let is_known = |name: &String| {
        let is_panel = |figure: &Figure| figure.panels.iter().any(|panel| *name == panel.name);
        let is_of_srtm = figures
            .iter()
            .any(|figure| *name == figure.name || is_panel(figure));
        is_of_srtm || drl::is_known(of_drl, name)
    };
    if let Some(name) = flags.names.iter().find(|name| !is_known(name)) {
        let known = figures.iter().map(|figure| figure.name.as_str());
        let known: Vec<&str> = known.chain(drl::names(of_drl)).collect();
        return Err(ExperimentError::Unknown {
            name: name.clone(),
            known: known.join(", "),
        }
        .into());
    }
    let chosen = figures.iter().map(|figure| {
        let panels = figure.panels.iter();
        let panels: Vec<&Panel> = panels.filter(|panel| is_chosen(figure, panel)).collect();
        (figure, panels)
    });
    Ok(chosen.filter(|(_, panels)| !panels.is_empty()).collect())
}

/// The definitions in a folder, in the order of their names.
fn from_folder(folder: &Path) -> Result<(Vec<Figure>, Vec<Study>), Failure> {
    let shown = folder.display().to_string();
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(Failure::io(shown.clone()))? {
        let path = entry.map_err(Failure::io(shown.clone()))?.path();
        if path.extension().is_some_and(|ending| ending == "toml") {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        let said = format!("--dir {shown}: the folder has no .toml file");
        return Err(Failure::Usage(said));
    }
    paths.sort();
    let (mut figures, mut of_drl) = (Vec::new(), Vec::new());
    for path in &paths {
        let text = fs::read_to_string(path).map_err(Failure::io(path.display().to_string()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if name.starts_with(drl::PREFIX) {
            of_drl.push(Study::parse(&name, &text)?);
        } else {
            figures.push(Figure::parse(&name, &text)?);
        }
    }
    Ok((figures, of_drl))
}
