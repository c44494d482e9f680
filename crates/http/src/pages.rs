//! Answers that are being read, and the bound on their memory.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::response::Parts;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::Lane;
use crate::lane::share;

/// An answer waits so long for others to be read.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Memory of a port's answers, unless it says otherwise.
const PAGES_BYTES: usize = 32 << 20;

const UNIT_BYTES: usize = 1024;

/// The memory of all answers of a port that are not read to their end. Where it is used up an answer waits for a second; then who asked
/// is told 503 instead. One that is larger than all of it may be there alone.
#[derive(Clone, Debug)]
pub struct Pages {
    units: Arc<Semaphore>,
    units_max: u32,
    wait_max: Duration,
}

/// An answer that many may read.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    head: Parts,
    body: Bytes,
}

/// Gives its memory back with the last of its readers.
struct Held {
    bytes: Bytes,
    _units: OwnedSemaphorePermit,
}

impl Pages {
    /// A route without parameters: all who ask it at the same time share one answer. It has a line of its own, so that none waits for
    /// another's crowd.
    pub fn shared<S: Clone + Send + Sync + 'static>(
        &self,
        route: MethodRouter<S>,
    ) -> MethodRouter<S> {
        route.layer(from_fn_with_state(Lane::new(self), share))
    }

    /// Answers of `bytes_max` in all, 1 KiB to 4 TiB.
    #[must_use]
    pub fn new(bytes_max: usize) -> Pages {
        let units_max = u32::try_from(bytes_max / UNIT_BYTES).unwrap_or(u32::MAX);
        Pages {
            units: Arc::new(Semaphore::new(units_max as usize)),
            units_max,
            wait_max: WAIT_MAX,
        }
    }

    #[cfg(test)]
    pub(crate) fn without_patience(self) -> Pages {
        Pages {
            wait_max: Duration::ZERO,
            ..self
        }
    }

    /// The answer with all of its body, or why there is no room for it.
    pub(crate) async fn hold(&self, answer: Response) -> Page {
        let (head, body) = answer.into_parts();
        let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
            return Page::unavailable("the answer broke off; ask again");
        };
        let units = u32::try_from(bytes.len() / UNIT_BYTES + 1).unwrap_or(u32::MAX);
        let units = Arc::clone(&self.units).acquire_many_owned(units.min(self.units_max));
        match timeout(self.wait_max, units).await {
            Ok(Ok(units)) => Page {
                head,
                body: Bytes::from_owner(Held {
                    bytes,
                    _units: units,
                }),
            },
            _ => Page::unavailable("too many answers have not been read to their end; ask again"),
        }
    }
}

impl Default for Pages {
    /// 32 MiB.
    fn default() -> Pages {
        Pages::new(PAGES_BYTES)
    }
}

impl Page {
    fn unavailable(why: &'static str) -> Page {
        let answer = (StatusCode::SERVICE_UNAVAILABLE, ()).into_response();
        Page {
            head: answer.into_parts().0,
            body: Bytes::from_static(why.as_bytes()),
        }
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        Response::from_parts(self.head, Body::from(self.body))
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
