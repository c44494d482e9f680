//! Messages to and from the other brokers of a controller's round, by which brokers may keep their
//! shares while the controller is away ([`limit::Vouches`]).

use std::net::SocketAddr;
use std::time::Duration;

use clock::Instant;
use gossip::{Datagram, Endpoint, Key, SealedMembership, Vouch, decode, put_vouch};
use limit::Vouches;
use link::Round;

/// Time between two questions to everybody; several within the time for which an answer counts.
pub const ASK_INTERVAL: Duration = Duration::from_millis(500);

/// What this broker vouches for, and whom it asks.
#[derive(Clone, Debug, Default)]
pub struct Held {
    vouches: Vouches,
    others: Vec<SocketAddr>,
    key: Option<String>,
}

impl Held {
    /// The controller began a round.
    pub fn told(&mut self, round: &Round, now: Instant) {
        if round.number <= self.vouches.round() {
            return;
        }
        self.vouches.told(round.number, round.others.len(), now);
        let others = round.others.iter().map(|other| other.parse());
        // Where one of them cannot be asked nothing is held on to.
        let others: Result<Vec<SocketAddr>, _> = others.collect();
        self.others = others.unwrap_or_default();
        self.key.clone_from(&round.key);
    }

    /// Whether there is nobody to ask.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.others.is_empty()
    }

    /// The round before which all are left.
    #[must_use]
    pub fn left(&self, now: Instant) -> u64 {
        self.vouches.left(now)
    }

    /// The round, and until when its shares may be used, if all others vouch for it.
    #[must_use]
    pub fn until(&self) -> Option<(u64, Instant)> {
        let until = self.vouches.held_until()?;
        Some((self.vouches.round(), until))
    }
}

/// Encodes messages about rounds into datagrams and decodes them. It belongs to one process: an
/// answer counts only for the process that asked.
#[derive(Debug)]
pub struct Speaker {
    me: SocketAddr,
    own_key: Option<Key>,
    life: u64,
    counter: u64,
}

impl Speaker {
    /// Of the broker that is reached at `me`; `own_key` goes before the one that the controller hands out, `life` is this process's and no
    /// other's: the wall clock's nanoseconds.
    #[must_use]
    pub fn new(me: SocketAddr, own_key: Option<Key>, life: u64) -> Speaker {
        Speaker {
            me,
            own_key,
            life,
            counter: 0,
        }
    }

    /// Asks all others of the round.
    pub fn questions(&mut self, held: &Held, now: Instant) -> Vec<(SocketAddr, Vec<u8>)> {
        let question = Vouch {
            is_answer: false,
            round: held.vouches.round(),
            life: self.life,
            asked_at_ns: now.as_nanos(),
        };
        let Some(key) = self.key(held) else {
            return Vec::new();
        };
        let others = held.others.iter();
        others
            .filter_map(|other| Some((*other, self.sealed(&key, *other, question)?)))
            .collect()
    }

    /// Takes a datagram. `None`: it is not about rounds but for somebody else. Otherwise the answer
    /// to it, if there is one.
    pub fn take(
        &mut self,
        held: &mut Held,
        now: Instant,
        from: SocketAddr,
        bytes: &[u8],
    ) -> Option<Option<Vec<u8>>> {
        let Ok(Datagram::Vouch(sealed)) = decode(bytes) else {
            return None;
        };
        Some(self.hear(held, now, from, sealed))
    }

    fn hear(
        &mut self,
        held: &mut Held,
        now: Instant,
        from: SocketAddr,
        sealed: SealedMembership<'_>,
    ) -> Option<Vec<u8>> {
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        let place = held.others.iter().position(|other| *other == from)?;
        let key = self.key(held)?;
        let path = key.path(
            Endpoint {
                address: from,
                incarnation: sealed.incarnation(),
            },
            Endpoint {
                address: self.me,
                incarnation: 0,
            },
        );
        let vouch = Vouch::decode(sealed.open(&path).ok()?)?;
        if vouch.is_answer {
            let asked_at = Instant::from_nanos(vouch.asked_at_ns);
            if vouch.life == self.life && asked_at <= now {
                held.vouches.answered(vouch.round, place, asked_at);
            }
            return None;
        }
        if !held.vouches.vouches_for(vouch.round) {
            return None;
        }
        let answer = Vouch {
            is_answer: true,
            ..vouch
        };
        self.sealed(&key, from, answer)
    }

    fn key(&self, held: &Held) -> Option<Key> {
        let handed_out = || held.key.as_ref().and_then(|key| Key::from_hex(key).ok());
        self.own_key.clone().or_else(handed_out)
    }

    fn sealed(&mut self, key: &Key, to: SocketAddr, vouch: Vouch) -> Option<Vec<u8>> {
        self.counter += 1;
        let path = key.path(
            Endpoint {
                address: self.me,
                incarnation: self.life,
            },
            Endpoint {
                address: to,
                incarnation: 0,
            },
        );
        let mut bytes = Vec::new();
        let put = put_vouch(&mut bytes, &path, self.life, self.counter, &vouch.encode());
        put.ok().map(|()| bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn held(round: u64, others: &[u16]) -> Held {
        let mut held = Held::default();
        let round = Round {
            number: round,
            others: others
                .iter()
                .map(|port| address(*port).to_string())
                .collect(),
            key: Some("ab".repeat(32)),
        };
        held.told(&round, Instant::ZERO);
        held
    }

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// Asks, lets the other answer, and takes the answer.
    fn exchange(
        (asker, asks): (&mut Speaker, &mut Held),
        (asked, answers): (&mut Speaker, &mut Held),
        now: Instant,
    ) {
        for (to, question) in asker.questions(asks, now) {
            assert_eq!(to, asked.me);
            let answer = asked
                .take(answers, now, asker.me, &question)
                .expect("a word");
            if let Some(answer) = answer {
                assert_eq!(asker.take(asks, now, to, &answer), Some(None));
            }
        }
    }

    #[test]
    fn brokers_of_one_round_vouch_for_each_other() {
        let (mut first, mut second) = (
            Speaker::new(address(1), None, 1),
            Speaker::new(address(2), None, 2),
        );
        let (mut asks, mut answers) = (held(7, &[2]), held(7, &[1]));
        exchange(
            (&mut first, &mut asks),
            (&mut second, &mut answers),
            at_ms(10),
        );
        assert_eq!(asks.until(), Some((7, at_ms(10) + limit::VOUCHED)));
        // The other has been told of a later round.
        let mut later = held(8, &[1]);
        exchange(
            (&mut first, &mut asks),
            (&mut second, &mut later),
            at_ms(900),
        );
        assert_eq!(asks.until(), Some((7, at_ms(10) + limit::VOUCHED)));
    }

    #[test]
    fn another_key_another_life_and_strangers_are_not_believed() {
        let (mut first, mut second) = (
            Speaker::new(address(1), None, 1),
            Speaker::new(address(2), None, 2),
        );
        let (mut asks, mut answers) = (held(7, &[2]), held(7, &[1]));
        answers.key = Some("cd".repeat(32));
        exchange(
            (&mut first, &mut asks),
            (&mut second, &mut answers),
            at_ms(10),
        );
        assert_eq!(asks.until(), None);
        answers.key.clone_from(&asks.key);
        let question = first.questions(&asks, at_ms(20)).remove(0).1;
        let answer = second.take(&mut answers, at_ms(20), address(1), &question);
        let answer = answer.flatten().expect("they are of one round");
        let mut next_life = Speaker::new(address(1), None, 3);
        next_life.take(&mut asks, at_ms(20), address(2), &answer);
        assert_eq!(asks.until(), None);
        first.take(&mut asks, at_ms(20), address(3), &answer);
        assert_eq!(asks.until(), None);
        first.take(&mut asks, at_ms(20), address(2), &answer);
        assert!(asks.until().is_some());
        assert_eq!(first.take(&mut asks, at_ms(20), address(2), &[0; 20]), None);
    }
}
