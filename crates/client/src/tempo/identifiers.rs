//! The controller's name service: a topic's identifier, the same everywhere.
//!
//! A thread asks for each topic of this endpoint, `PUT /v1/names/{topic}`, until it is told; until
//! then, and where there is no controller, identifiers are hashed from names. Once told, it does
//! not ask again: announcements say how others identify a topic.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use api::{Bounds, Client, Method, Target};
use serde_json::Value;
use wire::TopicName;
use wire::announce::TopicId;

use super::control::Control;
use super::monotonic::now;
use crate::error::ClientError;

/// A controller that does not answer is asked again after this time.
const RETRY: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(2);
const MAX_ANSWER_BYTES: u64 = 64 * 1024;

/// Topics that wait for an answer; beyond, a topic keeps its hashed identifier.
const WAITING_MAX: usize = 65_536;

/// Asks for identifiers. The thread ends with it, after the call it may be in.
pub(super) struct NameService {
    topics: Sender<TopicName>,
}

impl NameService {
    /// Begins to ask the controller at `url`, on behalf of `control`.
    ///
    /// # Errors
    /// [`ClientError::Io`] where the system gives no thread.
    pub(super) fn start(url: &str, control: &Arc<Control>) -> Result<NameService, ClientError> {
        let (topics, asked) = channel();
        let bounds = Bounds {
            timeout: TIMEOUT,
            connect_timeout: None,
            answer_max_bytes: MAX_ANSWER_BYTES,
        };
        let controller = Client::new(url, bounds);
        let control = Arc::downgrade(control);
        std::thread::Builder::new()
            .name("tempo-names".to_owned())
            .spawn(move || serve(&controller, &asked, &control))
            .map_err(ClientError::io("start a thread"))?;
        Ok(NameService { topics })
    }

    /// Asks for a topic's identifier; returns at once.
    pub(super) fn ask(&self, topic: &TopicName) {
        // The thread ends before its sender in no case but a panic, and then names are hashed.
        let _ended = self.topics.send(topic.clone());
    }
}

fn serve(controller: &Client, asked: &Receiver<TopicName>, control: &Weak<Control>) {
    let mut waiting: Vec<TopicName> = Vec::new();
    loop {
        let next = if waiting.is_empty() {
            asked.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            asked.recv_timeout(RETRY)
        };
        match next {
            Ok(topic) if waiting.len() < WAITING_MAX => waiting.push(topic),
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // The first that is not answered ends the round: the others would not be either.
        while let Some(topic) = waiting.last() {
            let Some(id) = ask(controller, topic) else {
                break;
            };
            let Some(control) = control.upgrade() else {
                return;
            };
            control.state().assign(topic, id, now());
            control.look();
            waiting.pop();
        }
    }
}

/// The controller's answer: `{"topic": …, "id": …}`.
fn ask(controller: &Client, topic: &TopicName) -> Option<TopicId> {
    let name = Target::new("/v1/names").segment(topic.as_str());
    let answer = controller.ask(Method::Put, &name, None).ok()?;
    id_of(answer.accepted().ok()?, topic)
}

fn id_of(answer: &[u8], topic: &TopicName) -> Option<TopicId> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    let is_about_it = answer["topic"].as_str() == Some(topic.as_str());
    let id = u32::try_from(answer["id"].as_u64()?).ok()?;
    is_about_it.then_some(TopicId(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_about_the_topic_names_it() {
        let topic: TopicName = "temperature".parse().expect("valid");
        for (answer, id) in [
            (r#"{"topic":"temperature","id":7}"#, Some(7)),
            (r#"{"id":7,"topic":"temperature","more":1}"#, Some(7)),
            (r#"{"topic":"pressure","id":7}"#, None),
            (r#"{"topic":"temperature","id":4294967296}"#, None),
            (r#"{"topic":"temperature","id":-1}"#, None),
            (r#"{"topic":"temperature"}"#, None),
            ("7", None),
            ("", None),
        ] {
            let found = id_of(answer.as_bytes(), &topic).map(|id| id.0);
            assert_eq!(found, id, "{answer}");
        }
    }
}
