//! `srtm topic --broker URL`: limits and shares at one broker on its own.

use api::Target;
use serde_json::{Value, json};

use super::{RemoveFlags, SetFlags, ShowFlags};
use crate::error::Failure;
use crate::servers::{client, of_topic};
use crate::token_flags::TokenFlags;

/// A message's way, in the order in which it is told.
const STAGES: [&str; 8] = [
    "read",
    "limiter",
    "release",
    "queue",
    "write",
    "fin",
    "total",
    "end_to_end",
];

pub(super) fn set(broker: &str, flags: &SetFlags) -> Result<(), Failure> {
    let limit = flags.limit()?;
    let cpu_share = flags.cpu_share().map(kernel::CpuShare::as_f64);
    let contract: Value = client(broker, &flags.whom.token)?.put(
        &of_topic(&flags.name),
        &json!({
            "limit": limit,
            "cpu_share": cpu_share,
            "on_full": flags.on_full,
            "durability": flags.durability,
        }),
    )?;
    println!("{}: {}", flags.name, contract_line(&contract));
    Ok(())
}

pub(super) fn ls(broker: &str, token: &TokenFlags) -> Result<(), Failure> {
    let list: Value = client(broker, token)?.get(&Target::new("/v1/topics"))?;
    let topics = list["topics"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if topics.is_empty() {
        eprintln!("no topics");
        return Ok(());
    }
    println!("{:<32} CONTRACT", "TOPIC");
    for topic in topics {
        println!(
            "{:<32} {}",
            topic["name"].as_str().unwrap_or_default(),
            contract_line(topic)
        );
    }
    Ok(())
}

pub(super) fn show(broker: &str, flags: &ShowFlags) -> Result<(), Failure> {
    let port = client(broker, &flags.whom.token)?;
    let stats = Target::new("/stats?format=json&include_mem=false&include_clients=false")
        .query("topic", flags.name.as_str());
    let stats: Value = port.get(&stats)?;
    let Some(topic) = stats["topics"].as_array().and_then(|topics| topics.first()) else {
        return Err(Failure::Api {
            url: broker.to_owned(),
            reason: format!("no topic {}", flags.name),
        });
    };
    if flags.json {
        println!("{topic:#}");
        return Ok(());
    }
    print!("{}", page(topic));
    let tasks: Value = port.get(&Target::new("/v1/tasks"))?;
    print!("{}", task_lines(&tasks, flags.name.as_str()));
    Ok(())
}

pub(super) fn rm(broker: &str, flags: &RemoveFlags) -> Result<(), Failure> {
    let port = client(broker, &flags.whom.token)?;
    if flags.with_messages {
        let delete = Target::new("/topic/delete").query("topic", flags.name.as_str());
        let _nothing: Value = port.order(&delete)?;
        println!("{}: deleted", flags.name);
    } else {
        port.delete(&of_topic(&flags.name))?;
        println!(
            "{}: contract removed; the topic and its messages stay",
            flags.name
        );
    }
    Ok(())
}

/// A contract in one line.
fn contract_line(contract: &Value) -> String {
    let mut line = limit_line(&contract["limit"]);
    if let Some(share) = contract["cpu_share"].as_f64() {
        line += &format!("; cpu share {share}");
    }
    if let Some(on_full) = contract["on_full"].as_str() {
        line += &format!("; full channels: {on_full}");
    }
    if let Some(durability) = contract["durability"].as_str() {
        line += &format!("; durability: {durability}");
    }
    line
}

/// A limit in one line.
pub(super) fn limit_line(limit: &Value) -> String {
    if limit.is_null() {
        return "none".to_owned();
    }
    let word = |field: &str| limit[field].as_str().unwrap_or_default().to_owned();
    let line = format!(
        "{} {}/s, burst {}, {}",
        limit["rate"],
        word("unit"),
        limit["burst"],
        word("on_exceed")
    );
    match word("sharing").as_str() {
        "" | "lease" => line,
        policy => format!("{line}, shared by {policy}"),
    }
}

/// A topic of `/stats` as text.
fn page(topic: &Value) -> String {
    let srtm = &topic["srtm"];
    let mut page = format!(
        "topic      {}\n",
        topic["topic_name"].as_str().unwrap_or_default()
    );
    page += &format!("limit      {}\n", limit_line(&srtm["limit"]));
    if let Some(durability) = srtm["durability"].as_str() {
        page += &format!("durability {durability}\n");
    }
    if let (Some(rate), Some(burst)) = (
        srtm["share"]["rate"].as_f64(),
        srtm["share"]["burst"].as_f64(),
    ) {
        page += &format!("part       {rate:.1}/s, burst {burst:.1}");
        let sharing = &srtm["sharing"];
        if let Some(policy) = sharing["policy"].as_str() {
            let (connected, brokers) = (&sharing["connected"], &sharing["brokers"]);
            page += &format!(", by {policy}; {connected} of {brokers} brokers heard");
        }
        page += "\n";
    }
    if let Some(tokens) = srtm["tokens"].as_f64() {
        page += &format!("tokens     {tokens:.1}\n");
    }
    page += &format!("paused     {}\n", topic["paused"]);
    if let Some(why) = srtm["held"].as_str() {
        page += &format!("held       {why}\n");
    }
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
        page += &channel_lines(channel);
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

/// A channel of `/stats` as text.
fn channel_lines(channel: &Value) -> String {
    let mut lines = format!(
        "channel    {}: {} queued, {} in flight, {} deferred, {} messages, {} consumers\n",
        channel["channel_name"].as_str().unwrap_or_default(),
        channel["depth"],
        channel["in_flight_count"],
        channel["deferred_count"],
        channel["message_count"],
        channel["client_count"],
    );
    let dropped = &channel["srtm"]["dropped_oldest_count"];
    match channel["srtm"]["full"].as_str() {
        Some("blocks") => {
            lines += "           full: publishers wait until consumers finish messages\n"
        }
        Some(_) => {
            lines +=
                &format!("           full: the oldest messages are dropped, {dropped} so far\n")
        }
        None => {}
    }
    lines
}

/// How a topic of `/v1/tasks` fares with its share; nothing where it has not been served yet.
fn task_lines(document: &Value, name: &str) -> String {
    let tasks = document["tasks"].as_array();
    let Some(task) = tasks.and_then(|tasks| tasks.iter().find(|task| task["topic"] == name)) else {
        return String::new();
    };
    let ms = |field: &str| task[field].as_f64().unwrap_or_default() / 1000.0;
    let period_ms = document["period_us"].as_f64().unwrap_or_default() / 1000.0;
    let share = match task["cpu_share"].as_f64() {
        Some(share) => format!("{share}"),
        None => String::from("none declared"),
    };
    let stability = match task["unstable"].as_bool() {
        Some(true) => "unstable: more comes than its CPU share can serve",
        _ => "stable",
    };
    let mut lines = format!(
        "share      {share}: {:.3} ms of each {period_ms} ms, {stability} ({} spells of instability)\n",
        ms("allotment_us"),
        task["unstable_spells"]
    );
    lines += &format!(
        "served     {} times, {:.1} ms in all; waited {:.3} ms at most; {} overruns, {:.3} ms at most\n",
        task["turns"],
        ms("used_us"),
        ms("wait_max_us"),
        task["overruns"],
        ms("overrun_max_us")
    );
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_read_as_text() {
        let limit = json!({"rate": 1000, "burst": 2.5, "unit": "bytes", "on_exceed": "drop", "sharing": "lease"});
        assert_eq!(limit_line(&limit), "1000 bytes/s, burst 2.5, drop");
        let shared = json!({"rate": 5, "burst": 2, "unit": "messages", "on_exceed": "delay", "sharing": "fps"});
        assert_eq!(
            limit_line(&shared),
            "5 messages/s, burst 2, delay, shared by fps"
        );
        assert_eq!(limit_line(&Value::Null), "none");
        let contract = json!({"limit": limit, "cpu_share": 0.2, "durability": "disk"});
        assert_eq!(
            contract_line(&contract),
            "1000 bytes/s, burst 2.5, drop; cpu share 0.2; durability: disk"
        );
        assert_eq!(contract_line(&json!({"limit": null})), "none");
        let topic = json!({
            "topic_name": "t", "paused": false, "message_count": 9, "message_bytes": 90, "depth": 1,
            "channels": [{"channel_name": "c", "depth": 3, "in_flight_count": 2, "deferred_count": 0,
                "message_count": 8, "client_count": 1,
                "srtm": {"full": "drops_oldest", "dropped_oldest_count": 4}}],
            "srtm": {"limit": limit, "durability": "fsync", "share": {"rate": 333.33, "burst": 1}, "tokens": 1.26,
                "sharing": {"policy": "fps", "brokers": 3, "connected": 2, "demand": 4.0, "passed": 300.0}, "delayed_count": 4, "dropped_count": 5, "rejected_count": 6,
                "held_publishers": 7, "latency_us": {"total": {"count": 8, "p50": 1.0, "p99": 2.0, "p999": 3.0, "max": 4.0}}},
        });
        let page = page(&topic);
        for line in [
            "topic      t",
            "limit      1000 bytes/s, burst 2.5, drop",
            "durability fsync",
            "part       333.3/s, burst 1.0, by fps; 2 of 3 brokers heard",
            "tokens     1.3",
            "messages   9 (90 bytes), 1 queued",
            "excess     4 delayed, 5 dropped, 6 rejected, 7 publishers held back",
            "channel    c: 3 queued, 2 in flight, 0 deferred, 8 messages, 1 consumers",
            "           full: the oldest messages are dropped, 4 so far",
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

    #[test]
    fn tasks_read_as_text() {
        let task = json!({"topic": "t", "cpu_share": 0.2, "allotment_us": 2000, "turns": 7, "used_us": 1500,
            "wait_max_us": 2500, "overruns": 1, "overrun_max_us": 250, "unstable": true, "unstable_spells": 3});
        let document = json!({"period_us": 10_000, "tasks": [{"topic": null}, task]});
        let lines = "\
share      0.2: 2.000 ms of each 10 ms, unstable: more comes than its CPU share can serve (3 spells of instability)
served     7 times, 1.5 ms in all; waited 2.500 ms at most; 1 overruns, 0.250 ms at most
";
        assert_eq!(task_lines(&document, "t"), lines);
        assert_eq!(task_lines(&document, "u"), "");
    }
}
