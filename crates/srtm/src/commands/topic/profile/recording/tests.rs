//! Whole recordings, over sockets whose other ends give fixed answers.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    flags: ProfileFlags,
}

/// Answers by path, without the query. Where there is none the peer goes away.
fn peer(answers: &[(&'static str, u16, String)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("an address").to_string();
    let answers: HashMap<_, _> = answers
        .iter()
        .map(|(path, status, body)| (*path, (*status, body.clone())))
        .collect();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("accepted");
            let mut lines = BufReader::new(&stream).lines();
            let request = lines.next().expect("a request").expect("read");
            let head = lines.map(|line| line.expect("read"));
            let _ = head.take_while(|line| !line.is_empty()).count();
            let path = request.split([' ', '?']).nth(1).unwrap_or_default();
            let Some((status, body)) = answers.get(path) else {
                continue;
            };
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            stream.write_all((head + body).as_bytes()).expect("sent");
        }
    });
    address
}

const ARRIVALS: &str = "/v1/topics/t/arrivals";

fn broker(status: u16, body: &str) -> String {
    peer(&[(ARRIVALS, status, body.to_owned())])
}

fn recording(begin_ns: u64, end_ns: u64, publishers: &str, arrivals: &str) -> String {
    format!(
        r#"{{"topic":"t","begin_ns":{begin_ns},"end_ns":{end_ns},"publishers":{publishers},"arrivals":{arrivals},"is_cut":false}}"#
    )
}

/// A controller of these brokers, with a contract or without.
fn controller(brokers: &[String], contract: Option<&str>) -> String {
    let view = |(number, address): (usize, &String)| {
        let view = api::view::BrokerView {
            broker: format!("b{number}"),
            http_address: Some(address.clone()),
            state: String::from("up"),
            ..api::view::BrokerView::default()
        };
        serde_json::to_value(view).expect("JSON")
    };
    let brokers: Vec<_> = brokers.iter().enumerate().map(view).collect();
    let list = serde_json::json!({ "brokers": brokers }).to_string();
    let (status, contract) = match contract {
        Some(contract) => (200, contract),
        None => (404, r#"{"error":"no topic t"}"#),
    };
    peer(&[
        ("/v1/brokers", 200, list),
        ("/v1/topics/t", status, contract.to_owned()),
    ])
}

fn record_at(flag: &str, address: &str) -> Result<(Trace, Option<Limit>), Failure> {
    let line = Line::try_parse_from(["profile", "t", "--window", "1s", flag, address]);
    record(&line.expect("valid flags").flags)
}

fn not_there() -> String {
    broker(404, r#"{"error":"topic t not found"}"#)
}

#[test]
fn all_brokers_of_a_controller_record_together() {
    let brokers = [
        broker(
            200,
            &recording(100, 1_100, r#"["s1","s2"]"#, "[[150,0,1],[300,1,2]]"),
        ),
        not_there(),
        broker(
            200,
            &recording(200, 1_200, r#"["s1"]"#, "[[250,0,3],[1150,0,9]]"),
        ),
    ];
    let controller = controller(&brokers, Some(r#"{"limit":{"rate":20,"burst":5}}"#));
    let (trace, limit) = record_at("--controller", &controller).expect("recorded");
    assert_eq!(limit, Limit::messages(20.0, 5.0).ok());
    assert_eq!(trace.header.begin, Some(WallTime::from_nanos(200)));
    assert_eq!(trace.header.length, Some(Duration::from_nanos(900)));
    let names = trace
        .header
        .publishers
        .iter()
        .map(|each| each.name.as_deref());
    assert_eq!(names.collect::<Vec<_>>(), [Some("s1"), Some("s2")]);
    let rows = trace.arrivals.iter();
    let rows: Vec<_> = rows
        .map(|each| (each.at_ns, each.publisher, each.messages))
        .collect();
    assert_eq!(rows, [(50, 0, 3), (100, 1, 2)]);
}

#[test]
fn a_broker_that_is_named_records_alone() {
    let body = recording(100, 1_100, r#"["s1"]"#, "[[150,0,1]]");
    let contract = r#"{"limit":{"rate":20,"burst":5},"share":{"rate":8,"burst":2}}"#;
    let broker = peer(&[
        ("/v1/topics/t", 200, contract.to_owned()),
        (ARRIVALS, 200, body),
    ]);
    let (trace, limit) = record_at("--broker", &broker).expect("recorded");
    assert_eq!(limit, Limit::messages(8.0, 2.0).ok());
    assert_eq!(trace.arrivals.len(), 1);
}

#[test]
fn what_is_not_whole_is_no_recording() {
    let whole = || broker(200, &recording(100, 1_100, r#"["s1"]"#, "[[150,0,1]]"));
    let gone = || peer(&[]);
    let refusing = || broker(409, r#"{"error":"t is being recorded already"}"#);
    let rows = [
        (vec![whole(), gone()], "broker b1 (up): "),
        (
            vec![refusing(), whole()],
            "broker b0 (up): 409 t is being recorded already",
        ),
        (
            vec![not_there(), not_there()],
            "none of 2 brokers carries t",
        ),
        (vec![], "no broker is alive"),
        (
            vec![whole(), broker(200, &recording(2_000, 3_000, "[]", "[]"))],
            "do not overlap",
        ),
    ];
    for (brokers, text) in rows {
        let failure = record_at("--controller", &controller(&brokers, None));
        let failure = failure.expect_err(text).to_string();
        assert!(failure.contains(text), "{failure}");
    }
}
