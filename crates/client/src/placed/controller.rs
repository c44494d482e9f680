//! The controller's HTTP, as far as publishers need it.
//!
//! One blocking call per question. It never fails; its result says what the answer means for the
//! publisher. Answers are bounded in time and size.

use std::time::Duration;

use api::{Answer as HttpAnswer, ApiError, Bounds, Client, Method, Target, Token, Why};
use credentials::Trust;
use serde_json::{Value, json};

use super::follower::{Answer, Enquiry};
use super::options::PlacedOptions;

/// Longest wait for an answer; with many publishers registering at once a controller needs a while.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A controller that does not even accept connections is left alone sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_ANSWER_BYTES: u64 = 1 << 20;

/// Asks a controller where to publish, or the one of several that leads. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct Controller {
    client: Client,
}

impl Controller {
    /// The one of [`PlacedOptions::controller`], without a connection yet; by HTTPS where there is `trust`.
    #[must_use]
    pub fn new(controller: &str, trust: Option<&Trust>) -> Self {
        let bounds = Bounds {
            timeout: TIMEOUT,
            connect_timeout: Some(CONNECT_TIMEOUT),
            answer_max_bytes: MAX_ANSWER_BYTES,
        };
        Self {
            client: Client::trusting(controller, bounds, trust),
        }
    }

    /// The same, showing this token, if there is one.
    #[must_use]
    pub fn with_token(self, token: Option<Token>) -> Self {
        Self {
            client: self.client.with_token(token),
        }
    }

    /// Puts one question of a [`super::Follower`] with these options. Blocks for at most 10 s per controller.
    pub fn ask(&self, options: &PlacedOptions, enquiry: &Enquiry) -> Answer {
        let client = &self.client;
        let publishers = of_topic(options).then("/publishers");
        if enquiry.register {
            let body = declaration(options).to_string();
            let answer = client.ask(Method::Post, &publishers, Some(body));
            return read(answer, |body| place(&body["publishers"][0]));
        }
        let mut one = publishers.segment(&options.id);
        if let Some(broker) = &enquiry.avoid {
            one = one.query("avoid", broker);
        }
        match read(client.ask(Method::Get, &one, None), place) {
            Answer::Unknown if !options.register => first_broker(client, options),
            answer => answer,
        }
    }
}

/// Where a publisher that nobody declared goes: to the topic's first broker, which tells the
/// controller of it.
fn first_broker(client: &Client, options: &PlacedOptions) -> Answer {
    let placement = of_topic(options).then("/placement");
    read(client.ask(Method::Get, &placement, None), |body| {
        address(&body["brokers"][0])
    })
}

fn of_topic(options: &PlacedOptions) -> Target {
    Target::new("/v1/topics").segment(&options.topic)
}

/// Body of `POST /v1/topics/{t}/publishers`.
fn declaration(options: &PlacedOptions) -> Value {
    let mut publisher = json!({
        "id": options.id,
        "rate": options.rate,
        "batch": options.batch,
    });
    if let Some(group) = &options.group {
        publisher["group"] = json!(group);
    }
    json!({"publishers": [publisher]})
}

fn read(answer: Result<HttpAnswer, ApiError>, meaning: impl FnOnce(&Value) -> Answer) -> Answer {
    let answer = match answer.map_err(|error| error.why) {
        Ok(answer) => answer,
        Err(Why::Broken(why)) => {
            return Answer::Failed(format!("the controller's answer broke off: {why}"));
        }
        Err(why) => return Answer::Failed(format!("the controller is out of reach: {why}")),
    };
    let status = answer.status;
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let text = || {
        let said = answer.reason();
        let said = said.as_deref().unwrap_or("nothing more");
        format!("the controller answered {status}: {said}")
    };
    match status.as_u16() {
        200..=299 => meaning(&body),
        404 => Answer::Unknown,
        408 | 421 | 429 => Answer::Failed(text()),
        400..=499 => Answer::Refused(text()),
        _ => Answer::Failed(text()),
    }
}

fn place(publisher: &Value) -> Answer {
    if publisher["id"].is_string() {
        address(&publisher["broker"])
    } else {
        Answer::Failed("the controller's answer names no publisher".to_owned())
    }
}

fn address(broker: &Value) -> Answer {
    match broker["tcp_address"].as_str() {
        None => Answer::Unplaced,
        Some(address) if wire::is_valid_address(address) => Answer::At(address.to_owned()),
        Some(other) => Answer::Failed(format!(
            "the controller named {other:?} as the broker, which is not an address"
        )),
    }
}
