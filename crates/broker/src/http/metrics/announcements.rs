//! The series of a broker's part in Tempo's announcements.
//!
//! A broker without an announce port has none of them: zeros would mean that it listens and hears
//! nobody.

use http::metrics::{Series, counter, float, gauge};

use crate::announce::AnnounceStats;
use crate::stats::ReactorStats;

/// A cause and where its count is found.
type Cause = (&'static str, fn(&AnnounceStats) -> u64);

/// A family with one series per cause.
pub(super) struct ByCause {
    pub(super) series: Series<u64>,
    /// The label's name.
    pub(super) label: &'static str,
    pub(super) causes: &'static [Cause],
}

/// Of the whole broker.
pub(super) const ANNOUNCE: &[Series<AnnounceStats>] = &[
    gauge(
        "srtm_announce_instances",
        "Publishers, subscribers and other brokers known.",
        |a| float(a.instances),
    ),
    gauge(
        "srtm_announce_deliveries",
        "Subscribers that get messages, or will get them once they are connected.",
        |a| float(a.deliveries),
    ),
    counter(
        "srtm_announce_failed_dials",
        "Connections to subscribers that could not be made.",
        |a| float(a.dials_failed),
    ),
    counter(
        "srtm_announce_refused_entries",
        "Topics of accepted announcements that found no room.",
        |a| float(a.datagrams.entries_refused),
    ),
    counter(
        "srtm_identifier_collisions",
        "Times that two topics had the same identifier.",
        |a| float(a.names.collisions),
    ),
];

/// Of the whole broker, by cause.
pub(super) const BY_CAUSE: &[ByCause] = &[
    ByCause {
        series: counter(
            "srtm_announcements",
            "Announcements received, by what became of them.",
            |count| float(*count),
        ),
        label: "outcome",
        causes: &[
            ("accepted", |a| a.datagrams.accepted),
            ("replayed", |a| a.datagrams.replayed),
            ("forged", |a| a.datagrams.forged),
            ("truncated", |a| a.datagrams.truncated),
            ("malformed", |a| a.datagrams.malformed),
            ("refused_full", |a| a.datagrams.refused_full),
            ("own", |a| a.datagrams.own),
        ],
    },
    ByCause {
        series: counter(
            "srtm_announce_departures",
            "Publishers, subscribers and other brokers that are no longer known.",
            |count| float(*count),
        ),
        label: "cause",
        causes: &[
            ("left", |a| a.datagrams.left),
            ("expired", |a| a.datagrams.expired),
            ("replaced", |a| a.datagrams.replaced),
        ],
    },
    ByCause {
        series: counter(
            "srtm_identifiers_refused",
            "Identifiers that were heard and not adopted, or that a name could not get.",
            |count| float(*count),
        ),
        label: "cause",
        causes: &[
            ("foreign", |a| a.names.foreign),
            ("full", |a| a.names.full),
            ("exhausted", |a| a.names.exhausted),
        ],
    },
];

/// Of each reactor: connections of Tempo's publishers.
pub(super) const TEMPO: &[Series<ReactorStats>] = &[
    counter(
        "srtm_tempo_unknown_identifiers",
        "Tempo messages with an identifier that stands for no topic.",
        |r| float(r.tempo_unknown_ids),
    ),
    counter(
        "srtm_tempo_refused_hellos",
        "Connections that began with Tempo's magic but sent no valid hello.",
        |r| float(r.tempo_hellos_refused),
    ),
];
