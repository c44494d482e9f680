//! Converts a queued message to its form on disk and back: instants, which mean nothing after a
//! restart of the machine, become times of day.

use clock::{Instant, WallTime};
use disk::{Message, Owner, Stamps};
use topics::{Arrival, Head, QueueName, Segment};

/// One moment by both clocks, for this life of the broker: what is read back in it is to the nanosecond what was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchor {
    pub(super) now: Instant,
    pub(super) wall: WallTime,
}

impl Anchor {
    pub(super) fn wall_ns(&self, at: Instant) -> i64 {
        let since_boot = i128::from(at.as_nanos()) - i128::from(self.now.as_nanos());
        let wall = i128::from(self.wall.as_nanos()) + since_boot;
        i64::try_from(wall).unwrap_or(if wall < 0 { i64::MIN } else { i64::MAX })
    }

    /// A time before this life of the machine becomes its beginning.
    fn instant(&self, wall_ns: i64) -> Instant {
        let since = i128::from(wall_ns) - i128::from(self.wall.as_nanos());
        let at = i128::from(self.now.as_nanos()) + since;
        Instant::from_nanos(at.clamp(0, i128::from(u64::MAX)) as u64)
    }

    /// Work of a former life of the broker counts as done when this one began: latencies measured
    /// here are of this life.
    fn instant_here(&self, wall_ns: i64) -> Instant {
        self.instant(wall_ns).max(self.now)
    }

    /// As it is kept.
    pub(super) fn message<'a>(&self, head: &Head, body: &'a [u8]) -> Message<'a> {
        Message {
            id: head.id,
            attempts: head.attempts,
            has_paid: head.has_paid,
            has_waited: head.has_waited,
            half_rtt_us: head.arrival.half_rtt_us,
            flow: head.arrival.flow,
            stamps: Stamps {
                published_ns: head.arrival.wall_ns,
                arrived_ns: self.wall_ns(head.arrival.at),
                read_ns: self.wall_ns(head.arrival.read),
                released_ns: self.wall_ns(head.released),
                due_ns: self.wall_ns(head.due),
                served_ns: self.wall_ns(head.served),
                since_ns: self.wall_ns(head.since),
            },
            body,
        }
    }

    /// As its queue has it; `is_of_before`: a former life of the broker has written it.
    pub(super) fn head(&self, message: &Message<'_>, is_of_before: bool) -> Head {
        let stamps = &message.stamps;
        let instant = |wall_ns| match is_of_before {
            true => self.instant_here(wall_ns),
            false => self.instant(wall_ns),
        };
        Head {
            id: message.id,
            arrival: Arrival {
                at: instant(stamps.arrived_ns),
                wall_ns: stamps.published_ns,
                read: instant(stamps.read_ns),
                half_rtt_us: if is_of_before { 0 } else { message.half_rtt_us },
                flow: message.flow,
            },
            released: instant(stamps.released_ns),
            due: self.instant(stamps.due_ns),
            served: match is_of_before {
                true => Instant::ZERO,
                false => self.instant(stamps.served_ns),
            },
            since: instant(stamps.since_ns),
            attempts: message.attempts,
            has_paid: message.has_paid,
            has_waited: message.has_waited,
            body_bytes: message.body.len(),
        }
    }

    /// A segment of what is kept.
    pub(super) fn segment<'a>(
        &self,
        messages: impl Iterator<Item = Message<'a>>,
        is_of_before: bool,
    ) -> Segment {
        let mut segment = Segment::default();
        for message in messages {
            segment.push(self.head(&message, is_of_before), message.body);
        }
        segment
    }
}

/// Whose segments a queue's are on disk.
pub(super) fn owner_of(queue: &QueueName) -> Owner {
    Owner {
        topic: queue.topic.clone(),
        channel: queue.channel.clone(),
    }
}

/// Which queue's segments these are.
pub(super) fn queue_of(owner: Owner) -> QueueName {
    QueueName {
        topic: owner.topic,
        channel: owner.channel,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(at: u64, due: u64) -> Head {
        let instant = Instant::from_nanos;
        Head {
            id: 7,
            arrival: Arrival {
                at: instant(at),
                wall_ns: 123,
                read: instant(at + 1),
                half_rtt_us: 5,
                flow: 6,
            },
            released: instant(at + 2),
            due: instant(due),
            served: Instant::ZERO,
            since: instant(at + 3),
            attempts: 2,
            has_paid: true,
            has_waited: false,
            body_bytes: 4,
        }
    }

    #[test]
    fn in_one_life_a_message_comes_back_as_it_was() {
        let anchor = Anchor {
            now: Instant::from_nanos(1_000),
            wall: WallTime::from_nanos(1_700_000_000_000_000_000),
        };
        let head = head(500, 5_000);
        let message = anchor.message(&head, b"body");
        assert_eq!(message.stamps.due_ns, 1_700_000_000_000_004_000);
        assert_eq!(anchor.head(&message, false), head);
    }

    #[test]
    fn in_another_life_only_what_is_ahead_keeps_its_time() {
        let before = Anchor {
            now: Instant::from_nanos(1_000_000),
            wall: WallTime::from_nanos(10_000_000),
        };
        let message = before.message(&head(500, 9_000_000), b"body");
        // The machine came up a short while ago.
        let now = Instant::from_nanos(100);
        let after = Anchor {
            now,
            wall: WallTime::from_nanos(15_000_000),
        };
        let head = after.head(&message, true);
        assert_eq!(
            (head.arrival.at, head.arrival.read, head.since),
            (now, now, now)
        );
        assert_eq!((head.arrival.wall_ns, head.attempts), (123, 2));
        assert_eq!(head.due, Instant::from_nanos(100 + 3_000_000));
    }
}
