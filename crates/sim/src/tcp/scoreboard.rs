//! The segments between the last acknowledged and the next one to send, and the state of each.

use std::collections::VecDeque;
use std::time::Duration;

use clock::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// On its way, for all that is known.
    Flying,
    /// There, but something before it is not.
    Sacked,
    /// To be sent again.
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    state: State,
    /// Of the last transmission.
    at: Instant,
    repeated: bool,
}

/// A segment that has arrived, as the scoreboard knew it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivered {
    pub(super) number: u32,
    pub(super) sent_at: Instant,
    pub(super) repeated: bool,
}

/// The newest transmission that has arrived: what was sent well before it is lost (RFC 8985).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Newest {
    sent_at: Instant,
    number: u32,
    round_trip: Duration,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    /// The first segment that is not acknowledged.
    first: u32,
    sent: VecDeque<Sent>,
    sacked: u32,
    lost: u32,
}

impl Newest {
    /// Takes note of an arrival at `now`; a repetition whose answer comes too soon answers the original.
    pub(super) fn take(&mut self, now: Instant, delivered: Delivered, shortest: Duration) {
        let round_trip = now - delivered.sent_at;
        if delivered.repeated && round_trip < shortest {
            return;
        }
        if self.is_after(delivered.sent_at, delivered.number) {
            return;
        }
        *self = Newest {
            sent_at: delivered.sent_at,
            number: delivered.number,
            round_trip,
        };
    }

    fn is_after(&self, sent_at: Instant, number: u32) -> bool {
        (self.sent_at, self.number) > (sent_at, number)
    }
}

impl Scoreboard {
    pub(super) fn first(&self) -> u32 {
        self.first
    }

    /// The next new segment.
    pub(super) fn next(&self) -> u32 {
        self.first + self.sent.len() as u32
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Segments that are not acknowledged.
    pub(super) fn len(&self) -> u32 {
        self.sent.len() as u32
    }

    pub(super) fn sacked(&self) -> u32 {
        self.sacked
    }

    /// Segments in the network, for all that is known.
    pub(super) fn flying(&self) -> u32 {
        self.len() - self.sacked - self.lost
    }

    pub(super) fn send_new(&mut self, now: Instant) -> u32 {
        let number = self.next();
        self.sent.push_back(Sent {
            state: State::Flying,
            at: now,
            repeated: false,
        });
        number
    }

    pub(super) fn send_again(&mut self, now: Instant, number: u32) {
        let sent = &mut self.sent[(number - self.first) as usize];
        if sent.state == State::Lost {
            self.lost -= 1;
        }
        *sent = Sent {
            state: State::Flying,
            at: now,
            repeated: true,
        };
    }

    /// The first segment that is to be sent again.
    pub(super) fn first_lost(&self) -> Option<u32> {
        if self.lost == 0 {
            return None;
        }
        let at = self.sent.iter().position(|sent| sent.state == State::Lost);
        at.map(|at| self.first + at as u32)
    }

    /// All below `cumulative` is there; `delivered` is told of what is news.
    pub(super) fn acknowledge(&mut self, cumulative: u32, mut delivered: impl FnMut(Delivered)) {
        while self.first < cumulative {
            let Some(sent) = self.sent.pop_front() else {
                return;
            };
            let number = self.first;
            self.first += 1;
            match sent.state {
                State::Sacked => self.sacked -= 1,
                state => {
                    self.lost -= u32::from(state == State::Lost);
                    delivered(sent.delivered(number));
                }
            }
        }
    }

    /// Segment `number` is there; `None` if that is no news.
    pub(super) fn sack(&mut self, number: u32) -> Option<Delivered> {
        let at = number.checked_sub(self.first)? as usize;
        let sent = self.sent.get_mut(at)?;
        if sent.state == State::Sacked {
            return None;
        }
        self.lost -= u32::from(sent.state == State::Lost);
        sent.state = State::Sacked;
        self.sacked += 1;
        Some(sent.delivered(number))
    }

    /// Marks as lost what was sent before the `newest` arrival and is late by more than `reordering`. Returns how many
    /// those are, and after what time the next one would be.
    pub(super) fn mark_lost(
        &mut self,
        now: Instant,
        newest: Newest,
        reordering: Duration,
    ) -> (u32, Option<Duration>) {
        let (mut marked, mut wait) = (0, None);
        if newest.sent_at == Instant::ZERO {
            return (marked, wait);
        }
        for (at, sent) in self.sent.iter_mut().enumerate() {
            let number = self.first + at as u32;
            if sent.state != State::Flying || !newest.is_after(sent.at, number) {
                continue;
            }
            let due = sent.at + newest.round_trip + reordering;
            if due <= now {
                sent.state = State::Lost;
                marked += 1;
            } else {
                wait = wait.max(Some(due - now));
            }
        }
        self.lost += marked;
        (marked, wait)
    }

    /// Gives up everything that is not known to be there.
    pub(super) fn lose_all(&mut self) {
        for sent in &mut self.sent {
            if sent.state != State::Sacked {
                sent.state = State::Lost;
            }
        }
        self.lost = self.len() - self.sacked;
    }
}

impl Sent {
    fn delivered(&self, number: u32) -> Delivered {
        Delivered {
            number,
            sent_at: self.at,
            repeated: self.repeated,
        }
    }
}
