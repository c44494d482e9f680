//! Counts of packets dropped or passed for other reasons than a limit.

use crate::packet::Odd;

/// Counts of packets that no limit decided about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that could not be read and were dropped, by [`Odd::index`].
    pub odd: [u64; Odd::ALL.len()],
    /// Packets of a limited class to a sink that no site stands for; dropped.
    pub unplaced: u64,
    /// Packets from sources that belong to no class; they passed.
    pub unclassed: u64,
    /// Packets from sinks; they passed.
    pub returned: u64,
    /// The bytes of those packets.
    pub returned_bytes: u64,
    /// Packets lost in front of a bottleneck.
    pub lost_at_bottlenecks: u64,
    /// Packets lost in front of a link.
    pub lost_at_links: u64,
    /// Packets lost because too many were held back.
    pub lost_in_hold: u64,
    /// Packets that were held back and delivered.
    pub delivered: u64,
    /// The sum of their lateness in nanoseconds.
    pub late_ns: u64,
    /// The lateness of the latest of them in nanoseconds.
    pub latest_ns: u64,
}
