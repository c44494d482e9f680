//! Whole calibrations, at a broker whose waits are a function of the share.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};

use kernel::theory::Why;

use super::*;

/// A broker with two topics, of which one is calibrated. Each question for its tasks finds a thousand more events served.
#[derive(Clone, Debug)]
struct Broker {
    /// Contract of the topic.
    contract: Value,
    /// Events wait `wait_us / share`, below `unstable_below` for ever.
    wait_us: f64,
    unstable_below: f64,
    events: u64,
    served: u64,
    sojourn_us: f64,
    other_share: f64,
    /// Shares that were put, in order; `null` too.
    put: Vec<Value>,
    is_refusing: bool,
}

impl Broker {
    fn new(wait_us: f64, cpu_share: Value) -> Broker {
        Broker {
            contract: json!({"limit": {"rate": 1000, "burst": 50}, "cpu_share": cpu_share}),
            wait_us,
            unstable_below: 0.0,
            events: 1_000,
            served: 0,
            sojourn_us: 0.0,
            other_share: 0.3,
            put: Vec::new(),
            is_refusing: false,
        }
    }

    fn share(&self) -> f64 {
        self.contract["cpu_share"].as_f64().unwrap_or(0.1)
    }

    fn answer(&mut self, method: &str, path: &str, body: &str) -> (u16, Value) {
        match (method, path) {
            ("GET", "/v1/tasks") => (200, self.tasks()),
            ("GET", "/v1/topics/t") => (200, self.contract.clone()),
            ("PUT", "/v1/topics/t") if self.is_refusing => (409, json!({"error": "not now"})),
            ("PUT", "/v1/topics/t") => {
                self.contract = serde_json::from_str(body).expect("JSON");
                self.put.push(self.contract["cpu_share"].clone());
                (200, self.contract.clone())
            }
            _ => (404, json!({"error": format!("no {method} {path}")})),
        }
    }

    fn tasks(&mut self) -> Value {
        self.served += self.events;
        self.sojourn_us += self.events as f64 * (self.wait_us / self.share() + 50.0);
        json!({"period_us": 10_000, "tasks": [
            {"topic": null, "reactor": 0, "home": false, "cpu_share": null, "allotment_us": 3_000, "queued_events": 0,
                "served_events": 1, "used_us": 5, "sojourn_us": 9, "wait_max_us": 4, "overruns": 0, "unstable": false},
            {"topic": "t", "reactor": 1, "home": false, "cpu_share": self.contract["cpu_share"], "allotment_us": 9_000, "queued_events": 0,
                "served_events": 1, "used_us": 5, "sojourn_us": 9, "wait_max_us": 4, "overruns": 0, "unstable": false},
            {"topic": "other", "reactor": 0, "home": true, "cpu_share": self.other_share, "allotment_us": 3_000, "queued_events": 0,
                "served_events": 1, "used_us": 5, "sojourn_us": 9, "wait_max_us": 4, "overruns": 0, "unstable": false},
            {"topic": "t", "reactor": 0, "home": true, "cpu_share": self.contract["cpu_share"], "allotment_us": self.share() * 10_000.0,
                "queued_events": 0, "served_events": self.served, "used_us": self.served * 50,
                "sojourn_us": self.sojourn_us, "wait_max_us": 4, "overruns": 0,
                "unstable": self.share() < self.unstable_below},
        ]})
    }
}

/// Serves `broker` at a port of its own for as long as the test runs.
fn serve(broker: Broker) -> (String, Arc<Mutex<Broker>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("an address").to_string();
    let shared = Arc::new(Mutex::new(broker));
    let served = Arc::clone(&shared);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("accepted");
            let mut input = BufReader::new(&stream);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                input.read_line(&mut head).expect("a head");
            }
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                let is_length = name.eq_ignore_ascii_case("content-length");
                is_length.then(|| value.trim().parse::<u64>().expect("a length"))
            });
            let mut body = String::new();
            let mut input = input.take(length.unwrap_or(0));
            input.read_to_string(&mut body).expect("a body");
            let mut words = head.split(' ');
            let (method, path) = (
                words.next().expect("a method"),
                words.next().expect("a path"),
            );
            let mut broker = served.lock().unwrap_or_else(PoisonError::into_inner);
            let (status, answer) = broker.answer(method, path, &body);
            let answer = answer.to_string();
            let head = format!(
                "HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                answer.len()
            );
            stream.write_all((head + &answer).as_bytes()).expect("sent");
        }
    });
    (address, shared)
}

/// A search at `broker` that is interrupted at the `pauses`-th pause, what it said, and the broker afterwards.
fn calibrate(
    broker: Broker,
    wanted: Duration,
    pauses: usize,
) -> (Result<Result<Found, Infeasible>, Failure>, String, Broker) {
    let (address, shared) = serve(broker);
    let topic: TopicName = "t".parse().expect("a name");
    let question = Question {
        token: &TokenFlags::default(),
        broker: &address,
        topic: &topic,
        wanted,
        window: Duration::from_secs(10),
        max_share: None,
    };
    let mut left = pauses;
    let pause = |time| {
        left = left.checked_sub(1)?;
        Some(time)
    };
    let mut said = Vec::new();
    let outcome = search(&question, pause, &mut said);
    let broker = shared
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    (outcome, String::from_utf8(said).expect("text"), broker)
}

#[test]
fn the_share_that_holds_is_in_force_and_nothing_else_has_changed() {
    // 100 us / share: 500 us need a fifth.
    let (outcome, said, broker) = calibrate(
        Broker::new(100.0, json!(0.05)),
        Duration::from_micros(500),
        99,
    );
    let found = outcome.expect("no failure").expect("a share");
    let share = found.share.as_f64();
    assert!((0.2..=0.2 * 1.06).contains(&share), "{share}");
    assert!(found.wait <= Duration::from_micros(500));
    assert_eq!(broker.contract["cpu_share"], json!(share), "it is in force");
    assert_eq!(broker.contract["limit"], json!({"rate": 1000, "burst": 50}));
    assert!(
        said.contains("t: share 0.05 now, others leave 0.7"),
        "{said}"
    );
    assert!(
        said.contains("share 0.05: 1000 events, 100/s, mean wait 2000 us, 0.20 waiting"),
        "{said}"
    );
    assert_eq!(said.lines().count() as u32, 1 + found.measurements);
}

#[test]
fn a_topic_that_waits_little_enough_is_left_alone() {
    for share in [json!(0.5), Value::Null] {
        let (outcome, _, broker) = calibrate(
            Broker::new(10.0, share.clone()),
            Duration::from_millis(1),
            99,
        );
        assert_eq!(
            outcome.expect("no failure").expect("it holds").measurements,
            1
        );
        assert_eq!(broker.put, [] as [Value; 0]);
    }
}

#[test]
fn what_is_infeasible_is_undone() {
    for former in [json!(0.05), Value::Null] {
        let broker = Broker {
            unstable_below: 0.5,
            ..Broker::new(100.0, former.clone())
        };
        let (outcome, said, broker) = calibrate(broker, Duration::from_micros(100), 99);
        let infeasible = outcome.expect("no failure").expect_err("0.7 is not enough");
        let most = CpuShare::new(0.7).expect("a share");
        assert_eq!(infeasible.why, Why::NothingLeft(most));
        let (share, wait) = infeasible.best.expect("stable under the last");
        assert_eq!((share, wait.as_micros()), (most, 142));
        assert_eq!(broker.put.last(), Some(&former));
        assert!(broker.put.len() > 1);
        assert!(said.contains("unstable, 0 events queued"), "{said}");
        assert!(
            said.ends_with("the former share is in force again\n"),
            "{said}"
        );
    }
}

#[test]
fn an_interruption_is_undone() {
    // In the first window nothing has been changed yet.
    let of = |pauses| {
        calibrate(
            Broker::new(100.0, json!(0.05)),
            Duration::from_micros(500),
            pauses,
        )
    };
    for pauses in 0..6 {
        let (outcome, _, broker) = of(pauses);
        let error = outcome.expect_err("interrupted").to_string();
        assert_eq!(error, "calibrating t: interrupted");
        assert_eq!(broker.contract["cpu_share"], json!(0.05));
        assert_eq!(broker.put.is_empty(), pauses == 0, "{:?}", broker.put);
    }
}

#[test]
fn failures_say_what_to_do() {
    let wanted = Duration::from_micros(500);
    let silent = Broker {
        events: 0,
        ..Broker::new(100.0, json!(0.05))
    };
    let refusing = Broker {
        is_refusing: true,
        ..Broker::new(100.0, json!(0.05))
    };
    for (broker, words) in [
        (silent, "no message was published"),
        (refusing, "409 not now"),
    ] {
        let (outcome, _, _) = calibrate(broker, wanted, 99);
        let error = outcome.expect_err("a failure").to_string();
        assert!(error.contains(words), "{error}");
    }
    let (address, _) = serve(Broker::new(1.0, Value::Null));
    let topic: TopicName = "nobody".parse().expect("a name");
    let question = Question {
        token: &TokenFlags::default(),
        broker: &address,
        topic: &topic,
        wanted,
        window: wanted,
        max_share: None,
    };
    let error = search(&question, Some, &mut Vec::new()).expect_err("no such topic");
    assert!(error.to_string().contains("no topic nobody"), "{error}");
}

#[test]
fn outcomes_are_json_too() {
    let topic: TopicName = "t".parse().expect("a name");
    let share = CpuShare::new(0.25).expect("a share");
    let wanted = Duration::from_millis(2);
    let found = Ok(Found {
        share,
        wait: Duration::from_millis(1),
        measurements: 3,
    });
    assert_eq!(
        to_json(&topic, wanted, &found),
        json!({"topic": "t", "want_wait_us": 2000.0, "share": 0.25, "wait_us": 1000.0, "why": null, "measurements": 3})
    );
    let infeasible = Err(Infeasible {
        best: None,
        why: Why::NothingLeft(share),
        measurements: 4,
    });
    assert_eq!(
        to_json(&topic, wanted, &infeasible),
        json!({"topic": "t", "want_wait_us": 2000.0, "share": null, "wait_us": null,
            "why": "others leave only 0.25", "measurements": 4})
    );
}
