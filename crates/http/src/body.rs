//! Bodies under way: a request's signals when it is complete, an answer's when it has left.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::Place;

/// Time that a client has for its whole body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

type BoxError = Box<dyn Error + Send + Sync>;

/// Whether reading a request's body failed because it took longer than half a minute.
pub(crate) fn is_late(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<Late>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// A request's body. While it is read the server waits for the peer.
pub(crate) struct Arriving {
    body: Incoming,
    place: Arc<Place>,
    deadline: Pin<Box<Sleep>>,
    is_awaited: bool,
}

/// An answer's body. When it has gone to the connection's output the server waits for the peer again.
pub(crate) struct Leaving {
    body: Body,
    place: Arc<Place>,
}

/// The body took too long.
#[derive(Debug)]
struct Late;

/// The place went over to somebody else while the body was read.
#[derive(Debug)]
pub(crate) struct Gone;

impl Arriving {
    pub(crate) fn body(body: Incoming, place: Arc<Place>) -> Body {
        if body.is_end_stream() {
            return Body::empty();
        }
        place.wait();
        Body::new(Arriving {
            body,
            place,
            deadline: Box::pin(sleep(BODY_TIMEOUT)),
            is_awaited: true,
        })
    }
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if polled.is_pending() {
            ready!(self.deadline.as_mut().poll(context));
            return Poll::Ready(Some(Err(Box::new(Late))));
        }
        let is_whole = matches!(polled, Poll::Ready(None)) || self.body.is_end_stream();
        if self.is_awaited && is_whole {
            self.is_awaited = false;
            if !self.place.serve() {
                return Poll::Ready(Some(Err(Box::new(Gone))));
            }
        }
        polled.map(|frame| frame.map(|frame| frame.map_err(BoxError::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        // Whoever wants no more of the body has begun to answer.
        if self.is_awaited {
            let _ = self.place.serve();
        }
    }
}

impl Leaving {
    pub(crate) fn new(body: Body, place: Arc<Place>) -> Leaving {
        Leaving { body, place }
    }
}

impl HttpBody for Leaving {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        HttpBody::size_hint(&self.body)
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.place.wait();
    }
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the body took longer than {} s", BODY_TIMEOUT.as_secs())
    }
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection gave way to another one")
    }
}

impl Error for Late {}
impl Error for Gone {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_bodies_are_told_from_broken_ones() {
        assert!(is_late(&Late));
        assert!(is_late(&axum::Error::new(Late)));
        assert!(!is_late(&axum::Error::new(Gone)));
    }
}
