//! The HTTP port of a broker or a controller, as the commands use it.

use std::time::Duration;

use serde_json::Value;
use ureq::Agent;
use wire::TopicName;

use crate::error::Failure;

/// Where a controller's HTTP port is unless a flag says otherwise.
pub(crate) const CONTROLLER: &str = "http://127.0.0.1:4180";

/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// An HTTP port of a broker or a controller.
#[derive(Debug)]
pub(crate) struct Api {
    base: String,
    agent: Agent,
}

impl Api {
    /// The port at `base`, such as `http://127.0.0.1:4151`; the scheme may be left out.
    pub(crate) fn new(base: &str) -> Api {
        let base = base.trim_end_matches('/');
        let base = if base.contains("://") {
            base.to_owned()
        } else {
            format!("http://{base}")
        };
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(TIMEOUT));
        Api {
            base,
            agent: config.build().into(),
        }
    }

    /// GET; the answer as JSON.
    pub(crate) fn get(&self, path: &str) -> Result<Value, Failure> {
        let url = self.url(path);
        let answer = self.agent.get(&url).call();
        read(url, answer)
    }

    /// PUT of a JSON body; the answer as JSON.
    pub(crate) fn put(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let url = self.url(path);
        let answer = self.agent.put(&url).send(body.to_string());
        read(url, answer)
    }

    /// DELETE; the answer as JSON.
    pub(crate) fn delete(&self, path: &str) -> Result<Value, Failure> {
        let url = self.url(path);
        let answer = self.agent.delete(&url).call();
        read(url, answer)
    }

    /// POST without a body; the answer as JSON, `null` if it is empty.
    pub(crate) fn post(&self, path: &str) -> Result<Value, Failure> {
        let url = self.url(path);
        let answer = self.agent.post(&url).send_empty();
        read(url, answer)
    }

    /// POST of a JSON body; the answer as JSON.
    pub(crate) fn post_json(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let url = self.url(path);
        let answer = self.agent.post(&url).send(body.to_string());
        read(url, answer)
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }
}

/// A name inside a URL: of what names may hold, only `#` means something there.
pub(crate) fn escaped(name: &TopicName) -> String {
    name.as_str().replace('#', "%23")
}

fn read(
    url: String,
    answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> Result<Value, Failure> {
    let fail = |reason: String| Failure::Api {
        url: url.clone(),
        reason,
    };
    let mut answer = answer.map_err(|error| {
        fail(format!(
            "{error} (is an HTTP port of SRTM there? see --controller and --broker)"
        ))
    })?;
    let body = answer
        .body_mut()
        .read_to_string()
        .map_err(|error| fail(error.to_string()))?;
    let json = if body.is_empty() {
        Ok(Value::Null)
    } else {
        serde_json::from_str::<Value>(&body)
    };
    if !answer.status().is_success() {
        // SRTM's answers say `error`, nsqd's `message`.
        let json = json.unwrap_or_default();
        let reason = json["error"]
            .as_str()
            .or(json["message"].as_str())
            .unwrap_or(&body);
        return Err(fail(format!("{} {reason}", answer.status().as_u16())));
    }
    json.map_err(|error| fail(format!("the answer is not JSON: {error}")))
}
