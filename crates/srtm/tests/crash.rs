//! Brokers that are killed under load: nothing that a durable topic has accepted is lost, and nothing is made up.
//!
//! A run has one seed, which a failure prints. `SRTM_CRASH_SEED=N` begins with another one. `SRTM_CRASH_MESSAGES=N` goes on until so many
//! messages were accepted; what is kept of a run that failed is where the failure says.

#[path = "crash/body.rs"]
mod body;
#[path = "crash/books.rs"]
mod books;
#[path = "crash/broker.rs"]
mod broker;
#[path = "crash/clocks.rs"]
mod clocks;
#[path = "crash/connection.rs"]
mod connection;
#[path = "crash/consumers.rs"]
mod consumers;
#[path = "crash/lane.rs"]
mod lane;
#[path = "crash/publishers.rs"]
mod publishers;

use std::path::PathBuf;

use lane::{Outcome, Plan};

/// What a kill has delivered again of one channel beside what is in flight: the broker delivers nothing more of a topic while as much of it
/// is finished and not written (`topics::FINISHED_WAITING_MAX`).
const FINISHED_AGAIN_MAX: usize = 2048;

/// Kills of all lanes of durable topics together.
const KILLS: usize = 200;

/// A number from the environment.
fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number")),
    )
}

fn folder(plan: &Plan) -> PathBuf {
    let (durability, threads, queue) = (plan.durability, plan.threads, plan.queue_messages);
    let name = format!(
        "srtm-crash-{}-{durability}-{threads}-{queue}",
        std::process::id()
    );
    std::env::temp_dir().join(name)
}

/// Runs plans beside each other.
fn run(plans: Vec<Plan>) -> Vec<Outcome> {
    let lanes = plans.into_iter().map(|plan| {
        let folder = folder(&plan);
        std::thread::spawn(move || lane::run(plan, folder))
    });
    let lanes: Vec<_> = lanes.collect();
    let outcomes = lanes
        .into_iter()
        .map(|lane| lane.join().expect("a lane ends"));
    outcomes.collect()
}

fn told(outcome: &Outcome) -> String {
    let Outcome {
        plan,
        kills,
        in_flight_max,
        slowest_start,
        verdict,
        folder,
    } = outcome;
    format!(
        "{} --threads {} --mem-queue-size {}, seed {}: {kills} kills, slowest start {} ms, {in_flight_max} in flight at most: {verdict}\n  \
         the data folder is {}",
        plan.durability,
        plan.threads,
        plan.queue_messages,
        plan.seed,
        slowest_start.as_millis(),
        folder.display()
    )
}

/// `disk` and `fsync`, with one thread and with two; queues that fit into memory, and queues that do not.
fn durable_plans() -> Vec<Plan> {
    let seed = setting("SRTM_CRASH_SEED").unwrap_or(1);
    let messages = setting("SRTM_CRASH_MESSAGES").unwrap_or(0) as usize;
    let lanes = [
        ("disk", 1, 10_000),
        ("disk", 2, 100),
        ("fsync", 1, 100),
        ("fsync", 2, 10_000),
    ];
    let plans = lanes.into_iter().zip(seed..);
    let plans = plans.map(|((durability, threads, queue_messages), seed)| Plan {
        seed,
        durability,
        threads,
        queue_messages,
        kills: KILLS / lanes.len(),
        messages: messages / lanes.len(),
    });
    plans.collect()
}

/// Nothing that was made up, early, or delivered again without a kill or a timeout.
fn assert_orderly(outcome: &Outcome) {
    let verdict = &outcome.verdict;
    assert_eq!(verdict.strangers.len(), 0, "{}", told(outcome));
    assert_eq!(verdict.early.len(), 0, "{}", told(outcome));
    assert_eq!(verdict.again_without_reason, 0, "{}", told(outcome));
}

#[test]
fn durable_topics_lose_nothing_that_they_accepted() {
    for outcome in run(durable_plans()) {
        println!("{}", told(&outcome));
        assert_orderly(&outcome);
        let (verdict, told) = (&outcome.verdict, told(&outcome));
        assert_eq!(verdict.lost, 0, "{told}");
        // A kill takes the last of what was finished, and nothing before that.
        assert_eq!(verdict.out_of_order_max, 0, "{told}");
        assert!(verdict.again_finished_max <= FINISHED_AGAIN_MAX, "{told}");
        assert!(verdict.accepted > 1_000, "{told}");
        // What is kept is for those who look into a failure.
        let _ = std::fs::remove_dir_all(&outcome.folder);
    }
}

/// The harness itself: what is only in memory is lost when its broker is killed, and the books say so.
#[test]
fn losses_of_a_memory_topic_are_found() {
    let plan = Plan {
        seed: setting("SRTM_CRASH_SEED").unwrap_or(1),
        durability: "memory",
        threads: 1,
        queue_messages: 10_000,
        kills: 8,
        messages: 1_000,
    };
    let [outcome] = run(vec![plan]).try_into().expect("one lane");
    let told = told(&outcome);
    println!("{told}");
    assert_orderly(&outcome);
    assert!(
        outcome.verdict.lost > 0,
        "nothing was lost, or it was not seen: {told}"
    );
    // What was in flight is lost with everything else, so nothing comes twice.
    assert_eq!(outcome.verdict.again_later, 0, "{told}");
    let _ = std::fs::remove_dir_all(&outcome.folder);
}
