//! `srtm topic` at a controller: contracts over the whole cluster, and how the fit to a promise went.

use std::fmt::Write as _;

use api::view::{Contract, Slo, TopicSpec, TopicView};
use placement::FitStatus;
use serde_json::Value;

use super::{RemoveFlags, SetFlags, ShowFlags};
use crate::error::Failure;
use crate::servers::{client, controller, of_topic};
use crate::token_flags::TokenFlags;

pub(super) fn set(url: &str, flags: &SetFlags) -> Result<(), Failure> {
    let limit = flags.limit()?;
    let slo = flags.slo_p99.map(|latency| Slo {
        percentile: 99.0,
        latency_us: latency.0.as_secs_f64() * 1e6,
    });
    let spec = TopicSpec {
        contract: Contract {
            limit,
            cpu_share: flags.cpu_share(),
            on_full: flags.on_full,
            durability: flags.durability.unwrap_or_default(),
        },
        slo,
        policy: flags.policy,
        fit: flags.fit,
        infer_groups: flags.infer_groups,
    };
    let view = controller(url, &flags.whom.token)?.put_topic(flags.name.as_str(), &spec)?;
    println!("{}", line(&view));
    Ok(())
}

pub(super) fn ls(url: &str, token: &TokenFlags) -> Result<(), Failure> {
    let topics = controller(url, token)?.topics()?;
    if topics.is_empty() {
        eprintln!("no topics");
        return Ok(());
    }
    println!(
        "{:<24} {:<14} {:>10} {:>7}  CONTRACT",
        "TOPIC", "STATE", "PUBLISHERS", "BROKERS"
    );
    for view in topics {
        let brokers = view
            .brokers
            .iter()
            .filter(|broker| broker.publishers > 0)
            .count();
        println!(
            "{:<24} {:<14} {:>10} {:>7}  {}",
            view.topic,
            view.state,
            view.publishers,
            brokers,
            contract(&view.spec)
        );
    }
    Ok(())
}

pub(super) fn show(url: &str, flags: &ShowFlags) -> Result<(), Failure> {
    if flags.json {
        // All that the controller says, known here or not.
        let answer: Value = client(url, &flags.whom.token)?.get(&of_topic(&flags.name))?;
        println!("{answer:#}");
        return Ok(());
    }
    let view = controller(url, &flags.whom.token)?.topic(flags.name.as_str())?;
    print!("{}", page(&view));
    Ok(())
}

pub(super) fn rm(url: &str, flags: &RemoveFlags) -> Result<(), Failure> {
    controller(url, &flags.whom.token)?.remove_topic(flags.name.as_str())?;
    println!(
        "{}: contract and publishers removed; messages at the brokers stay",
        flags.name
    );
    Ok(())
}

fn line(view: &TopicView) -> String {
    format!("{}: {}; {}", view.topic, contract(&view.spec), view.state)
}

fn contract(spec: &TopicSpec) -> String {
    let Contract {
        limit,
        cpu_share,
        on_full,
        durability,
    } = spec.contract;
    let limit = limit.map_or_else(|| String::from("no limit"), |limit| limit.to_string());
    let mut contract = limit;
    if let Some(slo) = spec.slo {
        let within = milliseconds(slo.latency_us);
        let _ = write!(contract, "; p{} within {within}", slo.percentile);
    }
    if let Some(share) = cpu_share {
        let _ = write!(contract, "; cpu share {share}");
    }
    if let Some(on_full) = on_full {
        let _ = write!(contract, "; full channels: {on_full}");
    }
    if !durability.is_memory() {
        let _ = write!(contract, "; durability: {durability}");
    }
    contract
}

fn milliseconds(us: f64) -> String {
    format!("{:.3} ms", us / 1000.0)
}

/// A topic as text: contract, state, brokers, and the fit as the paper's table I has it.
fn page(view: &TopicView) -> String {
    let mut page = format!(
        "topic      {}\ncontract   {}\n",
        view.topic,
        contract(&view.spec)
    );
    let _ = writeln!(
        page,
        "placement  policy {}, fit by {}",
        view.spec.policy, view.spec.fit
    );
    let _ = writeln!(page, "state      {}: {}", view.state, view.text);
    let _ = writeln!(
        page,
        "publishers {} sending {:.1} msg/s, {} without a place\n",
        view.publishers, view.rate, view.unplaced
    );
    let _ = writeln!(
        page,
        "{:<12} {:<21} {:>10} {:>9} {:>10} {:>10} {:>10} {:>9} {:>9}",
        "BROKER",
        "ADDRESS",
        "PUBLISHERS",
        "CONNECTED",
        "MSG/S",
        "MEASURED",
        "SHARE R",
        "SHARE B",
        "LATENCY"
    );
    for broker in &view.brokers {
        let share = |pick: fn(&limit::Share) -> f64| {
            broker
                .share
                .as_ref()
                .map_or_else(|| String::from("-"), |share| format!("{:.1}", pick(share)))
        };
        let _ = writeln!(
            page,
            "{:<12} {:<21} {:>10} {:>9} {:>10.1} {:>10.1} {:>10} {:>9} {:>9}",
            broker.broker,
            broker.tcp_address,
            broker.publishers,
            broker.attached,
            broker.rate,
            broker.measured_rate,
            share(|share| share.rate.get()),
            share(|share| share.burst.get()),
            broker
                .latency_us
                .map_or_else(|| String::from("-"), milliseconds),
        );
    }
    if let Some(status) = &view.fit_status {
        page += "\n";
        page += &table(status, &view.fit_brokers);
    }
    page
}

/// The fit, iteration by iteration.
fn table(status: &FitStatus, names: &[String]) -> String {
    let mut text = format!(
        "fit by {}: {} windows, {:.0} s\n{:>9} {:>3} {:>7} {:>9}  PUBLISHERS AND LATENCY BY BROKER\n",
        status.mode, status.windows, status.seconds, "ITERATION", "K", "ROUNDS", "SECONDS"
    );
    for (number, iteration) in status.iterations.iter().enumerate() {
        let brokers: Vec<String> = iteration
            .brokers
            .iter()
            .map(|broker| {
                let latency = broker
                    .p99_us
                    .map_or_else(|| String::from("-"), milliseconds);
                let full = if broker.full { " full" } else { "" };
                let name = names
                    .get(broker.broker.0 as usize)
                    .map_or("?", String::as_str);
                format!("{name} {} {latency}{full}", broker.publishers)
            })
            .collect();
        let _ = writeln!(
            text,
            "{:>9} {:>3} {:>7} {:>9.0}  {}",
            number + 1,
            iteration.k,
            iteration.rounds,
            iteration.seconds,
            brokers.join(", ")
        );
    }
    text
}
