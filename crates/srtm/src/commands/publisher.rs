//! `srtm publisher`: declares publishers, lists where they are, removes them.

use api::view::{PublisherList, PublisherSpec, PublisherViews};
use clap::{Args, Subcommand};
use serde_json::Value;
use wire::TopicName;

use crate::error::Failure;
use crate::servers::{self, CONTROLLER};
use crate::token_flags::TokenFlags;

const ADD_EXAMPLES: &str = "\
Examples:
  srtm publisher add temperature s1 --rate 10 --batch 1 --group hall-3
  srtm publisher add temperature s1 s2 s3 --rate 10
  srtm publisher add temperature --file publishers.json      a list as POST /v1/topics/{t}/publishers takes it";
const LS_EXAMPLES: &str = "Examples:\n  srtm publisher ls temperature";
const RM_EXAMPLES: &str = "Examples:\n  srtm publisher rm temperature s1 s2";

/// What to do with publishers.
#[derive(Debug, Subcommand)]
pub(crate) enum PublisherCommand {
    /// Declares publishers, or changes declared ones, and places them at once.
    #[command(after_help = ADD_EXAMPLES)]
    Add(AddFlags),
    /// Lists publishers with their brokers.
    #[command(after_help = LS_EXAMPLES)]
    Ls(ListFlags),
    /// Removes publishers.
    #[command(after_help = RM_EXAMPLES)]
    Rm(RemoveFlags),
}

/// Flags of `srtm publisher add`.
#[derive(Args, Debug)]
pub(crate) struct AddFlags {
    /// The topic.
    topic: TopicName,
    /// Ids of the publishers.
    #[arg(required_unless_present = "file")]
    ids: Vec<String>,
    /// Messages per second of each publisher.
    #[arg(long, value_name = "R", default_value_t = 1.0)]
    rate: f64,
    /// Messages that each sends at once.
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch: u32,
    /// Correlation group. Publishers of a group send at about the same time.
    #[arg(long, value_name = "KEY")]
    group: Option<String>,
    /// JSON file with the list of publishers; - reads standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "ids")]
    file: Option<std::path::PathBuf>,
    #[command(flatten)]
    whom: Whom,
}

/// Flags of `srtm publisher ls`.
#[derive(Args, Debug)]
pub(crate) struct ListFlags {
    /// The topic.
    topic: TopicName,
    #[command(flatten)]
    whom: Whom,
}

/// Flags of `srtm publisher rm`.
#[derive(Args, Debug)]
pub(crate) struct RemoveFlags {
    /// The topic.
    topic: TopicName,
    /// Ids of the publishers.
    #[arg(required = true)]
    ids: Vec<String>,
    #[command(flatten)]
    whom: Whom,
}

/// Who is asked.
#[derive(Args, Debug)]
pub(crate) struct Whom {
    /// URL of the controller; several, of which one leads, have commas between them.
    #[arg(long, value_name = "URL", default_value = CONTROLLER)]
    controller: String,
    #[command(flatten)]
    token: TokenFlags,
}

/// Does what the command says.
pub(crate) fn run(command: PublisherCommand) -> Result<(), Failure> {
    match command {
        PublisherCommand::Add(flags) => add(&flags),
        PublisherCommand::Ls(flags) => ls(&flags),
        PublisherCommand::Rm(flags) => rm(&flags),
    }
}

fn add(flags: &AddFlags) -> Result<(), Failure> {
    let body = match &flags.file {
        Some(file) => read(file)?,
        None => {
            let spec = |id: &String| PublisherSpec {
                id: id.clone(),
                rate: flags.rate,
                batch: flags.batch,
                group: flags.group.clone(),
            };
            let publishers = flags.ids.iter().map(spec).collect();
            serde_json::to_value(PublisherList { publishers })
                .map_err(|error| Failure::Usage(error.to_string()))?
        }
    };
    // A list from a file goes as it is: the controller says what is wrong with it.
    let target = servers::of_topic(&flags.topic).then("/publishers");
    let views = servers::client(&flags.whom.controller, &flags.whom.token)?.post(&target, &body)?;
    print(&views);
    Ok(())
}

fn ls(flags: &ListFlags) -> Result<(), Failure> {
    let controller = servers::controller(&flags.whom.controller, &flags.whom.token)?;
    print(&controller.publishers(flags.topic.as_str())?);
    Ok(())
}

fn rm(flags: &RemoveFlags) -> Result<(), Failure> {
    let controller = servers::controller(&flags.whom.controller, &flags.whom.token)?;
    for id in &flags.ids {
        controller.remove_publisher(flags.topic.as_str(), id)?;
        println!("{id}: removed");
    }
    Ok(())
}

fn read(file: &std::path::Path) -> Result<Value, Failure> {
    let shown = file.display().to_string();
    let text = if shown == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.map_err(Failure::io(format!("reading {shown}")))?;
    serde_json::from_str(&text).map_err(|error| Failure::Usage(format!("{shown}: {error}")))
}

fn print(views: &PublisherViews) {
    println!(
        "{:<24} {:>10} {:>6} {:<16} {:<12} CONNECTED TO",
        "PUBLISHER", "MSG/S", "BATCH", "GROUP", "BROKER"
    );
    for view in &views.publishers {
        println!(
            "{:<24} {:>10} {:>6} {:<16} {:<12} {}",
            view.id,
            view.rate,
            view.batch,
            view.group.as_deref().unwrap_or("-"),
            view.broker.as_ref().map_or("-", |broker| &broker.broker),
            view.attached_to.as_deref().unwrap_or("-"),
        );
    }
}
