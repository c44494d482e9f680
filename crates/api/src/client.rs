//! A client: one question, one answer.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::Agent;
use ureq::http::{Response, StatusCode};
use ureq::{Body, Error, RequestBuilder};

use crate::encryption;
use crate::servers::{Scheme, Servers};
use crate::{ApiError, Target, Token, Trust, Why};

/// How long a question may take and how large its answer may be.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// From the question to the end of the answer.
    pub timeout: Duration,
    /// Until the connection stands; none: only `timeout` counts.
    pub connect_timeout: Option<Duration>,
    /// Bytes of an answer.
    pub answer_max_bytes: u64,
}

/// The operation on a [`Target`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// PUT.
    Put,
    /// POST.
    Post,
    /// DELETE.
    Delete,
}

/// The HTTP port of a broker, a controller or another server, or of several servers that stand for each other: they are tried in
/// turn, and the one that leads is asked where another says which. Cheap to clone; clones share connections and who answered last.
#[derive(Clone, Debug)]
pub struct Client {
    servers: Servers,
    agent: Agent,
    answer_max_bytes: u64,
    token: Option<Token>,
    /// Of a base that has none.
    scheme: Scheme,
}

/// A server's answer, whether it did what was asked or not.
#[derive(Clone, Debug)]
pub struct Answer {
    method: Method,
    url: String,
    /// HTTP status.
    pub status: StatusCode,
    /// The body.
    pub body: Vec<u8>,
}

impl Default for Bounds {
    /// 10 s and 10 MiB.
    fn default() -> Self {
        Bounds {
            timeout: Duration::from_secs(10),
            connect_timeout: None,
            answer_max_bytes: 10 << 20,
        }
    }
}

impl Method {
    /// As it stands in a request.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Put => "PUT",
            Method::Post => "POST",
            Method::Delete => "DELETE",
        }
    }
}

impl Client {
    /// The server at `base`, such as `http://127.0.0.1:4151`; the scheme may be left out. Several have commas between them. No
    /// connection is made yet.
    #[must_use]
    pub fn new(base: &str, bounds: Bounds) -> Client {
        Client::trusting(base, bounds, None)
    }

    /// The same for servers that speak HTTPS: it believes whom `trust` says. With it, a scheme that is left out is `https`.
    #[must_use]
    pub fn trusting(base: &str, bounds: Bounds, trust: Option<&Trust>) -> Client {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(bounds.timeout))
            .timeout_connect(bounds.connect_timeout)
            .tls_config(encryption::settings(trust));
        let scheme = match trust {
            Some(_) => Scheme::Https,
            None => Scheme::Http,
        };
        Client {
            servers: Servers::new(base, scheme),
            agent: config.build().into(),
            answer_max_bytes: bounds.answer_max_bytes,
            token: None,
            scheme,
        }
    }

    /// The same, showing this token, if there is one.
    #[must_use]
    pub fn with_token(self, token: Option<Token>) -> Client {
        Client { token, ..self }
    }

    /// The server at another `base`, with the same bounds and connections.
    #[must_use]
    pub fn at(&self, base: &str) -> Client {
        Client {
            servers: Servers::new(base, self.scheme),
            ..self.clone()
        }
    }

    /// The whole URL of `target`, at the server that is asked first.
    #[must_use]
    pub fn url(&self, target: &Target) -> String {
        format!("{}{target}", self.servers.first())
    }

    /// GET; the value that answers.
    ///
    /// # Errors
    /// Any [`ApiError`]. An empty answer counts as `null`.
    pub fn get<T: DeserializeOwned>(&self, target: &Target) -> Result<T, ApiError> {
        self.ask(Method::Get, target, None)?.value()
    }

    /// PUT of a value; the value that answers.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn put<T: DeserializeOwned>(
        &self,
        target: &Target,
        value: &impl Serialize,
    ) -> Result<T, ApiError> {
        self.ask(Method::Put, target, Some(json(value)))?.value()
    }

    /// POST of a value; the value that answers.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn post<T: DeserializeOwned>(
        &self,
        target: &Target,
        value: &impl Serialize,
    ) -> Result<T, ApiError> {
        self.ask(Method::Post, target, Some(json(value)))?.value()
    }

    /// POST without a body; the value that answers.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn order<T: DeserializeOwned>(&self, target: &Target) -> Result<T, ApiError> {
        self.ask(Method::Post, target, None)?.value()
    }

    /// DELETE; nobody asks what answers.
    ///
    /// # Errors
    /// [`Why::Unreachable`], [`Why::Broken`] and [`Why::Refused`].
    pub fn delete(&self, target: &Target) -> Result<(), ApiError> {
        self.ask(Method::Delete, target, None)?.accepted().map(drop)
    }

    /// Any question; `body` is JSON, and only PUT and POST have one. The answer may be a refusal. Of several servers the next is asked
    /// where one is out of reach or does not lead, each within the bounds; of one that did not answer in time it is not known whether it
    /// did what was asked.
    ///
    /// # Errors
    /// [`Why::Unreachable`] and [`Why::Broken`].
    pub fn ask(
        &self,
        method: Method,
        target: &Target,
        body: Option<String>,
    ) -> Result<Answer, ApiError> {
        let mut turn = self.servers.turn();
        let mut base = turn.next().unwrap_or_default();
        loop {
            let answer = self.ask_at(method, format!("{base}{target}"), body.clone());
            match &answer {
                Ok(answer) if answer.status == StatusCode::MISDIRECTED_REQUEST => {
                    if let Some(leader) = answer.leader() {
                        turn.led_to(&leader);
                    }
                }
                Err(error) if matches!(error.why, Why::Unreachable(_)) => {}
                _ => {
                    self.servers.answered(&base);
                    return answer;
                }
            }
            match turn.next() {
                Some(next) => base = next,
                None => return answer,
            }
        }
    }

    fn ask_at(
        &self,
        method: Method,
        url: String,
        body: Option<String>,
    ) -> Result<Answer, ApiError> {
        let failed = |why| ApiError {
            method,
            url: url.clone(),
            why,
        };
        let answer = self.send(method, &url, body);
        let mut answer = answer.map_err(|error| failed(Why::Unreachable(self.explain(&error))))?;
        let limited = answer.body_mut().with_config().limit(self.answer_max_bytes);
        let body = limited.read_to_vec();
        let body = body.map_err(|error| failed(Why::Broken(error.to_string())))?;
        Ok(Answer {
            method,
            status: answer.status(),
            body,
            url,
        })
    }

    fn explain(&self, error: &Error) -> String {
        let is_disbelieved = match error {
            Error::Rustls(_) => true,
            Error::Io(error) => error.kind() == std::io::ErrorKind::InvalidData,
            _ => false,
        };
        match self.scheme {
            Scheme::Http if is_disbelieved => format!(
                "{error}; no authority is named that the server's certificate is judged by: give --ca"
            ),
            _ => error.to_string(),
        }
    }

    fn send(
        &self,
        method: Method,
        url: &str,
        body: Option<String>,
    ) -> Result<Response<Body>, Error> {
        let request = match method {
            Method::Get => return self.showing(self.agent.get(url)).call(),
            Method::Delete => return self.showing(self.agent.delete(url)).call(),
            Method::Put => self.showing(self.agent.put(url)),
            Method::Post => self.showing(self.agent.post(url)),
        };
        match body {
            None => request.send_empty(),
            Some(body) => request.content_type("application/json").send(body),
        }
    }
}

impl Client {
    fn showing<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.token {
            None => request,
            Some(token) => request.header("Authorization", format!("Bearer {}", token.secret())),
        }
    }
}

impl Answer {
    /// The value that it is.
    ///
    /// # Errors
    /// [`Why::Refused`], [`Why::NotJson`] and [`Why::Unexpected`]. An empty answer counts as `null`.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        let body = self.accepted()?;
        let value: Value = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(body)
                .map_err(|error| self.failed(Why::NotJson(error.to_string())))?
        };
        serde_json::from_value(value)
            .map_err(|error| self.failed(Why::Unexpected(error.to_string())))
    }

    /// The body, unless it says why something was refused.
    ///
    /// # Errors
    /// [`Why::Refused`].
    pub fn accepted(&self) -> Result<&[u8], ApiError> {
        if self.status.is_success() {
            return Ok(&self.body);
        }
        let whole = || String::from_utf8_lossy(&self.body).into_owned();
        Err(self.failed(Why::Refused {
            status: self.status.as_u16(),
            reason: self.reason().unwrap_or_else(whole),
        }))
    }

    /// Why it refuses, where it says so: `error` of SRTM's answers, `message` of nsqd's.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        let json: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let said = json["error"].as_str().or(json["message"].as_str());
        said.map(str::to_owned)
    }

    /// Which server leads, where this one says that it does not.
    fn leader(&self) -> Option<String> {
        let json: Value = serde_json::from_slice(&self.body).ok()?;
        json["leader"].as_str().map(str::to_owned)
    }

    fn failed(&self, why: Why) -> ApiError {
        ApiError {
            method: self.method,
            url: self.url.clone(),
            why,
        }
    }
}

/// A value as JSON.
fn json(value: &impl Serialize) -> String {
    // Only maps with keys that are no strings fail, and there are none.
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer {
            method: Method::Get,
            url: "http://h/p".to_owned(),
            status: StatusCode::from_u16(status).expect("a status"),
            body: body.as_bytes().to_vec(),
        }
    }

    #[test]
    fn an_answer_is_a_value_or_says_why_not() {
        let refused = |status, reason: &str| {
            let reason = reason.to_owned();
            Err(Why::Refused { status, reason })
        };
        for (status, body, expected) in [
            (200, r#"{"a":1}"#, Ok(serde_json::json!({"a": 1}))),
            (200, "", Ok(Value::Null)),
            (404, r#"{"error":"no topic t"}"#, refused(404, "no topic t")),
            (404, r#"{"message":"NOT_FOUND"}"#, refused(404, "NOT_FOUND")),
            (500, "oops", refused(500, "oops")),
            (302, "", refused(302, "")),
        ] {
            let found = answer(status, body).value::<Value>();
            assert_eq!(found.map_err(|error| error.why), expected, "{body}");
        }
        let not_json = answer(200, "<html>").value::<Value>();
        assert!(matches!(
            not_json.map_err(|error| error.why),
            Err(Why::NotJson(_))
        ));
        let unexpected = answer(200, "[1]").value::<String>();
        let unexpected = unexpected.expect_err("no text");
        assert!(matches!(unexpected.why, Why::Unexpected(_)));
        assert!(
            unexpected
                .to_string()
                .starts_with("GET http://h/p: the answer does not fit this")
        );
    }

    /// A server that answers every question alike and counts them.
    fn server(status: u16, body: String) -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let questions = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&questions);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.expect("a connection"));
                let mut line = String::new();
                while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
                    line.clear();
                }
                counted.fetch_add(1, Ordering::SeqCst);
                let head = format!(
                    "HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                let stream = stream.get_mut();
                stream
                    .write_all((head + &body).as_bytes())
                    .expect("the client reads");
            }
        });
        (address, questions)
    }

    #[test]
    fn of_several_servers_the_one_that_leads_is_asked() {
        let (leader, at_leader) = server(200, String::from("1"));
        let not_leading = format!(r#"{{"error":"not here","leader":"http://{leader}"}}"#);
        let (follower, at_follower) = server(421, not_leading);
        // Nobody listens at the first, and the leader is not of the list.
        let client = Client::new(&format!("127.0.0.1:1,{follower}"), Bounds::default());
        let target = Target::new("/v1/topics");
        let clone = client.clone();
        for client in [client, clone] {
            assert_eq!(client.get::<u32>(&target), Ok(1));
        }
        assert_eq!(at_leader.load(Ordering::SeqCst), 2);
        assert_eq!(
            at_follower.load(Ordering::SeqCst),
            1,
            "the leader is first from then on"
        );
    }

    #[test]
    fn where_nobody_leads_the_last_answer_says_so() {
        let (first, _) = server(421, String::from(r#"{"error":"nobody known"}"#));
        let (second, _) = server(421, String::from(r#"{"error":"nobody known"}"#));
        let client = Client::new(&format!("{first},{second}"), Bounds::default());
        let refused = client.delete(&Target::new("/v1/topics/t"));
        assert_eq!(refused.map_err(|error| error.status()), Err(Some(421)));
        let alone = Client::new("127.0.0.1:1", Bounds::default());
        let failed = alone.get::<u32>(&Target::new("/ping"));
        assert!(matches!(
            failed.map_err(|error| error.why),
            Err(Why::Unreachable(_))
        ));
    }

    #[test]
    fn another_refusal_is_an_answer() {
        let (first, _) = server(503, String::from(r#"{"error":"later"}"#));
        let (second, at_second) = server(200, String::from("1"));
        let client = Client::new(&format!("{first},{second}"), Bounds::default());
        let refused = client.get::<u32>(&Target::new("/ping"));
        assert_eq!(refused.map_err(|error| error.status()), Err(Some(503)));
        assert_eq!(at_second.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_base_may_lack_its_scheme_and_end_with_a_slash() {
        let target = Target::new("/ping");
        for (base, url) in [
            ("host:1", "http://host:1/ping"),
            ("https://host/", "https://host/ping"),
        ] {
            let client = Client::new(base, Bounds::default());
            assert_eq!(client.url(&target), url);
            assert_eq!(
                Client::new("other", Bounds::default())
                    .at(base)
                    .url(&target),
                url
            );
        }
    }
}
