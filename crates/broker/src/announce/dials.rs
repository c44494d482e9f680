//! Which subscribers may be dialled now: anybody can announce an address, so few are tried at a time, and those where nobody
//! is ever more seldom.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clock::Instant;

/// Attempts under way.
pub(super) const AT_ONCE_MAX: usize = 64;
/// Those of them to one host.
const TO_ONE_HOST_MAX: usize = 4;
/// Pauses after failures double from the first to the second; a connection that breaks young is a failure too.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(32);
/// A connection that lived so long was none.
const YOUNG: Duration = Duration::from_secs(5);

/// What is known of addresses.
#[derive(Debug, Default)]
pub(super) struct Dials {
    under_way: usize,
    hosts: BTreeMap<IpAddr, usize>,
    failing: BTreeMap<SocketAddr, Failing>,
}

/// An address where nobody was, or nobody stayed, when it was tried last.
#[derive(Debug)]
struct Failing {
    pause: Duration,
    not_before: Instant,
}

impl Dials {
    /// When `to` may be tried; `None` while too many attempts are under way.
    pub(super) fn due(&self, to: SocketAddr) -> Option<Instant> {
        let to_host = self.hosts.get(&to.ip()).copied().unwrap_or(0);
        if self.under_way >= AT_ONCE_MAX || to_host >= TO_ONE_HOST_MAX {
            return None;
        }
        let failing = self.failing.get(&to);
        Some(failing.map_or(Instant::ZERO, |failing| failing.not_before))
    }

    /// An attempt begins. Others at the same address wait for what it comes to, if the last one failed.
    pub(super) fn begin(&mut self, to: SocketAddr, now: Instant) {
        self.under_way += 1;
        *self.hosts.entry(to.ip()).or_insert(0) += 1;
        if let Some(failing) = self.failing.get_mut(&to) {
            failing.not_before = now + failing.pause;
        }
    }

    /// An attempt has come to its end.
    pub(super) fn end(&mut self, to: SocketAddr, is_connected: bool, now: Instant) {
        self.under_way -= 1;
        if let Some(count) = self.hosts.get_mut(&to.ip()) {
            *count -= 1;
            if *count == 0 {
                self.hosts.remove(&to.ip());
            }
        }
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

    /// Tries all that may be tried, every 10 ms, and none is there; how many attempts that makes.
    fn attempts(all: &[SocketAddr], until_ms: u64, takes_ms: u64) -> usize {
        let (mut dials, mut count) = (Dials::default(), 0);
        let mut under_way: Vec<(u64, SocketAddr)> = Vec::new();
        for now_ms in (0..until_ms).step_by(10) {
            let (ended, rest) = under_way
                .into_iter()
                .partition(|(begun_ms, _)| begun_ms + takes_ms <= now_ms);
            under_way = rest;
            for (_, to) in ended {
                dials.end(to, false, at(now_ms));
            }
            for to in all {
                if dials.due(*to).is_some_and(|due| due <= at(now_ms)) {
                    dials.begin(*to, at(now_ms));
                    under_way.push((now_ms, *to));
                    count += 1;
                }
            }
            assert!(under_way.len() <= AT_ONCE_MAX);
        }
        count
    }

    #[test]
    fn addresses_where_nobody_is_are_tried_ever_more_seldom() {
        // 0, then 0.5 s, 1, 2, 4 … s after it was found dead.
        assert_eq!(attempts(&[address(1, 1)], 60_000, 10), 7);
        let of_one_host: Vec<SocketAddr> = (0..1000).map(|port| address(1, port)).collect();
        assert_eq!(attempts(&of_one_host, 2000, 2000), TO_ONE_HOST_MAX);
        let of_many: Vec<SocketAddr> = (0..1000).map(|host| address(host, 1)).collect();
        assert_eq!(attempts(&of_many, 2000, 2000), AT_ONCE_MAX);
    }

    #[test]
    fn whoever_is_there_is_not_held_back_by_a_former_failure() {
        let (mut dials, there) = (Dials::default(), address(1, 1));
        for is_connected in [false, true] {
            dials.begin(there, at(0));
            dials.end(there, is_connected, at(0));
        }
        assert_eq!(dials.due(there), Some(at(0)));
        // One that lived is dialled soon again, one that hangs up at once is not.
        dials.broke(there, YOUNG, at(10_000));
        assert_eq!(dials.due(there), Some(at(10_500)));
        for pause_ms in [1000, 2000, 4000] {
            dials.begin(there, at(20_000));
            dials.end(there, true, at(20_000));
            dials.broke(there, Duration::ZERO, at(20_000));
            assert_eq!(dials.due(there), Some(at(20_000 + pause_ms)));
        }
        dials.forget_old(at(24_000 + 31_999));
        assert_eq!(dials.remembered(), 1);
        dials.forget_old(at(24_000 + 32_000));
        assert_eq!(dials.remembered(), 0);
    }
}
