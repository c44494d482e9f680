//! The series of limits that brokers share by gossip.
//!
//! A broker without a list of brokers has none of gossip's series: zeros would mean that it is
//! alone among others.

use http::metrics::{Kind, Series, counter, float, gauge};

use crate::sharing::SharingFigures;

/// Of the whole broker.
pub(super) const GOSSIP: &[Series<SharingFigures>] = &[
    gauge(
        "srtm_gossip_brokers",
        "Brokers that share limits by gossip, this one included.",
        |g| float(u64::from(g.brokers)),
    ),
    gauge(
        "srtm_gossip_connected",
        "Brokers that share limits by gossip and are connected, this one included.",
        |g| float(u64::from(g.connected)),
    ),
    gauge(
        "srtm_gossip_usable",
        "0 while the list of brokers cannot be followed; the log says why.",
        |g| float(u64::from(g.problem.is_none())),
    ),
    gauge(
        "srtm_gossip_disagreements",
        "Limits that differ between brokers without a controller; GET /v1/sharers says which.",
        |g| float(g.disagreements.len() as u64),
    ),
    counter(
        "srtm_gossip_intervals",
        "Estimate intervals completed.",
        |g| float(g.intervals),
    ),
];

/// Datagrams by outcome; each with its count in the figures.
pub(super) const DATAGRAMS: Series<u64> = Series {
    name: "srtm_gossip_datagrams",
    help: "Datagrams of gossip and what they told, by what became of them.",
    kind: Kind::Counter,
    value: |count| float(*count),
};

/// Likewise.
pub(super) const BYTES: Series<u64> = Series {
    name: "srtm_gossip_sent_bytes",
    help: "Bytes sent for gossip, headers of IP and UDP included.",
    kind: Kind::Counter,
    value: |count| float(*count),
};

/// Of brokers that obey a controller.
pub(super) const LINK: Series<u64> = Series {
    name: "srtm_link_bytes",
    help: "Bytes over the link to the controller, without headers of TCP and IP.",
    kind: Kind::Counter,
    value: |count| float(*count),
};

/// Likewise.
pub(super) const HANDOVERS: Series<u64> = Series {
    name: "srtm_handover_messages",
    help: "Messages that a drained broker handed over to another.",
    kind: Kind::Counter,
    value: |count| float(*count),
};

/// Likewise.
pub(super) const GIVEN_UP: Series<bool> = Series {
    name: "srtm_controller_given_up",
    help: "1 while topics unknown to the broker flow without a word from the controller.",
    kind: Kind::Gauge,
    value: |is_given_up| float(u64::from(*is_given_up)),
};

/// The policy of each topic's limit, as a label.
pub(super) const POLICY: Series<u64> = Series {
    name: "srtm_share_policy",
    help: "1 for the policy by which brokers share a topic's limit by gossip.",
    kind: Kind::Gauge,
    value: |one| float(*one),
};
