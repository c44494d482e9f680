//! `GET /metrics`: the numbers of a snapshot in Prometheus's text format.
//!
//! A series per site and class: their number is bounded by the configuration.

use std::fmt::{Display, Write};

use http::Counts;

use super::{Snapshot, StandingNumbers};
use crate::packet::Odd;

/// A family of series and where its numbers are found.
struct Family<T> {
    name: &'static str,
    help: &'static str,
    kind: &'static str,
    value: fn(&T) -> Option<f64>,
}

const STANDING: &[Family<StandingNumbers>] = &[
    Family {
        name: "srtm_limiter_forwarded_packets_total",
        help: "Packets that were forwarded.",
        kind: "counter",
        value: |s| Some(s.passed.forwarded_packets as f64),
    },
    Family {
        name: "srtm_limiter_forwarded_bytes_total",
        help: "Bytes of them, IP headers included.",
        kind: "counter",
        value: |s| Some(s.passed.forwarded_bytes as f64),
    },
    Family {
        name: "srtm_limiter_dropped_packets_total",
        help: "Packets that exceeded the limit.",
        kind: "counter",
        value: |s| Some(s.passed.dropped_packets as f64),
    },
    Family {
        name: "srtm_limiter_dropped_bytes_total",
        help: "Bytes of them, IP headers included.",
        kind: "counter",
        value: |s| Some(s.passed.dropped_bytes as f64),
    },
    Family {
        name: "srtm_limiter_local_limit_bytes_per_second",
        help: "What the site may let through at present.",
        kind: "gauge",
        value: |s| s.local_limit,
    },
    Family {
        name: "srtm_limiter_demand",
        help: "What the site divides the limit by: bytes per second, or for fps its weight in flows.",
        kind: "gauge",
        value: |s| s.local_limit.map(|_| s.demand),
    },
    Family {
        name: "srtm_limiter_passing_bytes_per_second",
        help: "What the site let through of late.",
        kind: "gauge",
        value: |s| s.local_limit.map(|_| s.passing),
    },
    Family {
        name: "srtm_limiter_connected_sites",
        help: "Sites that it hears of, itself included.",
        kind: "gauge",
        value: |s| s.local_limit.map(|_| s.connected.into()),
    },
];

/// Of each site's gossip.
const GOSSIP: &[Total<gossip::Counters>] = &[
    total("updates_sent", "Updates sent.", |c| c.updates_sent),
    total("update_bytes_sent", "Bytes of them on the network.", |c| {
        c.update_bytes_sent
    }),
    total("membership_sent", "Membership datagrams sent.", |c| {
        c.membership_sent
    }),
    total(
        "membership_bytes_sent",
        "Bytes of them on the network.",
        |c| c.membership_bytes_sent,
    ),
    total("updates_received", "Updates that counted.", |c| {
        c.updates_received
    }),
    total(
        "membership_received",
        "Membership datagrams taken in.",
        |c| c.membership_received,
    ),
    total("lost", "Updates that later ones made up for.", |c| c.lost),
    total("overtaken", "Updates that came after a later one.", |c| {
        c.overtaken
    }),
    total("forged", "Datagrams with a wrong tag.", |c| c.forged),
    total("replayed", "Datagrams that had come already.", |c| {
        c.replayed
    }),
    total("malformed", "Datagrams of another length or kind.", |c| {
        c.malformed
    }),
    total("unknown_peer", "Datagrams of strangers.", |c| {
        c.unknown_peer
    }),
    total(
        "unknown_limit",
        "Updates about limits not known here.",
        |c| c.unknown_limit,
    ),
    total("refused", "Datagrams whose contents cannot be.", |c| {
        c.refused
    }),
    total("overflowed", "Datagrams that found no room.", |c| {
        c.overflowed
    }),
];

/// What the process counts as a whole.
const TOTALS: &[Total<Snapshot>] = &[
    total("returned_packets", "Packets from sinks, which pass.", |s| {
        s.counters.returned
    }),
    total("returned_bytes", "Bytes of them.", |s| {
        s.counters.returned_bytes
    }),
    total(
        "unclassed_packets",
        "Packets that belong to no class; they pass.",
        |s| s.counters.unclassed,
    ),
    total(
        "delivered_packets",
        "Packets that emulation held back and delivered.",
        |s| s.counters.delivered,
    ),
    total(
        "refused_packets",
        "Packets that a device did not take.",
        |s| s.devices.refused,
    ),
    total(
        "moved_packets",
        "Packets that came from devices, and that they took.",
        |s| s.devices.moved,
    ),
    total("device_calls", "System calls that this took.", |s| {
        s.devices.calls
    }),
    total(
        "queue_overruns",
        "Times that NFQUEUE dropped packets that were not read in time.",
        |s| s.queues.overruns,
    ),
    total("queue_refused", "Answers that NFQUEUE did not take.", |s| {
        s.queues.refused
    }),
    total("gone_devices", "Pairs of devices that are no more.", |s| {
        s.devices.gone
    }),
];

/// A counter, named by what it counts, and where its number is found.
struct Total<T> {
    name: &'static str,
    help: &'static str,
    value: fn(&T) -> u64,
}

/// Renders all of `snapshot`.
pub(super) fn render(
    sites: &[String],
    classes: &[String],
    snapshot: &Snapshot,
    counts: &Counts,
) -> String {
    let mut text = Text::default();
    for family in STANDING {
        text.head(family.name, family.help, family.kind);
        for (number, standing) in snapshot.standings.iter().enumerate() {
            let labels = [
                ("site", sites[number / classes.len()].as_str()),
                ("class", classes[number % classes.len()].as_str()),
            ];
            if let Some(value) = (family.value)(standing) {
                text.series(family.name, &labels, value);
            }
        }
    }
    whole(&mut text, snapshot);
    by_cause(&mut text, snapshot);
    for family in GOSSIP {
        let name = format!("srtm_limiter_gossip_{}_total", family.name);
        text.head(&name, family.help, "counter");
        for (site, counters) in sites.iter().zip(&snapshot.gossip) {
            if let Some(counters) = counters {
                text.series(&name, &[("site", site)], (family.value)(counters));
            }
        }
    }
    for figure in counts.figures() {
        let (ending, kind) = match figure.is_counter {
            true => ("_total", "counter"),
            false => ("", "gauge"),
        };
        let name = format!("srtm_limiter_{}{ending}", figure.name);
        text.head(&name, figure.help, kind);
        text.series(&name, &[], figure.value);
    }
    text.0
}

/// What the process counts as a whole.
fn whole(text: &mut Text, snapshot: &Snapshot) {
    let counters = &snapshot.counters;
    for total in TOTALS {
        let name = format!("srtm_limiter_{}_total", total.name);
        text.head(&name, total.help, "counter");
        text.series(&name, &[], (total.value)(snapshot));
    }
    let late_s = "srtm_limiter_late_seconds_total";
    text.head(
        late_s,
        "Time by which emulated deliveries were late, added up.",
        "counter",
    );
    text.series(late_s, &[], counters.late_ns as f64 / 1e9);
    let gauges = [
        (
            "latest_seconds",
            "The most that an emulated delivery was late.",
            counters.latest_ns as f64 / 1e9,
        ),
        (
            "held_packets",
            "Packets that emulation holds back.",
            snapshot.held as f64,
        ),
    ];
    for (name, help, value) in gauges {
        let name = format!("srtm_limiter_{name}");
        text.head(&name, help, "gauge");
        text.series(&name, &[], value);
    }
}

/// Packets that were lost for another reason than a limit.
fn by_cause(text: &mut Text, snapshot: &Snapshot) {
    let counters = &snapshot.counters;
    let name = "srtm_limiter_lost_packets_total";
    text.head(
        name,
        "Packets that were lost for another reason than a limit.",
        "counter",
    );
    for odd in Odd::ALL {
        let cause = format!("odd_{}", odd.as_str());
        text.series(name, &[("cause", &cause)], counters.odd[odd.index()]);
    }
    for (cause, value) in [
        ("unplaced", counters.unplaced),
        ("bottleneck", counters.lost_at_bottlenecks),
        ("link", counters.lost_at_links),
        ("hold", counters.lost_in_hold),
    ] {
        text.series(name, &[("cause", cause)], value);
    }
    let name = "srtm_limiter_gossip_unsent_total";
    text.head(name, "Datagrams of gossip that were not sent.", "counter");
    let unsent = &snapshot.unsent;
    for (cause, value) in [
        ("emulated", unsent.emulated),
        ("blocked", unsent.blocked),
        ("unreachable", unsent.unreachable),
        ("failed", unsent.failed),
    ] {
        text.series(name, &[("cause", cause)], value);
    }
}

const fn total<T>(name: &'static str, help: &'static str, value: fn(&T) -> u64) -> Total<T> {
    Total { name, help, value }
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        // Writing into a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn series(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (number, (label, text)) in labels.iter().enumerate() {
            let open = if number == 0 { '{' } else { ',' };
            let text = text
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let _ = write!(self.0, "{open}{label}=\"{text}\"");
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{close} {value}");
    }
}

#[cfg(test)]
mod tests;
