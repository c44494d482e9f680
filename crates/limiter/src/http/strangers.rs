//! The port over sockets: requests refused before the packets' thread hears of them, and a thread
//! that counts the questions it gets.

use std::io::{Read, Write};
use std::net::TcpStream;

use axum::body::Body;
use axum::http::Request;
use tower::ServiceExt;

use super::*;

#[path = "../../../http/fixtures/every_route.rs"]
mod every_route;

/// What a port answers to these requests, each on a connection of its own; nobody answers questions.
fn answers(requests: &[String]) -> Vec<String> {
    let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let address = listener.local_addr().expect("bound");
    let (asked, questions) = sync_channel(0);
    drop(questions);
    let state = Arc::new(HttpState {
        questions: asked,
        sites: Vec::new(),
        classes: vec!["web".to_owned()],
        counts: Counts::default(),
        room: room(),
    });
    let (close, closed) = oneshot::channel();
    let hosts = ["lim.example".to_owned()];
    let settings = Settings::new(hosts, TEXT_FIELD, CLOSE_TIMEOUT, Counts::default());
    let thread = std::thread::spawn(move || serve(listener, state, settings, None, closed));
    let answers = requests.iter().map(|request| {
        let mut stream = TcpStream::connect(address).expect("listening");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream
            .read_to_string(&mut answer)
            .expect("an answer, then the end");
        answer
    });
    let answers = answers.collect();
    drop(close);
    thread.join().expect("no panic");
    answers
}

fn put(headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "PUT /v1/limits/web HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
}

#[test]
fn strangers_change_nothing_and_bodies_are_short() {
    let change = r#"{"rate": "20 Mbps"}"#;
    let cases = [
        (
            put("Host: a\r\nOrigin: http://evil.example\r\n", change),
            "403",
            "from a program",
        ),
        (
            put("Host: evil.example\r\n", change),
            "403",
            "--http-host evil.example",
        ),
        (
            put("Host: 127.0.0.1\r\n", &"x".repeat(BODY_MAX_BYTES + 1)),
            "413",
            "longer than 65536 bytes",
        ),
        (
            put("Host: 127.0.0.1\r\n", "{}"),
            "400",
            "missing field `rate`",
        ),
        // These would change something if there were a limiter.
        (put("Host: 127.0.0.1\r\n", change), "503", "stopping"),
        (put("Host: lim.example\r\n", change), "503", "stopping"),
        (
            "GET /ping HTTP/1.0\r\nOrigin: null\r\n\r\n".to_owned(),
            "200",
            "OK",
        ),
    ];
    let answers = answers(&cases.clone().map(|(request, ..)| request));
    for ((request, status, text), answer) in cases.iter().zip(answers) {
        let head = &request[..request.len().min(100)];
        assert_eq!(answer.split(' ').nth(1), Some(*status), "{head}: {answer}");
        assert!(answer.contains(text), "{head}: {answer}");
        assert!(
            answer.contains("x-content-type-options: nosniff"),
            "{head}: {answer}"
        );
    }
}

#[tokio::test]
async fn a_crowd_costs_the_packets_few_snapshots() {
    let (questions, asked) = sync_channel(QUESTIONS_MAX);
    let state = Arc::new(HttpState {
        questions,
        sites: Vec::new(),
        classes: Vec::new(),
        counts: Counts::default(),
        room: room(),
    });
    let router = routes(None).into_router().with_state(state);
    let packets = std::thread::spawn(move || {
        let snapshots = asked.iter().map(|question| match question {
            Question::Snapshot(answer) => drop(answer.send(Snapshot::default())),
            Question::SetLimit { .. } => unreachable!("nobody sets a limit"),
        });
        snapshots.count()
    });
    let paths = ["/metrics", "/v1/sites", "/v1/limits"];
    let crowd: Vec<_> = (0..6 * QUESTIONS_MAX)
        .map(|number| {
            let request = Request::get(paths[number % paths.len()]).body(Body::empty());
            let answer = router.clone().oneshot(request.expect("a request"));
            tokio::spawn(async move { answer.await.map(|answer| answer.status()) })
        })
        .collect();
    for asker in crowd {
        let status = asker.await.expect("answered").expect("infallible");
        assert_eq!(status, StatusCode::OK);
    }
    drop(router);
    let snapshots = packets.join().expect("counted");
    assert!((3..=6).contains(&snapshots), "{snapshots} snapshots");
}

#[tokio::test]
async fn every_route_asks_for_what_it_takes() {
    let (questions, asked) = sync_channel(QUESTIONS_MAX);
    let state = Arc::new(HttpState {
        questions,
        sites: Vec::new(),
        classes: Vec::new(),
        counts: Counts::default(),
        room: room(),
    });
    let packets = std::thread::spawn(move || {
        for question in asked {
            if let Question::Snapshot(answer) = question {
                let _ = answer.send(Snapshot::default());
            }
        }
    });
    let list = routes(None).list().to_vec();
    assert_eq!(list.len(), 5);
    let access = Some(every_route::access());
    let router = routes(access).into_router().with_state(state);
    every_route::check(&router, &list).await;
    drop(router);
    packets.join().expect("no panic");
}
