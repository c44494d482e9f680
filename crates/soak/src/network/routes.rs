//! Hosts, and the routes between them.

use super::Network;
use crate::event::{Actor, End, Event};

/// A machine.
pub type Host = usize;

/// Publishers, consumers and the operator are on hosts of their own, behind those of brokers.
const CLIENT_HOSTS: Host = 100;

impl Actor {
    /// Where it runs.
    #[must_use]
    pub fn host(self) -> Host {
        match self {
            Actor::Controller => 0,
            Actor::Broker(place) => 1 + place,
            Actor::Publisher(number) => CLIENT_HOSTS + number % 2,
            Actor::Consumer(number) => CLIENT_HOSTS + 2 + number % 2,
            Actor::Operator => CLIENT_HOSTS + 4,
        }
    }
}

/// All hosts of clients.
pub const CLIENTS: [Host; 5] = [
    CLIENT_HOSTS,
    CLIENT_HOSTS + 1,
    CLIENT_HOSTS + 2,
    CLIENT_HOSTS + 3,
    CLIENT_HOSTS + 4,
];

/// Those of consumers.
pub const CONSUMERS: [Host; 2] = [CLIENT_HOSTS + 2, CLIENT_HOSTS + 3];

impl Network {
    /// Cuts the way from one host to another.
    pub fn cut(&mut self, from: Host, to: Host) {
        if from != to {
            self.cut.insert((from, to));
        }
    }

    /// Mends it: what has waited goes on, in its order.
    pub fn mend(&mut self, from: Host, to: Host) {
        if !self.cut.remove(&(from, to)) {
            return;
        }
        let mut again = Vec::new();
        for (&id, stream) in &mut self.streams {
            for end in [End::Dialler, End::Listener] {
                let is_meant =
                    stream.actor(end.other()).host() == from && stream.actor(end).host() == to;
                if is_meant {
                    let waiting = stream.lane(end).unstall();
                    again.extend(std::iter::repeat_n((id, end), waiting));
                }
            }
        }
        for (id, end) in again {
            let way = self.way();
            self.after(way, Event::Arrives(id, end));
        }
    }

    /// Mends all.
    pub fn mend_all(&mut self) {
        for (from, to) in self.cut.clone() {
            self.mend(from, to);
        }
    }

    /// Whether packets pass.
    #[must_use]
    pub fn is_open(&self, from: Host, to: Host) -> bool {
        !self.cut.contains(&(from, to)) && !self.dark.contains(&from) && !self.dark.contains(&to)
    }

    /// A host loses its power, or has it again.
    pub fn set_dark(&mut self, host: Host, is_dark: bool) {
        match is_dark {
            true => self.dark.insert(host),
            false => self.dark.remove(&host),
        };
    }

    /// Whether a host is without power.
    #[must_use]
    pub fn is_dark(&self, host: Host) -> bool {
        self.dark.contains(&host)
    }
}
