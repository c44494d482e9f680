//! A message in its form on disk.

/// Bytes of a message's payload before its body.
pub const MESSAGE_HEAD_BYTES: usize = 80;

const HAS_PAID: u16 = 1;
const HAS_WAITED: u16 = 2;

/// A message with everything that has to be known of it. Times are nanoseconds since the Unix
/// epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its number.
    pub id: u64,
    /// Deliveries so far.
    pub attempts: u16,
    /// It took its tokens at its arrival.
    pub has_paid: bool,
    /// It was seen waiting for tokens.
    pub has_waited: bool,
    /// Half the round trip of its publisher's connection, in microseconds; 0 where that is not known.
    pub half_rtt_us: u32,
    /// The flow that it belongs to.
    pub flow: u32,
    /// Its times.
    pub stamps: Stamps,
    /// The body.
    pub body: &'a [u8],
}

/// The times of a message, in nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// Its publication, as consumers are told.
    pub published_ns: i64,
    /// Arrival of its last byte.
    pub arrived_ns: i64,
    /// When it was read.
    pub read_ns: i64,
    /// When the limiter let it pass.
    pub released_ns: i64,
    /// Earliest delivery.
    pub due_ns: i64,
    /// When an emulated service was done with it.
    pub served_ns: i64,
    /// Since when it could have been delivered.
    pub since_ns: i64,
}

impl Stamps {
    fn to_array(self) -> [i64; 7] {
        [
            self.published_ns,
            self.arrived_ns,
            self.read_ns,
            self.released_ns,
            self.due_ns,
            self.served_ns,
            self.since_ns,
        ]
    }

    fn of_array(times: [i64; 7]) -> Stamps {
        let [
            published_ns,
            arrived_ns,
            read_ns,
            released_ns,
            due_ns,
            served_ns,
            since_ns,
        ] = times;
        Stamps {
            published_ns,
            arrived_ns,
            read_ns,
            released_ns,
            due_ns,
            served_ns,
            since_ns,
        }
    }
}

impl<'a> Message<'a> {
    /// Everything but the body.
    pub(crate) fn head(&self) -> [u8; MESSAGE_HEAD_BYTES] {
        let mut head = [0; MESSAGE_HEAD_BYTES];
        head[..8].copy_from_slice(&self.id.to_le_bytes());
        head[8..10].copy_from_slice(&self.attempts.to_le_bytes());
        let flags = u16::from(self.has_paid) * HAS_PAID + u16::from(self.has_waited) * HAS_WAITED;
        head[10..12].copy_from_slice(&flags.to_le_bytes());
        head[12..16].copy_from_slice(&self.half_rtt_us.to_le_bytes());
        head[16..20].copy_from_slice(&self.flow.to_le_bytes());
        let times = head[24..].chunks_exact_mut(8);
        for (place, time) in times.zip(self.stamps.to_array()) {
            place.copy_from_slice(&time.to_le_bytes());
        }
        head
    }

    /// The message of a record's payload; none if it is too short for one.
    #[must_use]
    pub fn of_payload(payload: &'a [u8]) -> Option<Message<'a>> {
        let (head, body) = payload.split_first_chunk::<MESSAGE_HEAD_BYTES>()?;
        let long = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap_or_default());
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap_or_default());
        let short = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let mut times = [0; 7];
        for (index, time) in times.iter_mut().enumerate() {
            *time = long(24 + 8 * index).cast_signed();
        }
        Some(Message {
            id: long(0),
            attempts: short(8),
            has_paid: short(10) & HAS_PAID != 0,
            has_waited: short(10) & HAS_WAITED != 0,
            half_rtt_us: word(12),
            flow: word(16),
            stamps: Stamps::of_array(times),
            body,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back() {
        for (has_paid, has_waited) in [(false, true), (true, false), (true, true)] {
            let message = Message {
                id: u64::MAX - 1,
                attempts: 65_535,
                has_paid,
                has_waited,
                half_rtt_us: 1,
                flow: 2,
                stamps: Stamps::of_array([-1, 2, -3, i64::MIN, i64::MAX, 6, 7]),
                body: b"a body",
            };
            let payload = [&message.head()[..], message.body].concat();
            assert_eq!(Message::of_payload(&payload), Some(message));
            let short = &payload[..MESSAGE_HEAD_BYTES - 1];
            assert_eq!(Message::of_payload(short), None);
        }
    }
}
