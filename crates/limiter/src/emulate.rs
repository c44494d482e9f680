//! A network's delays and bandwidths, for testbeds: what the router of the paper's ModelNet does
//! (DRL, section 4.3).
//!
//! From its source a packet passes a bottleneck, if there is one, then its site's link; behind the
//! link is the limiter, and if that forwards it, it arrives at its sink after the path's delay. The
//! way back has the delay alone. Both narrow places are a [`Line`]: bytes go out one after the
//! other, and what finds too many before it is lost. Instants are computed, not waited for, so a
//! busy machine delays a packet's arrival but not its turn.

use std::net::IpAddr;
use std::time::Duration;

use clock::Instant;

use crate::address::{Prefix, PrefixTable};
use crate::amount::Bandwidth;
use crate::config::EmulateConfig;

/// Bytes that go out one after the other, at a rate.
#[derive(Clone, Debug)]
pub struct Line {
    ns_per_byte: f64,
    queue_ns: f64,
    free_at: Instant,
}

/// The network around the limiters of all sites.
#[derive(Clone, Debug)]
pub struct Network {
    start: Instant,
    links: Vec<Line>,
    bottlenecks: Vec<Bottleneck>,
    paths: PrefixTable,
    /// Delays in the order of [`Network::paths`]; the last one is for all other sinks.
    delays: Vec<Duration>,
}

#[derive(Clone, Debug)]
struct Bottleneck {
    source: Prefix,
    line: Line,
    from: Instant,
    until: Instant,
}

impl Line {
    /// A line of `rate` before which at most `queue_bytes` wait.
    pub fn new(rate: Bandwidth, queue_bytes: u64) -> Line {
        let ns_per_byte = 1e9 / rate.bytes_per_s();
        Line {
            ns_per_byte,
            queue_ns: queue_bytes as f64 * ns_per_byte,
            free_at: Instant::ZERO,
        }
    }

    /// When the last bit of a packet that comes at `now` is out; `None` if the queue has no room for it.
    pub fn admit(&mut self, now: Instant, bytes: u16) -> Option<Instant> {
        let begin = self.free_at.max(now);
        let waits_ns = begin.saturating_since(now).as_nanos() as f64;
        let takes_ns = f64::from(bytes) * self.ns_per_byte;
        // A line that is idle takes any packet.
        if waits_ns > 0.0 && waits_ns + takes_ns > self.queue_ns {
            return None;
        }
        self.free_at = begin + Duration::from_nanos(takes_ns as u64);
        Some(self.free_at)
    }
}

impl Network {
    /// The network of `config` around `sites` sites, as it begins at `start`.
    pub fn new(config: &EmulateConfig, sites: usize, start: Instant) -> Network {
        let link = config
            .link
            .map(|rate| Line::new(rate, config.link_queue_bytes));
        let paths = config.path.iter().enumerate();
        let delays = config.path.iter().map(|path| path.delay_us);
        let delays = delays.chain([config.delay_us]).map(Duration::from_micros);
        let after = |s: f64| start + Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX);
        let bottleneck = |b: &crate::config::BottleneckConfig| Bottleneck {
            source: b.source,
            line: Line::new(b.rate, b.queue_bytes),
            from: after(b.at_s),
            until: b.until_s.map_or(Instant::MAX, after),
        };
        Network {
            start,
            links: link.map_or(Vec::new(), |link| vec![link; sites]),
            bottlenecks: config.bottleneck.iter().map(bottleneck).collect(),
            paths: PrefixTable::new(paths.map(|(number, path)| (path.destination, number))),
            delays: delays.collect(),
        }
    }

    /// When a packet from `source` that sets out at `now` is through the narrow place before its site's link; `None` if
    /// it is lost there.
    pub fn through_bottleneck(
        &mut self,
        now: Instant,
        source: IpAddr,
        bytes: u16,
    ) -> Option<Instant> {
        let mut found = self.bottlenecks.iter_mut();
        let found = found.find(|b| (b.from..b.until).contains(&now) && b.source.contains(source));
        found.map_or(Some(now), |bottleneck| bottleneck.line.admit(now, bytes))
    }

    /// When a packet that comes to the link of `site` at `now` is at the limiter; `None` if it is lost there.
    pub fn through_link(&mut self, now: Instant, site: usize, bytes: u16) -> Option<Instant> {
        match self.links.get_mut(site) {
            Some(link) => link.admit(now, bytes),
            None => Some(now),
        }
    }

    /// The delay between a limiter and `sink`, each way.
    pub fn delay(&self, sink: IpAddr) -> Duration {
        let path = self.paths.find(sink).unwrap_or(self.delays.len() - 1);
        self.delays[path]
    }

    /// The shortest delay that a forwarded packet may have.
    pub fn least_delay(&self) -> Duration {
        self.delays.iter().min().copied().unwrap_or_default()
    }

    /// When the emulation began.
    pub const fn start(&self) -> Instant {
        self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn network(text: &str) -> Network {
        let config: EmulateConfig = toml::from_str(text).expect("a network");
        Network::new(&config, 2, Instant::ZERO)
    }

    #[test]
    fn a_line_sends_one_after_the_other_and_drops_what_finds_no_room() {
        let rate = Bandwidth::new(1_000_000.0).expect("a rate");
        let mut line = Line::new(rate, 3000);
        let outs: Vec<_> = (0..4).map(|_| line.admit(at(10), 1000)).collect();
        assert_eq!(outs, [Some(at(11)), Some(at(12)), Some(at(13)), None]);
        assert_eq!(line.admit(at(20), 1500), Some(at(20) + 3 * MS / 2));
        let mut narrow = Line::new(rate, 0);
        assert_eq!(narrow.admit(at(1), 1500), Some(at(1) + 3 * MS / 2), "idle");
    }

    #[test]
    fn bottlenecks_are_there_for_their_time_and_their_sources() {
        let mut network = network(
            "[[bottleneck]]\nsource = '10.1.0.3'\nrate = 1_000_000\nqueue_bytes = 9000\nat_s = 1\nuntil_s = 2",
        );
        let source = "10.1.0.3".parse().expect("an address");
        let other = "10.1.0.4".parse().expect("an address");
        for (now, source, out) in [
            (at(500), source, at(500)),
            (at(1000), source, at(1001)),
            (at(1000), other, at(1000)),
            (at(2000), source, at(2000)),
        ] {
            assert_eq!(network.through_bottleneck(now, source, 1000), Some(out));
        }
    }

    #[test]
    fn each_site_has_its_own_link_and_each_path_its_delay() {
        let mut network = network(
            "link = '8 Mbps'\ndelay_us = 20_000\n[[path]]\ndestination = '10.2.1.0/24'\ndelay_us = 5000",
        );
        assert_eq!(network.through_link(at(1), 0, 1000), Some(at(2)));
        assert_eq!(network.through_link(at(1), 0, 1000), Some(at(3)));
        assert_eq!(network.through_link(at(1), 1, 1000), Some(at(2)));
        assert_eq!(
            network.delay("10.2.1.9".parse().expect("an address")),
            5 * MS
        );
        assert_eq!(
            network.delay("10.2.2.9".parse().expect("an address")),
            20 * MS
        );
        assert_eq!(network.least_delay(), 5 * MS);
    }
}
