//! The controller's HTTP, as the checks use it.

use std::time::Duration;

use control::view::{BrokerView, ChannelViews, TopicSpec, TopicView};
use serde_json::Value;
use ureq::Agent;

use crate::error::BenchError;

/// A controller.
#[derive(Clone, Debug)]
pub struct ControllerApi {
    base: String,
    agent: Agent,
}

impl ControllerApi {
    /// The one at `host:port`.
    pub fn new(address: &str) -> ControllerApi {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(10)))
            .build();
        ControllerApi {
            base: format!("http://{address}"),
            agent: config.into(),
        }
    }

    /// Declares a topic.
    ///
    /// # Errors
    /// [`BenchError::Http`] with the controller's text.
    pub fn put_topic(&self, topic: &str, spec: &TopicSpec) -> Result<TopicView, BenchError> {
        let path = format!("/v1/topics/{topic}");
        let body = serde_json::to_string(spec).map_err(|error| failed("PUT", &path, error))?;
        let answer = self.agent.put(format!("{}{path}", self.base)).send(body);
        self.read("PUT", &path, answer)
    }

    /// A topic.
    ///
    /// # Errors
    /// As [`ControllerApi::put_topic`].
    pub fn topic(&self, topic: &str) -> Result<TopicView, BenchError> {
        self.get(&format!("/v1/topics/{topic}"))
    }

    /// A topic's channels, over all brokers.
    ///
    /// # Errors
    /// As [`ControllerApi::put_topic`].
    pub fn channels(&self, topic: &str) -> Result<ChannelViews, BenchError> {
        self.get(&format!("/v1/topics/{topic}/channels"))
    }

    /// All brokers.
    ///
    /// # Errors
    /// As [`ControllerApi::put_topic`].
    pub fn brokers(&self) -> Result<Vec<BrokerView>, BenchError> {
        let mut list: Value = self.get("/v1/brokers")?;
        serde_json::from_value(list["brokers"].take())
            .map_err(|error| failed("GET", "/v1/brokers", error))
    }

    /// `POST` without a body, such as `/v1/brokers/b1/drain`.
    ///
    /// # Errors
    /// As [`ControllerApi::put_topic`].
    pub fn post(&self, path: &str) -> Result<Value, BenchError> {
        self.read(
            "POST",
            path,
            self.agent.post(format!("{}{path}", self.base)).send_empty(),
        )
    }

    fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, BenchError> {
        self.read(
            "GET",
            path,
            self.agent.get(format!("{}{path}", self.base)).call(),
        )
    }

    fn read<T: serde::de::DeserializeOwned>(
        &self,
        method: &'static str,
        path: &str,
        answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<T, BenchError> {
        let mut answer = answer.map_err(|error| failed(method, path, error))?;
        let text = answer
            .body_mut()
            .read_to_string()
            .map_err(|error| failed(method, path, error))?;
        if !answer.status().is_success() {
            return Err(failed(method, path, text));
        }
        serde_json::from_str(&text).map_err(|error| failed(method, path, error))
    }
}

fn failed(method: &'static str, path: &str, why: impl std::fmt::Display) -> BenchError {
    BenchError::Http {
        method,
        path: path.to_owned(),
        text: why.to_string(),
    }
}
