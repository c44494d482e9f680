//! Who stands before a route, and lets those by who show what it takes.

use access::{Denial, InForce, Need};
use axum::RequestExt;
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::{Query, Refusal};

/// The parameter that names a topic, in paths and queries.
const TOPIC: &str = "topic";

const BEARER: HeaderValue = HeaderValue::from_static("Bearer");

/// The mark of an answer that refuses what its request may not do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Denied;

/// What a route takes, and by which list it is judged.
#[derive(Clone, Debug)]
pub(crate) struct Sentry {
    access: InForce,
    need: Need,
    /// Whether the path names the topic; otherwise the query does.
    is_topic_in_path: bool,
    text_field: &'static str,
}

impl Sentry {
    pub(crate) fn new(access: InForce, need: Need, path: &str, text_field: &'static str) -> Sentry {
        Sentry {
            access,
            need,
            is_topic_in_path: path.contains("{topic}"),
            text_field,
        }
    }

    /// The topic that a request is about, by the same rules by which it is answered. One that cannot be made out is none.
    async fn topic(&self, request: &mut Request) -> Option<String> {
        if !self.is_topic_in_path {
            let query = Query::of(request.uri()).ok()?;
            return query.get(TOPIC).map(str::to_owned);
        }
        let parameters: RawPathParams = request.extract_parts().await.ok()?;
        let mut named = parameters.iter().filter(|(name, _)| *name == TOPIC);
        named.next().map(|(_, topic)| topic.to_owned())
    }

    fn refusal(&self, denial: &Denial) -> Response {
        let status = StatusCode::from_u16(denial.status()).unwrap_or(StatusCode::FORBIDDEN);
        let refusal = Refusal::new(status, denial.to_string()).with_text_in(self.text_field);
        let mut response = refusal.into_response();
        response.extensions_mut().insert(Denied);
        if status == StatusCode::UNAUTHORIZED {
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, BEARER);
        }
        response
    }
}

/// Lets a request by, or answers it.
pub(crate) async fn stand(
    State(sentry): State<Sentry>,
    mut request: Request,
    next: Next,
) -> Response {
    let topic = match sentry.need {
        Need::Topic(_) => sentry.topic(&mut request).await,
        _ => None,
    };
    let list = sentry.access.list();
    match list.judge(sentry.need, topic.as_deref(), token(request.headers())) {
        Ok(()) => next.run(request).await,
        Err(denial) => sentry.refusal(&denial),
    }
}

/// The token that a request shows, where it shows one and nothing else.
fn token(headers: &HeaderMap) -> Option<&[u8]> {
    let mut shown = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(shown), None) = (shown.next(), shown.next()) else {
        return None;
    };
    let (scheme, token) = shown.as_bytes().split_at_checked("Bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then_some(token.trim_ascii())
}
