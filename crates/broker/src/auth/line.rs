//! Questions to auth servers that wait, so that no address takes another's turns.
//!
//! Addresses take turns. Of one address a few questions are asked at the same time, and after a refusal none for a moment: who tries
//! secrets gets to ten in a second, however many connections it opens, and keeps only its own address waiting.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use clock::Instant;

/// Questions that are asked at the same time.
const ASKED_MAX: usize = 32;

/// Those of one address.
const ASKED_OF_ONE_MAX: usize = 4;

/// How long an address waits after a refusal.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// Leading bits of an IPv6 address that count: who has one address there has all of them.
const IPV6_BITS: u32 = 64;

/// Questions, by the addresses that they come from. There is one of a connection at most.
#[derive(Debug)]
pub(super) struct Line<Q> {
    of: HashMap<IpAddr, Queue<Q>>,
    /// Those that may be asked about, in turn.
    turns: VecDeque<IpAddr>,
    /// Those that wait after a refusal, and until when.
    paused: BTreeSet<(Instant, IpAddr)>,
    asked: usize,
}

#[derive(Debug)]
struct Queue<Q> {
    waiting: VecDeque<Q>,
    asked: usize,
    paused_until: Option<Instant>,
    has_turn: bool,
}

impl<Q> Default for Line<Q> {
    fn default() -> Line<Q> {
        Line {
            of: HashMap::new(),
            turns: VecDeque::new(),
            paused: BTreeSet::new(),
            asked: 0,
        }
    }
}

impl<Q> Line<Q> {
    /// One more question.
    pub(super) fn join(&mut self, from: IpAddr, question: Q) {
        let address = group(from);
        let queue = self.of.entry(address).or_insert_with(|| Queue {
            waiting: VecDeque::new(),
            asked: 0,
            paused_until: None,
            has_turn: false,
        });
        queue.waiting.push_back(question);
        self.give_turn(address);
    }

    /// The question that is to be asked now, if there is one.
    pub(super) fn next(&mut self, now: Instant) -> Option<Q> {
        while let Some(&(until, address)) = self.paused.first()
            && until <= now
        {
            self.paused.pop_first();
            if let Some(queue) = self.of.get_mut(&address) {
                queue.paused_until = None;
            }
            self.give_turn(address);
        }
        if self.asked >= ASKED_MAX {
            return None;
        }
        let address = self.turns.pop_front()?;
        let queue = self.of.get_mut(&address)?;
        queue.has_turn = false;
        let question = queue.waiting.pop_front()?;
        queue.asked += 1;
        self.asked += 1;
        self.give_turn(address);
        Some(question)
    }

    /// A question has been answered.
    pub(super) fn answered(&mut self, from: IpAddr, is_refused: bool, now: Instant) {
        let address = group(from);
        self.asked = self.asked.saturating_sub(1);
        if let Some(queue) = self.of.get_mut(&address) {
            queue.asked = queue.asked.saturating_sub(1);
            if is_refused && queue.paused_until.is_none() {
                let until = now + REFUSED_PAUSE;
                queue.paused_until = Some(until);
                self.paused.insert((until, address));
                if std::mem::take(&mut queue.has_turn) {
                    self.turns.retain(|each| *each != address);
                }
            }
        }
        self.give_turn(address);
    }

    /// When a pause ends, if there is one.
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        self.paused.first().map(|(until, _)| *until)
    }

    /// Puts an address in line, if it may be asked about, or forgets it, if there is nothing to know of it.
    fn give_turn(&mut self, address: IpAddr) {
        let Some(queue) = self.of.get_mut(&address) else {
            return;
        };
        let may = queue.paused_until.is_none() && queue.asked < ASKED_OF_ONE_MAX;
        if queue.waiting.is_empty() {
            if queue.asked == 0 && queue.paused_until.is_none() {
                self.of.remove(&address);
            }
        } else if may && !queue.has_turn {
            queue.has_turn = true;
            self.turns.push_back(address);
        }
    }
}

fn group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let shift = Ipv6Addr::BITS - IPV6_BITS;
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> shift << shift))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn all(line: &mut Line<u32>, now: Instant) -> Vec<u32> {
        std::iter::from_fn(|| line.next(now)).collect()
    }

    #[test]
    fn addresses_take_turns_with_a_few_questions_each() {
        let mut line = Line::default();
        for question in 0..10 {
            line.join(A, question);
        }
        line.join(B, 100);
        assert_eq!(all(&mut line, at_ms(0)), [0, 100, 1, 2, 3]);
        line.answered(A, false, at_ms(1));
        line.answered(B, false, at_ms(1));
        assert_eq!(all(&mut line, at_ms(1)), [4]);
        assert_eq!(line.of.len(), 1, "nothing is kept of who waits for nothing");
    }

    #[test]
    fn after_a_refusal_an_address_waits_and_no_other() {
        let mut line = Line::default();
        for question in 0..10 {
            line.join(A, question);
        }
        assert_eq!(all(&mut line, at_ms(0)).len(), ASKED_OF_ONE_MAX);
        line.answered(A, true, at_ms(0));
        line.answered(A, false, at_ms(0));
        line.join(B, 100);
        assert_eq!(all(&mut line, at_ms(99)), [100]);
        assert_eq!(line.wakes_at(), Some(at_ms(100)));
        assert_eq!(all(&mut line, at_ms(100)), [4, 5]);
        assert_eq!(line.wakes_at(), None);
    }

    #[test]
    fn whoever_tries_secrets_gets_to_ten_in_a_second() {
        let mut line = Line::default();
        let mut tried = 0;
        for ms in 0..1000 {
            while line
                .of
                .get(&A)
                .is_none_or(|queue| queue.waiting.len() < 100)
            {
                line.join(A, 0);
            }
            // Each is refused at once.
            while line.next(at_ms(ms)).is_some() {
                tried += 1;
                line.answered(A, true, at_ms(ms));
            }
        }
        assert_eq!(tried, 10);
    }

    #[test]
    fn no_more_are_asked_than_the_bound_whoever_asks() {
        let mut line = Line::default();
        for number in 0..200u8 {
            line.join(IpAddr::from([10, 0, 1, number]), u32::from(number));
        }
        assert_eq!(all(&mut line, at_ms(0)).len(), ASKED_MAX);
        for number in 0..32 {
            line.answered(IpAddr::from([10, 0, 1, number]), true, at_ms(0));
        }
        assert_eq!(all(&mut line, at_ms(0)).len(), ASKED_MAX);
        let two = ["2001:db8::1", "2001:db8::2"].map(|text| text.parse().expect("an address"));
        let [one, other] = two.map(group);
        assert_eq!(one, other);
        assert_ne!(one, group("2001:db8:0:1::1".parse().expect("an address")));
    }
}
