//! Brokers that learn of each other from their command lines alone.

use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

use bench::sys::{monotonic_ns, pause_for};
use serde_json::Value;

use super::*;

const RATE: f64 = 2000.0;
const BURST: f64 = 100.0;

/// Brokers that were told of the first one's gossip address.
fn gathering(folder: &Folder, join: &str, gossip: &str) -> Process {
    let key = format!("{}/key", folder.as_str());
    std::fs::write(&key, "between us").expect("written");
    let flags = [
        "broker",
        "--gossip-join",
        join,
        "--gossip-address",
        gossip,
        "--gossip-key-file",
        &key,
    ];
    let broker = Process::start(&[&flags[..], &PORTS[..]].concat());
    let (rate, burst) = (RATE.to_string(), BURST.to_string());
    let set = srtm(&[
        "topic",
        "set",
        "t",
        "--rate",
        &rate,
        "--burst",
        &burst,
        "--on-exceed",
        "drop",
        "--share-policy",
        "fps",
        "--gossip-interval",
        "20ms",
        "--gossip-branches",
        "2",
        "--ewma",
        "0.2",
        "--broker",
        &broker.http,
    ]);
    assert!(set.status.success(), "{}", text(&set.stderr));
    ask(&broker.http, "POST /channel/create?topic=t&channel=c", "");
    broker
}

/// The body of the answer to a request, JSON or nothing.
fn ask(http: &str, request: &str, body: &str) -> Value {
    let address = http.strip_prefix("http://").unwrap_or(http);
    let mut stream = TcpStream::connect(address).expect("it listens");
    let length = body.len();
    let head = format!(
        "{request} HTTP/1.1\r\nHost: b\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("taken");
    stream.write_all(body.as_bytes()).expect("taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("UTF-8");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    assert!(head.starts_with("HTTP/1.1 200"), "{request}: {answer}");
    serde_json::from_str(body).unwrap_or_default()
}

/// Asks until the brokers that share and those that are connected are so many.
fn await_shared(broker: &Process, brokers: u64, connected: u64) {
    let begun_ns = monotonic_ns();
    loop {
        let topic = ask(&broker.http, "GET /v1/topics/t", "");
        let sharing = &topic["sharing"];
        if (&sharing["brokers"], &sharing["connected"]) == (&brokers.into(), &connected.into()) {
            return;
        }
        assert!(since_s(begun_ns) < 60.0, "{topic}");
        pause_for(Duration::from_millis(20));
    }
}

fn since_s(begun_ns: u64) -> f64 {
    (monotonic_ns() - begun_ns) as f64 / 1e9
}

fn passed(broker: &Process) -> f64 {
    let stats = ask(&broker.http, "GET /stats?format=json&topic=t", "");
    let count = stats["topics"][0]["channels"][0]["message_count"].as_f64();
    count.expect("there is a channel")
}

/// Offers much more than the limit for a while.
fn flood(broker: &Process) {
    let begun_ns = monotonic_ns();
    let bodies = "m\n".repeat(200);
    let mut rounds = 0;
    while rounds < 50 || since_s(begun_ns) < 2.0 {
        ask(&broker.http, "POST /mpub?topic=t", &bodies);
        rounds += 1;
    }
}

#[test]
fn brokers_share_a_limit_without_a_controller() {
    let folder = Folder::new("gathering");
    // Where the first will be, so that the others can be told.
    let port = UdpSocket::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr());
    let first_at = port.expect("a free port").to_string();
    let first = gathering(&folder, &first_at, &first_at);
    let second = gathering(&folder, &first_at, "127.0.0.1:0");
    let third = gathering(&folder, &first_at, "127.0.0.1:0");
    let all = [&first, &second, &third];
    all.iter().for_each(|broker| await_shared(broker, 3, 3));

    let (begun_ns, before) = (monotonic_ns(), all.map(passed));
    std::thread::scope(|scope| {
        for broker in all {
            scope.spawn(move || flood(broker));
        }
    });
    let after = all.map(passed);
    let took_s = since_s(begun_ns);
    let each: Vec<f64> = after
        .iter()
        .zip(before)
        .map(|(after, before)| after - before)
        .collect();
    let sum: f64 = each.iter().sum();
    // Each on its own would have let the limit through, so three times as much.
    assert!(
        sum <= 1.5 * RATE * took_s + 2.0 * BURST,
        "{each:?} in {took_s} s"
    );
    assert!(each.iter().all(|passed| *passed > 0.0), "{each:?}");

    // One is killed and keeps its part, one ends and leaves it to the others.
    third.signal("-KILL");
    await_shared(&first, 3, 2);
    second.signal("-TERM");
    await_shared(&first, 2, 1);
    let sharers = ask(&first.http, "GET /v1/sharers", "");
    let missing = sharers["found"][0]["address"].as_str().expect("the third");
    ask(&first.http, &format!("DELETE /v1/sharers/{missing}"), "");
    await_shared(&first, 1, 1);
    let share = ask(&first.http, "GET /v1/topics/t", "")["share"]["rate"].as_f64();
    assert!(share.is_some_and(|share| share > 0.0));
}

#[test]
fn who_gathers_needs_a_key_and_who_does_not_needs_no_address() {
    let keyless = srtm(&["broker", "--gossip-join", "127.0.0.1:9"]);
    assert_eq!(keyless.status.code(), Some(2));
    assert!(text(&keyless.stderr).contains("--gossip-key-file"));
    let alone = srtm(&["broker", "--gossip-address", "127.0.0.1:0"]);
    assert_eq!(alone.status.code(), Some(2));
    assert!(text(&alone.stderr).contains("--gossip-join"));
}
