//! Bodies of one size, some of which carry a mark for an echo.
//!
//! The mark takes the last bytes of a body, so a marked message is as long as any other.

use client::EchoListener;
use client::echo::MARK_BYTES;

use super::credit::Credit;
use bench::BenchError;

/// Smallest body: one that a mark and something else fit into.
pub const BODY_BYTES_MIN: usize = MARK_BYTES + 8;

/// Makes bodies.
#[derive(Debug)]
pub struct Bodies {
    bytes: Vec<u8>,
    body_bytes: usize,
    /// Marks a random sample.
    listener: Option<EchoListener>,
    /// Marks one in every few messages, to bound those under way.
    credit: Option<Credit>,
}

impl Bodies {
    /// Bodies of `body_bytes`; one in `mark_every` is marked, at random, if that is not 0. With `under_way_messages` further
    /// marks bound what was sent and not received.
    ///
    /// # Errors
    /// When a body is too short for a mark, or no echo can be listened to.
    pub fn new(
        body_bytes: usize,
        mark_every: u32,
        under_way_messages: Option<u64>,
    ) -> Result<Self, BenchError> {
        let is_marked = mark_every > 0 || under_way_messages.is_some();
        if is_marked && body_bytes < BODY_BYTES_MIN {
            return Err(BenchError::Options(format!(
                "--body-bytes {body_bytes}: a message that carries a mark needs at least {BODY_BYTES_MIN}"
            )));
        }
        let listener = (mark_every > 0).then(|| EchoListener::bind("127.0.0.1:0", mark_every));
        let listener = listener.transpose().map_err(super::client_failed)?;
        Ok(Self {
            bytes: vec![b'x'; body_bytes],
            body_bytes,
            listener,
            credit: under_way_messages.map(Credit::new).transpose()?,
        })
    }

    /// Messages, of the `due` ones, that may be sent now.
    pub fn allowed(&mut self, due: u64) -> Result<u64, BenchError> {
        match &mut self.credit {
            Some(credit) => credit.allowed(due),
            None => Ok(due),
        }
    }

    /// The next body.
    #[inline]
    pub fn next(&mut self) -> &[u8] {
        let unmarked_bytes = self.body_bytes.saturating_sub(MARK_BYTES);
        if let Some(credit) = &mut self.credit
            && let Some(mark) = credit.mark()
        {
            self.bytes.truncate(unmarked_bytes);
            mark.append_to(&mut self.bytes);
        } else if let Some(listener) = &mut self.listener {
            self.bytes.truncate(unmarked_bytes);
            if !listener.mark(&mut self.bytes) {
                self.bytes.resize(self.body_bytes, b'x');
            }
        }
        &self.bytes
    }

    /// Delays that echoes told since the last call, nanoseconds.
    pub fn delays_ns(&self) -> Vec<u64> {
        let listener = self.listener.iter();
        let delays = listener.flat_map(EchoListener::latencies);
        delays.map(|delay| delay.as_nanos() as u64).collect()
    }
}

#[cfg(test)]
mod tests {
    use client::echo::Mark;

    use super::*;

    #[test]
    fn all_bodies_have_one_size_and_some_a_mark() {
        let mut bodies = Bodies::new(128, 4, None).expect("room for a mark");
        let mut marked = 0;
        for _ in 0..1000 {
            let body = bodies.next();
            assert_eq!(body.len(), 128);
            marked += u32::from(Mark::split(body).is_some());
        }
        assert!((150..350).contains(&marked), "{marked} of 1000");
    }

    #[test]
    fn without_marks_any_size_will_do() {
        let mut bodies = Bodies::new(1, 0, None).expect("no mark");
        assert_eq!(bodies.next(), b"x");
        assert_eq!(bodies.allowed(7).expect("no bound"), 7);
        let error = Bodies::new(16, 4, None).expect_err("no room").to_string();
        assert!(error.contains("at least 40"), "{error}");
    }
}
