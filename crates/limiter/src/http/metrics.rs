//! `GET /metrics`: the numbers of a snapshot for Prometheus, in the OpenMetrics text format.
//!
//! A series per site and class: their number is bounded by the configuration.

use std::fmt;

use http::Counts;
use http::metrics::{Series, counter, float, gauge, put, text_of};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use super::{Snapshot, StandingNumbers};
use crate::packet::Odd;

/// Of each site and class.
const STANDING: &[Series<StandingNumbers>] = &[
    counter("forwarded_packets", "Packets forwarded.", |s| {
        Some(s.passed.forwarded_packets as f64)
    }),
    counter(
        "forwarded_bytes",
        "Bytes of them, IP headers included.",
        |s| Some(s.passed.forwarded_bytes as f64),
    ),
    counter("dropped_packets", "Packets that exceeded the limit.", |s| {
        Some(s.passed.dropped_packets as f64)
    }),
    counter(
        "dropped_bytes",
        "Bytes of them, IP headers included.",
        |s| Some(s.passed.dropped_bytes as f64),
    ),
    gauge(
        "local_limit_bytes_per_second",
        "What the site may let through now.",
        |s| s.local_limit,
    ),
    gauge(
        "demand",
        "What the site tells the others: bytes per second, or for fps its weight in flows.",
        |s| s.local_limit.map(|_| s.demand),
    ),
    gauge(
        "passing_bytes_per_second",
        "What the site let through recently.",
        |s| s.local_limit.map(|_| s.passing),
    ),
    gauge(
        "connected_sites",
        "Sites that the site hears of, itself included.",
        |s| s.local_limit.map(|_| s.connected.into()),
    ),
];

/// Of each site's gossip.
const GOSSIP: &[Series<gossip::Counters>] = &[
    counter("gossip_updates_sent", "Updates sent.", |c| {
        float(c.updates_sent)
    }),
    counter(
        "gossip_update_bytes_sent",
        "Bytes of them on the network.",
        |c| float(c.update_bytes_sent),
    ),
    counter(
        "gossip_membership_sent",
        "Membership datagrams sent.",
        |c| float(c.membership_sent),
    ),
    counter(
        "gossip_membership_bytes_sent",
        "Bytes of them on the network.",
        |c| float(c.membership_bytes_sent),
    ),
    counter("gossip_updates_received", "Updates that counted.", |c| {
        float(c.updates_received)
    }),
    counter(
        "gossip_membership_received",
        "Membership datagrams received.",
        |c| float(c.membership_received),
    ),
    counter(
        "gossip_lost",
        "Lost updates, for which later ones made up.",
        |c| float(c.lost),
    ),
    counter(
        "gossip_overtaken",
        "Updates that came after a later one.",
        |c| float(c.overtaken),
    ),
    counter("gossip_forged", "Datagrams with a wrong tag.", |c| {
        float(c.forged)
    }),
    counter("gossip_replayed", "Datagrams received before.", |c| {
        float(c.replayed)
    }),
    counter(
        "gossip_malformed",
        "Datagrams of another length or kind.",
        |c| float(c.malformed),
    ),
    counter("gossip_unknown_peer", "Datagrams of strangers.", |c| {
        float(c.unknown_peer)
    }),
    counter(
        "gossip_unknown_limit",
        "Updates about limits not known here.",
        |c| float(c.unknown_limit),
    ),
    counter(
        "gossip_refused",
        "Datagrams with impossible contents.",
        |c| float(c.refused),
    ),
    counter("gossip_overflowed", "Datagrams that found no room.", |c| {
        float(c.overflowed)
    }),
];

/// Of the process as a whole.
const TOTALS: &[Series<Snapshot>] = &[
    counter("returned_packets", "Packets from sinks, which pass.", |s| {
        float(s.counters.returned)
    }),
    counter("returned_bytes", "Bytes of packets from sinks.", |s| {
        float(s.counters.returned_bytes)
    }),
    counter(
        "unclassed_packets",
        "Packets that belong to no class; they pass.",
        |s| float(s.counters.unclassed),
    ),
    counter(
        "delivered_packets",
        "Packets that emulation held back and delivered.",
        |s| float(s.counters.delivered),
    ),
    counter(
        "refused_packets",
        "Packets that a device did not take.",
        |s| float(s.devices.refused),
    ),
    counter(
        "moved_packets",
        "Packets read from devices and written to them.",
        |s| float(s.devices.moved),
    ),
    counter("device_calls", "System calls that moved packets.", |s| {
        float(s.devices.calls)
    }),
    counter(
        "queue_overruns",
        "Times that NFQUEUE dropped packets that were not read in time.",
        |s| float(s.queues.overruns),
    ),
    counter(
        "queue_refused",
        "Verdicts that NFQUEUE did not take.",
        |s| float(s.queues.refused),
    ),
    counter("gone_devices", "Pairs of devices that are gone.", |s| {
        float(s.devices.gone)
    }),
    counter(
        "late_seconds",
        "Sum of the lateness of emulated deliveries.",
        |s| Some(s.counters.late_ns as f64 / 1e9),
    ),
    gauge(
        "latest_seconds",
        "Greatest lateness of an emulated delivery.",
        |s| Some(s.counters.latest_ns as f64 / 1e9),
    ),
    gauge("held_packets", "Packets that emulation holds back.", |s| {
        Some(s.held as f64)
    }),
];

/// Packets that were lost, and datagrams, by what became of them.
const LOST: Series<u64> = counter(
    "lost_packets",
    "Packets lost for another reason than a limit.",
    |count| float(*count),
);
const UNSENT: Series<u64> = counter("gossip_unsent", "Datagrams of gossip not sent.", |count| {
    float(*count)
});

/// What the page tells, but for the port's own numbers.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) sites: Vec<String>,
    pub(super) classes: Vec<String>,
    pub(super) snapshot: Snapshot,
}

/// Renders all of it.
pub(super) fn render(page: Page, counts: Counts) -> String {
    let mut registry = Registry::with_prefix("srtm_limiter");
    registry.register_collector(Box::new(page));
    registry.register_collector(Box::new(counts));
    text_of(&registry)
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for series in STANDING {
            put(&mut encoder, series, self.standings())?;
        }
        for series in TOTALS {
            put(&mut encoder, series, [([], &self.snapshot)])?;
        }
        self.put_causes(&mut encoder)?;
        for series in GOSSIP {
            let sites = self.sites.iter().zip(&self.snapshot.gossip);
            let heard = sites
                .filter_map(|(site, gossip)| Some(([("site", site.as_str())], gossip.as_ref()?)));
            put(&mut encoder, series, heard)?;
        }
        Ok(())
    }
}

impl Page {
    fn standings(&self) -> impl Iterator<Item = ([(&str, &str); 2], &StandingNumbers)> {
        let places = self.sites.iter().flat_map(|site| {
            let classes = self.classes.iter();
            classes.map(move |class| [("site", site.as_str()), ("class", class.as_str())])
        });
        places.zip(&self.snapshot.standings)
    }

    fn put_causes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Snapshot {
            counters, unsent, ..
        } = &self.snapshot;
        let odd = Odd::ALL.map(|odd| (format!("odd_{}", odd.as_str()), counters.odd[odd.index()]));
        let odd = odd.iter().map(|(cause, count)| (cause.as_str(), count));
        let lost = [
            ("unplaced", &counters.unplaced),
            ("bottleneck", &counters.lost_at_bottlenecks),
            ("link", &counters.lost_at_links),
            ("hold", &counters.lost_in_hold),
        ];
        put(encoder, &LOST, odd.chain(lost).map(by_cause))?;
        let unsent = [
            ("emulated", &unsent.emulated),
            ("blocked", &unsent.blocked),
            ("unreachable", &unsent.unreachable),
            ("failed", &unsent.failed),
        ];
        put(encoder, &UNSENT, unsent.map(by_cause))
    }
}

fn by_cause<'a>((cause, count): (&'a str, &'a u64)) -> ([(&'a str, &'a str); 1], &'a u64) {
    ([("cause", cause)], count)
}

#[cfg(test)]
mod tests;
