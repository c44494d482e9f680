//! Who asks over HTTP, as far as what is made for them goes.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;

use crate::connection::maker_at;

/// Against whom the topics and channels count that a request makes; `None`: nobody.
pub(super) struct Asker(pub(super) Option<IpAddr>);

impl Asker {
    /// Of the request with this head.
    pub(super) fn of(head: &Parts) -> Asker {
        let peer = head.extensions.get::<ConnectInfo<SocketAddr>>();
        Asker(peer.and_then(|ConnectInfo(peer)| maker_at(peer.ip())))
    }
}

impl<S: Sync> FromRequestParts<S> for Asker {
    type Rejection = Infallible;

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<Asker, Infallible> {
        Ok(Asker::of(head))
    }
}
