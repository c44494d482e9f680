//! Who holds a place and who gives way: a table without a clock.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use clock::Instant;

/// How many places there are, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// In all.
    pub all: usize,
    /// For one party.
    pub of_one: usize,
    /// For programs of this machine together: one of them may be a proxy that speaks for many.
    pub of_this_machine: usize,
}

/// Places by number. `T` is what tells a holder that its place is gone.
#[derive(Debug)]
pub struct Table<T> {
    shares: Shares,
    places: HashMap<u64, Held<T>>,
    by_party: HashMap<Party, Line>,
    /// Those whose peer is waited for, since when.
    waiting: BTreeSet<(Instant, u64)>,
    next: u64,
}

/// What counts as one address: an IPv4 address, or the network part of an IPv6 address, whose other
/// half its holder may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Party(IpAddr);

/// A place that was given.
#[derive(Debug, PartialEq, Eq)]
pub struct Given<T> {
    /// What it is called.
    pub number: u64,
    /// Whose place it was until now.
    pub from: Option<T>,
}

#[derive(Debug)]
struct Held<T> {
    party: Party,
    waits_since: Option<Instant>,
    holder: T,
}

/// The places of one party, and those of them whose peer is waited for.
#[derive(Debug, Default)]
struct Line {
    held: usize,
    waiting: BTreeSet<(Instant, u64)>,
}

impl Shares {
    /// So many places, half of them for one party at most.
    #[must_use]
    pub fn halves(all: usize) -> Shares {
        let half = all.div_ceil(2);
        Shares {
            all,
            of_one: half,
            of_this_machine: half,
        }
    }

    fn of(&self, party: Party) -> usize {
        match party.is_this_machine() {
            true => self.of_this_machine,
            false => self.of_one,
        }
    }
}

impl<T> Table<T> {
    /// All places are free.
    #[must_use]
    pub fn new(shares: Shares) -> Table<T> {
        Table {
            shares,
            places: HashMap::new(),
            by_party: HashMap::new(),
            waiting: BTreeSet::new(),
            next: 0,
        }
    }

    /// Gives a place to `party`, whose peer is waited for from `now` on. Where there is none, or the party has its share, the
    /// place (of that party) goes over whose peer is waited for longest; no place if all are being served.
    pub fn give(&mut self, party: Party, holder: T, now: Instant) -> Option<Given<T>> {
        let held = self.by_party.get(&party).map_or(0, |line| line.held);
        let has_its_share = held >= self.shares.of(party);
        let from = if has_its_share || self.places.len() >= self.shares.all {
            let line = has_its_share.then(|| self.by_party.get(&party)).flatten();
            let waiting = line.map_or(&self.waiting, |line| &line.waiting);
            let (_, number) = *waiting.first()?;
            Some(self.take(number)?)
        } else {
            None
        };
        let number = self.next;
        self.next += 1;
        let held = Held {
            party,
            waits_since: None,
            holder,
        };
        self.places.insert(number, held);
        self.by_party.entry(party).or_default().held += 1;
        self.stand(number, Some(now));
        Some(Given { number, from })
    }

    /// Its peer is waited for from `now` on; a place that went over stays gone.
    pub fn wait(&mut self, number: u64, now: Instant) {
        self.stand(number, Some(now));
    }

    /// Its peer waits for an answer, so the place stays; `false` if it went over before.
    pub fn serve(&mut self, number: u64) -> bool {
        self.stand(number, None)
    }

    /// The place is free, unless it went over before.
    pub fn free(&mut self, number: u64) {
        self.take(number);
    }

    /// Takes the place whose peer is waited for longest.
    pub fn take_longest_waiting(&mut self) -> Option<T> {
        let (_, number) = *self.waiting.first()?;
        self.take(number)
    }

    /// Places that are held.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.places.len()
    }

    fn stand(&mut self, number: u64, waits_since: Option<Instant>) -> bool {
        let Some(held) = self.places.get_mut(&number) else {
            return false;
        };
        let line = self.by_party.entry(held.party).or_default();
        if let Some(since) = std::mem::replace(&mut held.waits_since, waits_since) {
            self.waiting.remove(&(since, number));
            line.waiting.remove(&(since, number));
        }
        if let Some(since) = waits_since {
            self.waiting.insert((since, number));
            line.waiting.insert((since, number));
        }
        true
    }

    fn take(&mut self, number: u64) -> Option<T> {
        self.stand(number, None);
        let held = self.places.remove(&number)?;
        if let Some(line) = self.by_party.get_mut(&held.party) {
            line.held -= 1;
            if line.held == 0 {
                self.by_party.remove(&held.party);
            }
        }
        Some(held.holder)
    }
}

impl Party {
    /// Whether it is this machine by the address that its programs use among themselves.
    #[must_use]
    pub fn is_this_machine(self) -> bool {
        // Of ::1 its network is left, which is nobody else's.
        self.0 == Ipv4Addr::LOCALHOST || self.0 == Ipv6Addr::UNSPECIFIED
    }

    /// Its address, or its network.
    #[must_use]
    pub fn address(self) -> IpAddr {
        self.0
    }
}

impl From<IpAddr> for Party {
    fn from(address: IpAddr) -> Party {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() >> 64 << 64;
                Party(IpAddr::V6(Ipv6Addr::from_bits(network)))
            }
            address => Party(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn party(text: &str) -> Party {
        Party::from(text.parse::<IpAddr>().expect("an address"))
    }

    #[test]
    fn one_party_is_one_address_or_one_network() {
        for (one, other, same) in [
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("10.0.0.1", "::ffff:10.0.0.1", true),
            ("::ffff:10.0.0.1", "::ffff:10.0.0.2", false),
            ("2001:db8::1", "2001:db8::ffff:1", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("127.0.0.1", "::1", false),
        ] {
            assert_eq!(party(one) == party(other), same, "{one} {other}");
        }
    }

    #[test]
    fn programs_of_this_machine_have_a_share_of_their_own() {
        let shares = Shares {
            all: 4,
            of_one: 1,
            of_this_machine: 4,
        };
        for (address, given_from) in [
            ("127.0.0.1", None),
            ("::1", None),
            ("::ffff:127.0.0.1", None),
            ("127.0.0.2", Some(1)),
            ("10.0.0.1", Some(1)),
            ("2001:db8::1", Some(1)),
        ] {
            let mut table = Table::new(shares);
            assert!(table.give(party(address), 1, at(1)).is_some());
            let second = table.give(party(address), 2, at(2)).expect("given");
            assert_eq!(second.from, given_from, "{address}");
        }
    }

    #[test]
    fn who_keeps_the_server_waiting_longest_gives_way() {
        let mut table = Table::new(Shares::halves(4));
        let (stranger, other, third) = (party("10.0.0.1"), party("10.0.0.2"), party("10.0.0.3"));
        let first = table.give(stranger, "half a head", at(1)).expect("free");
        let second = table.give(stranger, "idle", at(2)).expect("free");
        // The party has its half, so its own connections give way, though others are free.
        let third_of_two = table.give(stranger, "another", at(3)).expect("instead");
        assert_eq!(third_of_two.from, Some("half a head"));
        assert!(!table.serve(first.number), "gone places are not served");
        assert!(table.serve(second.number));
        let other_one = table.give(other, "new", at(4)).expect("free");
        assert_eq!(
            table.give(third, "last", at(5)).map(|given| given.from),
            Some(None)
        );
        // Full: the longest waiting of anybody gives way, and not whoever is being served.
        assert_eq!(
            table.give(other, "more", at(6)).map(|given| given.from),
            Some(Some("another"))
        );
        table.wait(second.number, at(7));
        assert!(table.serve(other_one.number));
        assert_eq!(table.taken(), 4);
        table.free(other_one.number);
        table.free(other_one.number);
        assert_eq!(table.taken(), 3);
    }

    #[test]
    fn places_of_those_who_are_served_are_not_for_others() {
        let mut table = Table::new(Shares::halves(2));
        for address in ["10.0.0.1", "10.0.0.2"] {
            let given = table.give(party(address), address, at(1)).expect("free");
            assert!(table.serve(given.number));
        }
        for address in ["10.0.0.1", "10.0.0.3"] {
            assert_eq!(
                table.give(party(address), address, at(2)),
                None,
                "{address}"
            );
        }
    }

    proptest! {
        #[test]
        fn nobody_has_more_than_its_share_and_the_table_forgets_who_left(
            steps in prop::collection::vec((0_u8..4, 0_u8..4, 0_u64..20), 0..200)
        ) {
            let mut table = Table::new(Shares::halves(5));
            for (now, (what, who, number)) in (0..).map(at).zip(steps) {
                match what {
                    0 => drop(table.give(Party(IpAddr::from([10, 0, 0, who])), (), now)),
                    1 => drop(table.serve(number)),
                    2 => table.wait(number, now),
                    _ => table.free(number),
                }
                prop_assert!(table.taken() <= 5);
                let lines = || table.by_party.values();
                prop_assert!(lines().all(|line| (1..=3).contains(&line.held)));
                prop_assert_eq!(lines().map(|line| line.held).sum::<usize>(), table.taken());
                prop_assert_eq!(lines().map(|line| line.waiting.len()).sum::<usize>(), table.waiting.len());
                let waiting = table.places.values().filter(|held| held.waits_since.is_some());
                prop_assert_eq!(table.waiting.len(), waiting.count());
            }
        }
    }
}
