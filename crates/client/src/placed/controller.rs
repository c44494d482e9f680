//! The controller's HTTP, as far as publishers need it.
//!
//! One blocking call per question; it never fails but says what the answer means for the publisher. Answers are
//! bounded in time and size.

use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;

use super::follower::{Answer, Enquiry};
use super::options::PlacedOptions;

/// Longest wait for an answer; with many publishers registering at once a controller needs a while.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A controller that does not even accept connections is left alone sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_ANSWER_BYTES: u64 = 1 << 20;

/// Asks a controller where to publish. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct Controller {
    agent: Agent,
}

impl Controller {
    /// Without a connection yet.
    #[must_use]
    pub fn new() -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(TIMEOUT))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .build();
        Self {
            agent: config.into(),
        }
    }

    /// Puts one question of a [`super::Follower`] with these options. Blocks for at most 10 s.
    pub fn ask(&self, options: &PlacedOptions, enquiry: &Enquiry) -> Answer {
        let publishers = format!(
            "{}/v1/topics/{}/publishers",
            base(&options.controller),
            segment(&options.topic)
        );
        if enquiry.register {
            let request = self.agent.post(&publishers);
            let request = request.content_type("application/json");
            let answer = request.send(declaration(options).to_string());
            return read(answer, |body| place(&body["publishers"][0]));
        }
        let one = format!("{publishers}/{}", segment(&options.id));
        let mut request = self.agent.get(&one);
        if let Some(broker) = &enquiry.avoid {
            request = request.query("avoid", broker);
        }
        match read(request.call(), place) {
            Answer::Unknown if !options.register => self.first_broker(options),
            answer => answer,
        }
    }

    /// Where a publisher goes that nobody declared: to the topic's first broker, which tells the controller of it.
    fn first_broker(&self, options: &PlacedOptions) -> Answer {
        let url = format!(
            "{}/v1/topics/{}/placement",
            base(&options.controller),
            segment(&options.topic)
        );
        read(self.agent.get(&url).call(), |body| {
            address(&body["brokers"][0])
        })
    }
}

impl Default for Controller {
    fn default() -> Self {
        Self::new()
    }
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

fn read(
    answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    meaning: impl FnOnce(&Value) -> Answer,
) -> Answer {
    let mut answer = match answer {
        Ok(answer) => answer,
        Err(error) => return Answer::Failed(format!("the controller is out of reach: {error}")),
    };
    let status = answer.status();
    let body = answer.body_mut().with_config().limit(MAX_ANSWER_BYTES);
    let body = match body.read_to_vec() {
        Ok(body) => body,
        Err(error) => return Answer::Failed(format!("the controller's answer broke off: {error}")),
    };
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = || {
        let said = body["message"].as_str().or(body["error"].as_str());
        format!(
            "the controller answered {status}: {}",
            said.unwrap_or("nothing more")
        )
    };
    match status.as_u16() {
        200..=299 => meaning(&body),
        404 => Answer::Unknown,
        408 | 429 => Answer::Failed(text()),
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
            "the controller names {other:?}, which is no address"
        )),
    }
}

pub(crate) fn base(controller: &str) -> String {
    let controller = controller.trim_end_matches('/');
    if controller.contains("://") {
        controller.to_owned()
    } else {
        format!("http://{controller}")
    }
}

/// A path segment: everything but letters, digits and `-._~` percent-encoded.
pub(crate) fn segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_become_path_segments() {
        assert_eq!(segment("s1-a.b_c~"), "s1-a.b_c~");
        assert_eq!(segment("a/b?c%d#e"), "a%2Fb%3Fc%25d%23e");
        assert_eq!(base("host:1"), "http://host:1");
        assert_eq!(base("https://host/"), "https://host");
    }
}
