//! `srtm topic`: limits of topics, over a broker's HTTP port.

use clap::{Args, Subcommand};
use limit::{Burst, OnExceed, Rate, Unit};
use serde_json::{Value, json};
use wire::TopicName;

use crate::api::{Api, escaped};
use crate::error::Failure;

const SET_EXAMPLES: &str = "\
Examples:
  srtm topic set temperature --rate 1000 --burst 50
  srtm topic set frames --rate 1e6 --burst 65536 --unit bytes --on-exceed drop";
const LS_EXAMPLES: &str =
    "Examples:\n  srtm topic ls\n  srtm topic ls --broker http://10.0.0.7:4151";
const SHOW_EXAMPLES: &str =
    "Examples:\n  srtm topic show temperature\n  srtm topic show temperature --json";
const RM_EXAMPLES: &str =
    "Examples:\n  srtm topic rm temperature\n  srtm topic rm temperature --with-messages";

/// A message's way, in the order in which it is told.
const STAGES: [&str; 7] = [
    "read", "limiter", "release", "queue", "write", "fin", "total",
];

/// What to do with topics.
#[derive(Debug, Subcommand)]
pub(crate) enum TopicCommand {
    /// Declares a topic's limit; the topic is created unless it exists.
    #[command(after_help = SET_EXAMPLES)]
    Set(SetFlags),
    /// Lists topics and their limits.
    #[command(after_help = LS_EXAMPLES)]
    Ls(BrokerFlag),
    /// Shows a topic: its limit, its counters, where its time goes.
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ShowFlags),
    /// Removes a topic's limit; the topic and its messages stay unless told otherwise.
    #[command(after_help = RM_EXAMPLES)]
    Rm(RemoveFlags),
}

/// Flags of `srtm topic set`.
#[derive(Args, Debug)]
pub(crate) struct SetFlags {
    /// The topic.
    name: TopicName,
    /// Messages (or bytes) per second.
    #[arg(long, value_name = "R")]
    rate: Rate,
    /// Messages (or bytes) that may leave at once after a pause.
    #[arg(long, value_name = "B")]
    burst: Burst,
    /// What is counted: messages or bytes.
    #[arg(long, default_value = "messages")]
    unit: Unit,
    /// What happens to the excess: delay, drop or reject.
    #[arg(long, value_name = "ACTION", default_value = "delay")]
    on_exceed: OnExceed,
    /// How brokers share the limit; a broker on its own knows static.
    #[arg(long, value_name = "POLICY", default_value = "static")]
    share_policy: String,
    /// Latency objective; not supported by a broker on its own yet.
    #[arg(long, value_name = "DURATION")]
    slo_p99: Option<String>,
    /// Share of a core; not supported yet.
    #[arg(long, value_name = "SHARE")]
    cpu_share: Option<String>,
    #[command(flatten)]
    broker: BrokerFlag,
}

/// Flags of `srtm topic show`.
#[derive(Args, Debug)]
pub(crate) struct ShowFlags {
    /// The topic.
    name: TopicName,
    /// Prints the broker's JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    broker: BrokerFlag,
}

/// Flags of `srtm topic rm`.
#[derive(Args, Debug)]
pub(crate) struct RemoveFlags {
    /// The topic.
    name: TopicName,
    /// Deletes the topic too, with its channels and messages.
    #[arg(long)]
    with_messages: bool,
    #[command(flatten)]
    broker: BrokerFlag,
}

/// Which broker is asked.
#[derive(Args, Debug)]
pub(crate) struct BrokerFlag {
    /// HTTP port of the broker.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:4151")]
    broker: String,
}

/// Does what the command says.
pub(crate) fn run(command: TopicCommand) -> Result<(), Failure> {
    match command {
        TopicCommand::Set(flags) => set(&flags),
        TopicCommand::Ls(flags) => ls(&flags),
        TopicCommand::Show(flags) => show(&flags),
        TopicCommand::Rm(flags) => rm(&flags),
    }
}

fn set(flags: &SetFlags) -> Result<(), Failure> {
    let not_yet = |flag: &str, why: &str| {
        Err(Failure::Usage(format!(
            "{flag} is not supported yet: {why}"
        )))
    };
    if flags.slo_p99.is_some() {
        return not_yet(
            "--slo-p99",
            "a broker on its own cannot place publishers to keep a latency objective",
        );
    }
    if flags.cpu_share.is_some() {
        return not_yet(
            "--cpu-share",
            "topics are not scheduled by shares of a core",
        );
    }
    let limit = json!({
        "rate": flags.rate,
        "burst": flags.burst,
        "unit": flags.unit,
        "on_exceed": flags.on_exceed,
        "sharing": flags.share_policy,
    });
    let api = Api::new(&flags.broker.broker);
    let contract = api.put(
        &format!("/v1/topics/{}", escaped(&flags.name)),
        &json!({ "limit": limit }),
    )?;
    println!("{}: {}", flags.name, limit_line(&contract["limit"]));
    Ok(())
}

fn ls(flags: &BrokerFlag) -> Result<(), Failure> {
    let list = Api::new(&flags.broker).get("/v1/topics")?;
    let topics = list["topics"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if topics.is_empty() {
        eprintln!("no topics");
        return Ok(());
    }
    println!("{:<32} LIMIT", "TOPIC");
    for topic in topics {
        println!(
            "{:<32} {}",
            topic["name"].as_str().unwrap_or_default(),
            limit_line(&topic["limit"])
        );
    }
    Ok(())
}

fn show(flags: &ShowFlags) -> Result<(), Failure> {
    let api = Api::new(&flags.broker.broker);
    let path = format!(
        "/stats?format=json&include_mem=false&include_clients=false&topic={}",
        escaped(&flags.name)
    );
    let stats = api.get(&path)?;
    let Some(topic) = stats["topics"].as_array().and_then(|topics| topics.first()) else {
        return Err(Failure::Api {
            url: flags.broker.broker.clone(),
            reason: format!("no topic {}", flags.name),
        });
    };
    if flags.json {
        println!("{topic:#}");
        return Ok(());
    }
    print!("{}", page(topic));
    Ok(())
}

fn rm(flags: &RemoveFlags) -> Result<(), Failure> {
    let api = Api::new(&flags.broker.broker);
    if flags.with_messages {
        api.post(&format!("/topic/delete?topic={}", escaped(&flags.name)))?;
        println!("{}: deleted", flags.name);
    } else {
        api.delete(&format!("/v1/topics/{}", escaped(&flags.name)))?;
        println!(
            "{}: no limit any more; the topic and its messages stay",
            flags.name
        );
    }
    Ok(())
}

/// A limit in one line.
fn limit_line(limit: &Value) -> String {
    if limit.is_null() {
        return "none".to_owned();
    }
    let word = |field: &str| limit[field].as_str().unwrap_or_default().to_owned();
    format!(
        "{} {}/s, burst {}, {}",
        limit["rate"],
        word("unit"),
        limit["burst"],
        word("on_exceed")
    )
}

/// A topic of `/stats` as text.
fn page(topic: &Value) -> String {
    let srtm = &topic["srtm"];
    let mut page = format!(
        "topic      {}\n",
        topic["topic_name"].as_str().unwrap_or_default()
    );
    page += &format!("limit      {}\n", limit_line(&srtm["limit"]));
    if let Some(tokens) = srtm["tokens"].as_f64() {
        page += &format!("tokens     {tokens:.1}\n");
    }
    page += &format!("paused     {}\n", topic["paused"]);
    page += &format!(
        "messages   {} ({} bytes), {} queued\n",
        topic["message_count"], topic["message_bytes"], topic["depth"]
    );
    page += &format!(
        "excess     {} delayed, {} dropped, {} rejected, {} publishers held back\n",
        srtm["delayed_count"],
        srtm["dropped_count"],
        srtm["rejected_count"],
        srtm["held_publishers"]
    );
    for channel in topic["channels"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
    {
        page += &format!(
            "channel    {}: {} queued, {} in flight, {} deferred, {} messages, {} consumers\n",
            channel["channel_name"].as_str().unwrap_or_default(),
            channel["depth"],
            channel["in_flight_count"],
            channel["deferred_count"],
            channel["message_count"],
            channel["client_count"],
        );
    }
    for stage in STAGES {
        let times = &srtm["latency_us"][stage];
        if times.is_null() {
            continue;
        }
        let us = |field: &str| times[field].as_f64().unwrap_or_default();
        page += &format!(
            "latency    {stage:<8} p50 {:>9.1} us   p99 {:>9.1} us   p99.9 {:>9.1} us   max {:>9.1} us   of {}\n",
            us("p50"),
            us("p99"),
            us("p999"),
            us("max"),
            times["count"],
        );
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_read_as_text() {
        let limit = json!({"rate": 1000, "burst": 2.5, "unit": "bytes", "on_exceed": "drop", "sharing": "static"});
        assert_eq!(limit_line(&limit), "1000 bytes/s, burst 2.5, drop");
        assert_eq!(limit_line(&Value::Null), "none");
        let topic = json!({
            "topic_name": "t", "paused": false, "message_count": 9, "message_bytes": 90, "depth": 1,
            "channels": [{"channel_name": "c", "depth": 3, "in_flight_count": 2, "deferred_count": 0,
                "message_count": 8, "client_count": 1}],
            "srtm": {"limit": limit, "tokens": 1.26, "delayed_count": 4, "dropped_count": 5, "rejected_count": 6,
                "held_publishers": 7, "latency_us": {"total": {"count": 8, "p50": 1.0, "p99": 2.0, "p999": 3.0, "max": 4.0}}},
        });
        let page = page(&topic);
        for line in [
            "topic      t",
            "limit      1000 bytes/s, burst 2.5, drop",
            "tokens     1.3",
            "messages   9 (90 bytes), 1 queued",
            "excess     4 delayed, 5 dropped, 6 rejected, 7 publishers held back",
            "channel    c: 3 queued, 2 in flight, 0 deferred, 8 messages, 1 consumers",
        ] {
            assert!(
                page.lines().any(|each| each == line),
                "{line:?} is not in\n{page}"
            );
        }
        assert!(
            page.contains("latency    total    p50       1.0 us"),
            "{page}"
        );
    }
}
