//! `srtm where`: the brokers of a topic, also before the topic exists.

use clap::Args;
use control::view::PlacementView;
use wire::TopicName;

use crate::api::{Api, CONTROLLER, escaped};
use crate::error::Failure;

const EXAMPLES: &str = "\
Examples:
  srtm where temperature
  srtm where temperature --publishers
  srtm where temperature --controller http://10.0.0.7:4180";

/// Flags of `srtm where`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// The topic.
    topic: TopicName,
    /// Lists the broker of every publisher too.
    #[arg(long)]
    publishers: bool,
    /// HTTP port of the controller.
    #[arg(long, value_name = "URL", default_value = CONTROLLER)]
    controller: String,
}

/// Asks and prints.
pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    let path = format!("/v1/topics/{}/placement", escaped(&flags.topic));
    let answer = Api::new(&flags.controller).get(&path)?;
    let view: PlacementView = serde_json::from_value(answer).map_err(|error| Failure::Api {
        url: flags.controller.clone(),
        reason: format!("the answer is no placement: {error}"),
    })?;
    if !view.exists {
        eprintln!(
            "topic {} is not there yet; a first publisher would go to",
            flags.topic
        );
    }
    if view.brokers.is_empty() {
        eprintln!("no broker takes publishers now");
    }
    for broker in &view.brokers {
        println!("{:<24} {}", broker.tcp_address, broker.broker);
    }
    if flags.publishers {
        for (publisher, broker) in &view.publishers {
            println!("{publisher:<24} {broker}");
        }
    }
    Ok(())
}
