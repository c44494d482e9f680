//! Counts of what a node sent, received and left out.

use super::Transmit;
use crate::exchange::Heard;

/// Totals since the node began. What was left out changed nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Updates given out to be sent.
    pub updates_sent: u64,
    /// Bytes of them, headers of IP and UDP included.
    pub update_bytes_sent: u64,
    /// Membership datagrams given out to be sent.
    pub membership_sent: u64,
    /// Bytes of them, headers of IP and UDP included.
    pub membership_bytes_sent: u64,
    /// Datagrams that were not queued because the owner did not send.
    pub overflowed: u64,
    /// Updates that counted.
    pub updates_received: u64,
    /// Membership datagrams that were taken in.
    pub membership_received: u64,
    /// Updates that never came, or too late, as far as later ones showed and made up for it.
    pub lost: u64,
    /// Updates that came after a later one, or of an epoch that had ended.
    pub overtaken: u64,
    /// Datagrams whose tag was wrong. For some seconds after a restart of either end that may be honest ones.
    pub forged: u64,
    /// Datagrams that had come already, too long ago to tell, or of an incarnation that has ended.
    pub replayed: u64,
    /// Datagrams of another length or kind.
    pub malformed: u64,
    /// Datagrams of senders that are no peers.
    pub unknown_peer: u64,
    /// Updates about limits that were not added here.
    pub unknown_limit: u64,
    /// Datagrams with a right tag whose contents cannot be, and updates of peers that are not connected.
    pub refused: u64,
}

impl Counters {
    pub(super) fn sent(&mut self, transmit: &Transmit) {
        let bytes = transmit.packet_bytes();
        if transmit.is_update() {
            self.updates_sent += 1;
            self.update_bytes_sent += bytes;
        } else {
            self.membership_sent += 1;
            self.membership_bytes_sent += bytes;
        }
    }

    pub(super) fn heard(&mut self, heard: Heard) {
        match heard {
            Heard::Counted { lost } => {
                self.updates_received += 1;
                self.lost += u64::from(lost);
            }
            Heard::Overtaken => self.overtaken += 1,
            Heard::Refused => self.refused += 1,
        }
    }
}
