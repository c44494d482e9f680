//! One question over HTTP to another port.

use axum::body::Bytes;
use axum::http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// Asks over a connection of its own; reads up to `answer_max_bytes` of the answer.
///
/// # Errors
/// Why there is no answer; whether the question arrived is not known then.
pub async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    request: Request<Bytes>,
    answer_max_bytes: usize,
) -> Result<(StatusCode, Bytes), String> {
    let failed = |error: hyper::Error| error.to_string();
    let shaken = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(failed)?;
    let asked = async {
        let answer = sender
            .send_request(request.map(Full::new))
            .await
            .map_err(failed)?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), answer_max_bytes);
        let body = body.collect().await.map_err(|error| error.to_string())?;
        Ok((status, body.to_bytes()))
    };
    // The connection moves the exchange; where it ends first, the exchange says why.
    let driven = async {
        let _ = connection.await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        answer = asked => answer,
        () = driven => Err(String::from("it closed the connection")),
    }
}
