//! The speaker: what is the same in all announcements of an instance, and their numbers.

use core::net::SocketAddr;

use wire::announce::{Announcement, Entry, InstanceId, MAX_EXPIRY_MS};

/// An instance that writes announcements and numbers them.
#[derive(Clone, Debug)]
pub struct Speaker {
    instance: InstanceId,
    data: SocketAddr,
    udp: bool,
    is_proxy: bool,
    expiry_ms: u32,
    /// The number of the next announcement.
    sequence: u32,
}

impl Speaker {
    /// The endpoint `instance`, which takes data at `data` (see [`Announcement::data`]) by TCP.
    #[must_use]
    pub fn new(instance: InstanceId, data: SocketAddr) -> Speaker {
        Speaker {
            instance,
            data,
            udp: false,
            is_proxy: false,
            expiry_ms: MAX_EXPIRY_MS,
            sequence: 1,
        }
    }

    /// Says that the endpoint takes data by UDP as well.
    #[must_use]
    pub fn with_udp(self, udp: bool) -> Speaker {
        Speaker { udp, ..self }
    }

    /// Says that the endpoint is a broker and speaks for others.
    #[must_use]
    pub fn as_proxy(self) -> Speaker {
        Speaker {
            is_proxy: true,
            ..self
        }
    }

    /// The instance.
    #[must_use]
    pub fn instance(&self) -> InstanceId {
        self.instance
    }

    /// The address at which the endpoint takes data.
    #[must_use]
    pub fn data(&self) -> SocketAddr {
        self.data
    }

    pub(crate) fn with_expiry_ms(self, expiry_ms: u32) -> Speaker {
        Speaker { expiry_ms, ..self }
    }

    /// Announces that the endpoint publishes and subscribes `entries`.
    pub(crate) fn say(&mut self, entries: Vec<Entry>) -> Vec<Announcement> {
        self.speak(entries, false)
    }

    /// Announces that the endpoint gives up `entries`, which must not be empty.
    pub(crate) fn withdraw(&mut self, entries: Vec<Entry>) -> Vec<Announcement> {
        debug_assert!(!entries.is_empty(), "without entries it would be gone");
        self.speak(entries, true)
    }

    /// Announces that the endpoint leaves.
    pub(crate) fn leave(&mut self) -> Vec<Announcement> {
        self.speak(Vec::new(), true)
    }

    fn speak(&mut self, entries: Vec<Entry>, is_leaving: bool) -> Vec<Announcement> {
        let whole = Announcement {
            instance: self.instance,
            sequence: self.sequence,
            is_proxy: self.is_proxy,
            is_leaving,
            expiry_ms: self.expiry_ms,
            data: self.data,
            udp: self.udp,
            entries,
        };
        let parts = whole.split();
        if let Some(last) = parts.last() {
            self.sequence = last.sequence.wrapping_add(1);
        }
        parts
    }
}
