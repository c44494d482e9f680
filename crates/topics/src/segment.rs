//! Segments: messages that leave memory together, and come back together.

use clock::Instant;

use super::store::{Arrival, Stored};

/// Messages that are outside together, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Segment {
    heads: Vec<Head>,
    bodies: Vec<u8>,
}

/// A message without its body.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// Its number.
    pub id: u64,
    /// When it reached the broker.
    pub arrival: Arrival,
    /// When the limiter let it pass.
    pub released: Instant,
    /// Earliest delivery.
    pub due: Instant,
    /// When the emulated service is done with it.
    pub served: Instant,
    /// Since when it could have been delivered.
    pub since: Instant,
    /// Deliveries so far.
    pub attempts: u16,
    /// It took its tokens at its arrival.
    pub has_paid: bool,
    /// It was seen waiting for tokens.
    pub has_waited: bool,
    /// Length of its body.
    pub body_bytes: usize,
}

impl Segment {
    /// Adds a message at the end.
    pub fn push(&mut self, head: Head, body: &[u8]) {
        debug_assert_eq!(head.body_bytes, body.len());
        self.heads.push(head);
        self.bodies.extend_from_slice(body);
    }

    /// Its size in bytes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let heads = self.heads.len() * size_of::<Head>();
        (size_of::<Segment>() + heads + self.bodies.len()) as u64
    }

    /// The messages in their order.
    pub fn messages(&self) -> impl ExactSizeIterator<Item = (&Head, &[u8])> + Clone {
        let mut rest = self.bodies.as_slice();
        self.heads.iter().map(move |head| {
            let (body, behind) = rest.split_at(head.body_bytes);
            rest = behind;
            (head, body)
        })
    }
}

/// The head to keep of a message, with the instant since which it waits and its deliveries.
pub(super) fn head_of(message: &Stored, (since, attempts): (Instant, u16)) -> Head {
    Head {
        id: message.id,
        arrival: message.arrival,
        released: message.released,
        due: message.due,
        served: message.served,
        since,
        attempts,
        has_paid: message.has_paid,
        has_waited: message.has_waited,
        body_bytes: message.body.len(),
    }
}
