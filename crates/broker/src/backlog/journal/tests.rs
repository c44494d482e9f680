//! What reactors hear of their batches.

use clock::WallTime;
use disk::{Folder, LogsConfig, Simulated, Stamps};
use topics::{LogBatch, LogStep, TopicKey};

use super::*;

const LOGS: LogsConfig = LogsConfig {
    file_bytes_max: 1 << 20,
    bytes_max: 1 << 20,
};

fn batch(number: u64, is_synced: bool, is_word_wanted: bool) -> LogOrder {
    LogOrder::Write(Box::new(LogBatch {
        topic: TopicKey::from_bits(0),
        name: "t".parse().expect("valid"),
        number,
        is_synced,
        is_word_wanted,
        messages: Segment::default(),
        standings: Vec::new(),
        steps: vec![LogStep::Finished {
            channel: 1,
            id: number,
        }],
        adopted: Vec::new(),
    }))
}

/// What is heard of two batches that come together, on a disk that takes them or does not.
fn heard(name: &str, is_synced: bool, asks: [bool; 2], takes: bool) -> Vec<(u64, bool)> {
    let name = format!("srtm-journal-{name}-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_dir_all(&path);
    let folder = Folder::open(&path).expect("a folder");
    let (logs, _) = Logs::open(folder, LOGS, 7).expect("an empty one");
    let now = Instant::from_nanos(1_000_000_000);
    let anchor = Anchor {
        now,
        wall: WallTime::from_nanos(1_700_000_000_000_000_000),
    };
    let health = BacklogHealth::default();
    let timeout = Duration::from_secs(2);
    let mut journal = Journal::new(logs, anchor, health, timeout, FxHashMap::default());
    if !takes {
        std::fs::remove_dir_all(&path).expect("it was there");
    }
    for (number, is_word_wanted) in (1..).zip(asks) {
        journal.take(0, batch(number, is_synced, is_word_wanted));
    }
    let answers = journal.commit(now);
    let _ = std::fs::remove_dir_all(&path);
    let answers = answers.into_iter();
    answers
        .map(|(_, answer)| (answer.number, answer.is_durable))
        .collect()
}

#[test]
fn who_asks_hears_how_far_a_log_is_before_it_is_synced_and_where_the_disk_takes_nothing() {
    let durable = vec![(1, true), (2, true)];
    assert_eq!(heard("disk", false, [false, true], true), durable);
    assert_eq!(heard("last", true, [true, true], true), [(2, false)]);
    assert_eq!(heard("first", true, [true, false], true), [(1, false)]);
    assert_eq!(heard("nobody", true, [false, false], true), []);
    for is_synced in [false, true] {
        let heard = heard("gone", is_synced, [true, true], false);
        assert_eq!(heard, [(2, false)], "consumers go on");
    }
}

#[test]
fn a_message_of_before_is_written_though_there_is_never_room_for_it() {
    let (logs, _) = Logs::open(Simulated::default(), LOGS, 7).expect("an empty one");
    let now = Instant::from_nanos(1_000_000_000);
    let anchor = Anchor {
        now,
        wall: WallTime::from_nanos(1_700_000_000_000_000_000),
    };
    let (health, timeout) = (BacklogHealth::default(), Duration::from_secs(2));
    let mut journal = Journal::new(logs, anchor, health, timeout, FxHashMap::default());
    let body = vec![b'x'; LOGS.message_bytes_max() as usize + 1];
    let message = |id| Message {
        id,
        attempts: 0,
        has_paid: false,
        has_waited: false,
        half_rtt_us: 0,
        flow: 0,
        stamps: Stamps::default(),
        body: &body,
    };
    let LogOrder::Write(mut order) = batch(1, true, false) else {
        unreachable!("a batch is written");
    };
    order.messages = anchor.segment([7, 8].map(message).into_iter(), false);
    order.steps.clear();
    journal.take(0, LogOrder::Write(order));
    let answers = journal.commit(now);
    assert_eq!(answers.len(), 1, "it does not wait for ever");
    assert!(answers[0].1.is_durable);
    let topic = "t".parse().expect("valid");
    assert!(journal.logs.bytes_of(&topic) > LOGS.bytes_max / 2);
}
