//! `POST /v1/topics/{topic}/arrivals` at all brokers at the same time.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use api::{Bounds, Client, Method, Target};
use indicatif::ProgressBar;
use wire::TopicName;

use super::Recorded;
use super::brokers::Recorder;
use crate::duration::GoDuration;
use crate::error::Failure;
use crate::servers::of_topic;
use crate::token_flags::TokenFlags;
use crate::trust_flags::trust;

/// Longest answer: a whole trace, with room.
const ANSWER_MAX_BYTES: u64 = 256 << 20;

/// Time for the answer behind the window.
const GRACE: Duration = Duration::from_secs(30);

/// Steps of the bar.
const STEP: Duration = Duration::from_millis(250);

/// What a broker says; `None`: it does not carry the topic.
type Answer = Result<Option<Recorded>, String>;

/// The recordings of all `brokers`, in their order. One that fails is everybody's failure, at once: what the
/// others have would look whole. Each is asked on a thread of its own, at most as many as a controller has
/// brokers.
pub(super) fn of_all(
    brokers: &[Recorder],
    topic: &TopicName,
    window: Duration,
    token: &TokenFlags,
) -> Result<Vec<Option<Recorded>>, Failure> {
    let steps = window.as_millis().div_ceil(STEP.as_millis());
    let bar = ProgressBar::new(u64::try_from(steps).unwrap_or(u64::MAX));
    let answers = wait_for_all(brokers, topic, window, token, &bar);
    bar.finish_and_clear();
    answers
}

fn wait_for_all(
    brokers: &[Recorder],
    topic: &TopicName,
    window: Duration,
    token: &TokenFlags,
    bar: &ProgressBar,
) -> Result<Vec<Option<Recorded>>, Failure> {
    let target = recording(topic, window);
    let bounds = Bounds {
        timeout: window.saturating_add(GRACE),
        connect_timeout: None,
        answer_max_bytes: ANSWER_MAX_BYTES,
    };
    let port = Client::trusting("", bounds, trust().as_ref()).with_token(token.token()?);
    let ports: Vec<Client> = brokers.iter().map(|broker| port.at(&broker.base)).collect();
    let (done, answered) = channel();
    for (number, port) in ports.iter().enumerate() {
        ask(number, port.clone(), target.clone(), done.clone())?;
    }
    // What is left belongs to the threads: when they are gone, so is the channel.
    drop(done);
    let mut answers = vec![None; brokers.len()];
    let mut missing = brokers.len();
    while missing > 0 {
        match answered.recv_timeout(STEP) {
            Ok((number, answer)) => {
                let failed = |reason| Failure::Api {
                    url: ports[number].url(&target),
                    reason: format!("{}: {reason}", brokers[number].name),
                };
                answers[number] = answer.map_err(failed)?;
                missing -= 1;
            }
            Err(RecvTimeoutError::Timeout) => bar.inc(1),
            Err(RecvTimeoutError::Disconnected) => {
                let what = String::from("a thread that asked a broker ended without an answer");
                let source = std::io::ErrorKind::BrokenPipe.into();
                return Err(Failure::Io { what, source });
            }
        }
    }
    Ok(answers)
}

/// `POST` of this records `topic` for so long.
fn recording(topic: &TopicName, window: Duration) -> Target {
    let window = GoDuration(window).to_string();
    of_topic(topic).then("/arrivals").query("window", &window)
}

fn ask(
    number: usize,
    port: Client,
    target: Target,
    done: Sender<(usize, Answer)>,
) -> Result<(), Failure> {
    let asker = thread::Builder::new().name(format!("recording {number}"));
    let asked = asker.spawn(move || {
        // Nobody listens any more where another broker failed.
        let _ = done.send((number, post(&port, &target)));
    });
    asked
        .map(|_| ())
        .map_err(Failure::io("starting a thread for each broker"))
}

fn post(port: &Client, target: &Target) -> Answer {
    let answer = port.ask(Method::Post, target, None);
    let answer = answer.map_err(|error| error.why.to_string())?;
    read(answer.status.as_u16(), &answer.body)
}

/// The meaning of an answer. A topic that is not there is 404 with `error`; a port without this request, such as
/// nsqd's, says 404 with `message`.
fn read(status: u16, body: &[u8]) -> Answer {
    if (200..300).contains(&status) {
        let recorded = serde_json::from_slice(body);
        return recorded
            .map(Some)
            .map_err(|error| format!("the answer is not a recording: {error}"));
    }
    let json: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let error = json["error"].as_str();
    if status == 404 && error.is_some() {
        return Ok(None);
    }
    let reason = error.or(json["message"].as_str());
    Err(format!("{status} {}", reason.unwrap_or("without a reason")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_recording_nothing_or_a_failure() {
        let recording =
            r#"{"topic":"t","begin_ns":1,"end_ns":2,"publishers":[],"arrivals":[],"is_cut":false}"#;
        for (status, body, expected) in [
            (200, recording, Ok(true)),
            (404, r#"{"error":"topic t not found"}"#, Ok(false)),
            (404, r#"{"message":"NOT_FOUND"}"#, Err("404 NOT_FOUND")),
            (
                409,
                r#"{"error":"being recorded"}"#,
                Err("409 being recorded"),
            ),
            (410, r#"{"error":"deleted"}"#, Err("410 deleted")),
            (500, "oops", Err("500 without a reason")),
            (200, &recording[..40], Err("the answer is not a recording")),
        ] {
            match (read(status, body.as_bytes()), expected) {
                (Ok(recorded), Ok(is_there)) => assert_eq!(recorded.is_some(), is_there, "{body}"),
                (Err(reason), Err(text)) => assert!(reason.contains(text), "{reason}"),
                (answer, _) => panic!("{status} {body}: {answer:?}"),
            }
        }
    }

    #[test]
    fn the_target_holds_the_window_and_the_escaped_name() {
        let topic = "t#ephemeral".parse().expect("valid");
        let target = recording(&topic, Duration::from_secs(90));
        assert_eq!(
            target.as_str(),
            "/v1/topics/t%23ephemeral/arrivals?window=1m30s"
        );
    }
}
