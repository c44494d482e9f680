//! One connection's requests: their routes, and what each answer says besides.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;

use crate::body::{Arriving, Gone, Leaving};
use crate::guard::Denied;
use crate::{Counts, Gate, Place, Refusal, nsq};

/// What stays reachable when all places are taken.
const VITAL_PATHS: [&str; 2] = ["/ping", "/metrics"];
const NO_SNIFFING: HeaderValue = HeaderValue::from_static("nosniff");
const CLOSE: HeaderValue = HeaderValue::from_static("close");
const SHORTLY: HeaderValue = HeaderValue::from_static("1");

/// What all connections of a port share.
pub(crate) struct HttpState {
    pub(crate) router: Router,
    pub(crate) gate: Gate,
    pub(crate) counts: Counts,
    /// Field of an error's JSON object that holds its text.
    pub(crate) text_field: &'static str,
    /// Where encrypted requests are answered, if no others are.
    pub(crate) only_at: Option<u16>,
}

/// One connection's side of it.
#[derive(Clone)]
pub(crate) struct Conversation {
    pub(crate) state: Arc<HttpState>,
    pub(crate) peer: SocketAddr,
    pub(crate) place: Arc<Place>,
    /// Whether the place is one of the reserve.
    pub(crate) is_reserve: bool,
}

impl Conversation {
    /// Answers one request.
    ///
    /// # Errors
    /// [`Gone`] if the place went over before the request was there; nothing was done then.
    pub(crate) async fn answer(
        self,
        request: Request<Incoming>,
    ) -> Result<Response<Leaving>, Gone> {
        if !self.place.serve() {
            return Err(Gone);
        }
        let mut response = self.outcome(request).await;
        let headers = response.headers_mut();
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, NO_SNIFFING);
        if self.is_reserve {
            headers.insert(header::CONNECTION, CLOSE);
        }
        Ok(response.map(|body| Leaving::new(body, self.place)))
    }

    async fn outcome(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        if let Some(port) = self.state.only_at {
            return nsq::tls_required(port);
        }
        let is_look = [Method::GET, Method::HEAD].contains(&head.method);
        let is_vital = is_look && VITAL_PATHS.contains(&head.uri.path());
        if self.is_reserve && !is_vital {
            self.state.counts.refused();
            let text = "all places of this port are taken; only GET /ping and /metrics are still answered, so try again later";
            let mut refusal = self.refusal(StatusCode::SERVICE_UNAVAILABLE, text);
            refusal.headers_mut().insert(header::RETRY_AFTER, SHORTLY);
            return refusal;
        }
        if let Err(text) = self.state.gate.judge(&head) {
            self.state.counts.foreign();
            return self.refusal(StatusCode::FORBIDDEN, &text);
        }
        let body = Arriving::body(body, Arc::clone(&self.place));
        let mut request = Request::from_parts(head, body);
        request.extensions_mut().insert(ConnectInfo(self.peer));
        let routed = TowerToHyperService::new(self.state.router.clone())
            .call(request)
            .await;
        let response = routed.unwrap_or_else(|never| match never {});
        if response.extensions().get::<Denied>().is_some() {
            self.state.counts.denied();
        }
        response
    }

    fn refusal(&self, status: StatusCode, text: &str) -> Response<Body> {
        let refusal = Refusal::new(status, text).with_text_in(self.state.text_field);
        refusal.into_response()
    }
}
