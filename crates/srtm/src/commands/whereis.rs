//! `srtm where`: the brokers of a topic, also before the topic exists.

use clap::Args;
use wire::TopicName;

use crate::error::Failure;
use crate::servers::{CONTROLLER, controller};
use crate::token_flags::TokenFlags;

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
    /// Lists the broker of each publisher as well.
    #[arg(long)]
    publishers: bool,
    /// URL of the controller; several, of which one leads, have commas between them.
    #[arg(long, value_name = "URL", default_value = CONTROLLER)]
    controller: String,
    #[command(flatten)]
    token: TokenFlags,
}

/// Asks and prints.
pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    let view = controller(&flags.controller, &flags.token)?.placement(flags.topic.as_str())?;
    if !view.exists {
        eprintln!(
            "topic {} does not exist yet; its first publisher would go to",
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
