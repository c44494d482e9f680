//! Which subscribers to dial now. Anybody can announce an address, so few are tried at a time, and
//! addresses where nobody ever answers are tried less and less often. Announcing many addresses
//! delays nobody else's.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clock::Instant;

/// Attempts under way.
pub(super) const AT_ONCE_MAX: usize = 64;
/// Those of them to one host.
const TO_ONE_HOST_MAX: usize = 4;
/// Those of them that one address announced: the others' subscribers find places whatever it names.
const OF_ADDRESS_MAX: usize = AT_ONCE_MAX / 10;
/// Pauses after failures double from the first to the second; a connection that breaks young is a failure too.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(32);
/// A connection that lived so long was none.
const YOUNG: Duration = Duration::from_secs(5);

/// The known addresses.
#[derive(Debug, Default)]
pub(super) struct Dials {
    under_way: usize,
    hosts: BTreeMap<IpAddr, usize>,
    announcers: BTreeMap<IpAddr, usize>,
    /// Whose turn it was last.
    served_last: Option<IpAddr>,
    failing: BTreeMap<SocketAddr, Failing>,
}

/// A subscriber that is to be dialled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    /// Where it takes data.
    pub(super) to: SocketAddr,
    /// The address that announced it.
    pub(super) by: IpAddr,
    /// Not before.
    pub(super) since: Instant,
}

/// An address where nobody was, or nobody stayed, when it was tried last.
#[derive(Debug)]
struct Failing {
    pause: Duration,
    not_before: Instant,
}

impl Dials {
    /// Whom to dial now; those attempts begin. Announcing addresses have turns, and in its turn of each who has waited longest.
    pub(super) fn choose<K>(
        &mut self,
        subscribers: impl Iterator<Item = (K, Waiting)>,
        now: Instant,
    ) -> Vec<K> {
        let mut due: BTreeMap<IpAddr, Vec<(Instant, Waiting, K)>> = BTreeMap::new();
        for (key, waiting) in subscribers {
            if let Some(at) = self.due(&waiting).filter(|at| *at <= now) {
                due.entry(waiting.by).or_default().push((at, waiting, key));
            }
        }
        for of_address in due.values_mut() {
            of_address.sort_by_key(|(at, ..)| Reverse(*at));
        }
        let mut turns: VecDeque<IpAddr> = due.keys().copied().collect();
        let had_theirs = turns.partition_point(|by| Some(*by) <= self.served_last);
        turns.rotate_left(had_theirs);
        let mut chosen = Vec::new();
        while let Some(by) = turns.pop_front() {
            let Some((_, waiting, key)) = due.get_mut(&by).and_then(Vec::pop) else {
                continue;
            };
            if self.due(&waiting).is_some_and(|at| at <= now) {
                self.begin(&waiting, now);
                self.served_last = Some(by);
                chosen.push(key);
                turns.push_back(by);
            } else {
                turns.push_front(by);
            }
        }
        chosen
    }

    /// When a subscriber may be dialled; `None` while too many attempts are under way.
    pub(super) fn due(&self, waiting: &Waiting) -> Option<Instant> {
        let to_host = self.hosts.get(&waiting.to.ip()).copied().unwrap_or(0);
        let of_address = self.announcers.get(&waiting.by).copied().unwrap_or(0);
        if self.under_way >= AT_ONCE_MAX
            || to_host >= TO_ONE_HOST_MAX
            || of_address >= OF_ADDRESS_MAX
        {
            return None;
        }
        let failing = self.failing.get(&waiting.to);
        let not_before = failing.map_or(Instant::ZERO, |failing| failing.not_before);
        Some(not_before.max(waiting.since))
    }

    /// An attempt begins. Others at the same address wait for what it comes to, if the last one failed.
    fn begin(&mut self, waiting: &Waiting, now: Instant) {
        self.under_way += 1;
        *self.hosts.entry(waiting.to.ip()).or_insert(0) += 1;
        *self.announcers.entry(waiting.by).or_insert(0) += 1;
        if let Some(failing) = self.failing.get_mut(&waiting.to) {
            failing.not_before = now + failing.pause;
        }
    }

    /// An attempt has come to its end.
    pub(super) fn end(&mut self, (to, by): (SocketAddr, IpAddr), is_connected: bool, now: Instant) {
        self.under_way -= 1;
        free(&mut self.hosts, to.ip());
        free(&mut self.announcers, by);
        if !is_connected {
            self.fail(to, now);
        } else if let Some(failing) = self.failing.get_mut(&to) {
            failing.not_before = now;
        }
    }

    /// A connection broke that had lived so long.
    pub(super) fn broke(&mut self, to: SocketAddr, lived: Duration, now: Instant) {
        if lived >= YOUNG {
            self.failing.remove(&to);
        }
        self.fail(to, now);
    }

    fn fail(&mut self, to: SocketAddr, now: Instant) {
        let former = self.failing.get(&to).map(|failing| failing.pause);
        let pause = former.map_or(SHORTEST_PAUSE, |pause| (2 * pause).min(LONGEST_PAUSE));
        let not_before = now + pause;
        self.failing.insert(to, Failing { pause, not_before });
    }

    /// Forgets failures that are of no use any more: later than the longest pause after them.
    pub(super) fn forget_old(&mut self, now: Instant) {
        self.failing
            .retain(|_, failing| now < failing.not_before + LONGEST_PAUSE);
    }

    /// Addresses that are remembered.
    pub(super) fn remembered(&self) -> usize {
        self.failing.len()
    }
}

/// Gives back a place.
fn free(places: &mut BTreeMap<IpAddr, usize>, of: IpAddr) {
    if let Some(count) = places.get_mut(&of) {
        *count -= 1;
        if *count == 0 {
            places.remove(&of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn address(host: u16, port: u16) -> SocketAddr {
        let [high, low] = host.to_be_bytes();
        SocketAddr::from(([10, 0, high, low], port))
    }

    /// Attempts in virtual time, all at addresses where nobody is.
    struct World {
        dials: Dials,
        subscribers: Vec<Waiting>,
        is_dialled: Vec<bool>,
        under_way: Vec<(u64, usize)>,
        attempts: Vec<(u64, usize)>,
        takes_ms: u64,
        now_ms: u64,
    }

    impl World {
        /// Where nobody is an attempt takes so long to fail.
        fn new(subscribers: Vec<Waiting>, takes_ms: u64) -> World {
            World {
                dials: Dials::default(),
                is_dialled: vec![false; subscribers.len()],
                subscribers,
                under_way: Vec::new(),
                attempts: Vec::new(),
                takes_ms,
                now_ms: 0,
            }
        }

        fn run(&mut self, until_ms: u64) {
            while self.now_ms < until_ms {
                self.step();
                self.now_ms += 10;
            }
        }

        fn step(&mut self) {
            let (now_ms, takes_ms) = (self.now_ms, self.takes_ms);
            let under_way = std::mem::take(&mut self.under_way).into_iter();
            let (ended, rest) = under_way.partition(|(begun_ms, _)| begun_ms + takes_ms <= now_ms);
            self.under_way = rest;
            for (_, index) in ended {
                let Waiting { to, by, .. } = self.subscribers[index];
                self.dials.end((to, by), false, at(now_ms));
                self.is_dialled[index] = false;
            }
            let waiting = self.subscribers.iter().copied().enumerate();
            let waiting = waiting.filter(|(index, _)| !self.is_dialled[*index]);
            for index in self.dials.choose(waiting, at(now_ms)) {
                self.is_dialled[index] = true;
                self.under_way.push((now_ms, index));
                self.attempts.push((now_ms, index));
            }
            assert!(self.under_way.len() <= AT_ONCE_MAX);
            for (_, index) in &self.under_way {
                let by = self.subscribers[*index].by;
                let of_address = self.under_way.iter();
                let of_address = of_address.filter(|(_, other)| self.subscribers[*other].by == by);
                assert!(of_address.count() <= OF_ADDRESS_MAX);
            }
        }
    }

    /// Announced by its own host, as it is where announcements are not signed.
    fn own(to: SocketAddr) -> Waiting {
        let (by, since) = (to.ip(), Instant::ZERO);
        Waiting { to, by, since }
    }

    /// How many attempts are made at all of them, which are dead.
    fn attempts(all: impl Iterator<Item = SocketAddr>, until_ms: u64, takes_ms: u64) -> usize {
        let mut world = World::new(all.map(own).collect(), takes_ms);
        world.run(until_ms);
        world.attempts.len()
    }

    #[test]
    fn addresses_where_nobody_is_are_tried_ever_more_seldom() {
        // 0, then 0.5 s, 1, 2, 4 … s after it was found dead.
        assert_eq!(attempts([address(1, 1)].into_iter(), 60_000, 10), 7);
        let of_one_host = (0..1000).map(|port| address(1, port));
        assert_eq!(attempts(of_one_host, 2000, 2000), TO_ONE_HOST_MAX);
        let of_many = (0..1000).map(|host| address(host, 1));
        assert_eq!(attempts(of_many, 2000, 2000), AT_ONCE_MAX);
    }

    #[test]
    fn who_names_many_dead_addresses_keeps_nobody_waiting() {
        let liar = IpAddr::from([192, 0, 2, 1]);
        let named = |host| Waiting {
            by: liar,
            ..own(address(host, 1))
        };
        let mut world = World::new((0..10_000).map(named).collect(), 2000);
        world.run(5000);
        assert!(world.under_way.len() == OF_ADDRESS_MAX, "as many as it may");
        world.subscribers.push(own(address(60_000, 1)));
        world.is_dialled.push(false);
        world.run(5020);
        assert!(world.attempts.contains(&(5000, 10_000)), "at once");
    }

    #[test]
    fn addresses_have_turns_where_places_are_short() {
        // A hundred addresses that name a hundred dead ones each have all places; each attempt takes two seconds.
        let named = |index: u16| Waiting {
            by: IpAddr::from([192, 0, 2, (index % 100) as u8]),
            ..own(address(index, 1))
        };
        let mut world = World::new((0..10_000).map(named).collect(), 2000);
        world.run(60_000);
        assert_eq!(world.under_way.len(), AT_ONCE_MAX);
        let begun_ms = world.now_ms;
        world.subscribers.push(Waiting {
            since: at(begun_ms),
            ..own(address(60_000, 1))
        });
        world.is_dialled.push(false);
        world.run(begun_ms + 10_000);
        let served = world.attempts.iter().find(|(_, index)| *index == 10_000);
        let (served_ms, _) = served.expect("served");
        // A round of 101 turns with 64 places: it comes in the second batch of places at the latest.
        assert!(served_ms - begun_ms <= 4000, "{} ms", served_ms - begun_ms);
    }

    #[test]
    fn whoever_is_there_is_not_held_back_by_a_former_failure() {
        let (mut dials, there) = (Dials::default(), own(address(1, 1)));
        let Waiting { to, by, .. } = there;
        for is_connected in [false, true] {
            dials.begin(&there, at(0));
            dials.end((to, by), is_connected, at(0));
        }
        assert_eq!(dials.due(&there), Some(at(0)));
        // One that lived is dialled soon again, one that hangs up at once is not.
        dials.broke(to, YOUNG, at(10_000));
        assert_eq!(dials.due(&there), Some(at(10_500)));
        for pause_ms in [1000, 2000, 4000] {
            dials.begin(&there, at(20_000));
            dials.end((to, by), true, at(20_000));
            dials.broke(to, Duration::ZERO, at(20_000));
            assert_eq!(dials.due(&there), Some(at(20_000 + pause_ms)));
        }
        dials.forget_old(at(24_000 + 31_999));
        assert_eq!(dials.remembered(), 1);
        dials.forget_old(at(24_000 + 32_000));
        assert_eq!(dials.remembered(), 0);
    }
}
