//! Descriptors kept back for the day when the process has no others left.
//!
//! A process without descriptors cannot accept: whoever asks how it fares would wait with all others. So a port holds some that are
//! open on nothing. When the system gives none, one of them is given up for a connection, and opened again as soon as that is
//! possible. Until then there are fewer than there should be, and whoever is accepted is on the last descriptors.

use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::Poll;

use tokio::net::{TcpListener, TcpStream};

/// Descriptors kept back by a port.
pub(crate) const SPARES: usize = 8;

/// What is open on nothing.
const NOTHING: &str = "/dev/null";

/// The spare descriptors of a port.
#[derive(Debug, Default)]
pub(crate) struct Spares(Vec<File>);

impl Spares {
    /// Opens those that are missing; says whether none is any more.
    pub(crate) fn fill(&mut self) -> bool {
        while self.0.len() < SPARES {
            match File::open(NOTHING) {
                Ok(file) => self.0.push(file),
                Err(_) => return false,
            }
        }
        true
    }

    /// Whether all have been given up.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Accepts on a spare descriptor, if there is one and somebody waits.
    pub(crate) async fn accept(
        &mut self,
        listener: &TcpListener,
    ) -> Option<(TcpStream, SocketAddr)> {
        drop(self.0.pop()?);
        let accepted = poll_fn(|context| match listener.poll_accept(context) {
            Poll::Ready(accepted) => Poll::Ready(accepted.ok()),
            Poll::Pending => Poll::Ready(None),
        });
        let accepted = accepted.await;
        if accepted.is_none() {
            self.fill();
        }
        accepted
    }
}

/// Whether there is no descriptor or memory left, so that trying again at once is pointless.
pub(crate) fn is_exhaustion(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_spare_is_given_up_for_somebody_and_not_for_nobody() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let mut spares = Spares::default();
        assert!(spares.accept(&listener).await.is_none(), "there is none");
        assert!(spares.fill());
        assert!(spares.accept(&listener).await.is_none(), "nobody waits");
        assert_eq!(spares.0.len(), SPARES);
        let _client = TcpStream::connect(address).await.expect("listens");
        let mut accepted = None;
        while accepted.is_none() {
            accepted = spares.accept(&listener).await;
            tokio::task::yield_now().await;
        }
        assert_eq!(spares.0.len(), SPARES - 1);
        assert!(spares.fill());
    }

    #[test]
    fn only_what_passes_with_time_is_exhaustion() {
        let is = |code| is_exhaustion(&io::Error::from_raw_os_error(code));
        assert!(
            [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM]
                .into_iter()
                .all(is)
        );
        assert!(!is(libc::ECONNABORTED) && !is_exhaustion(&io::Error::other("else")));
    }
}
