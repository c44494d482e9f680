//! What a ledger is told of its brokers' processes, links and rounds: when the topic is looked at next, not when it happens,
//! for a broker may have a share of every topic that there is.

use super::rounds::Rounds;
use super::{Broker, BrokerNumber, Topic};

/// A broker that a ledger knows, as the ledger was told of it last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seat {
    broker: BrokerNumber,
    /// [`Broker::process`].
    process: u64,
    /// The link that its reports came through; 0: none yet.
    link: u64,
}

impl Topic {
    /// A broker is known to the ledger from now on.
    pub(super) fn take_seat(&mut self, number: BrokerNumber, broker: &Broker) {
        if self.seats.iter().all(|seat| seat.broker != number) {
            self.seats.push(Seat {
                broker: number,
                process: broker.process,
                link: broker.link.unwrap_or(0),
            });
        }
    }

    /// Tells the ledger what has become of its brokers since it was told last. To be called before it is asked or told anything else.
    pub(super) fn learn(&mut self, brokers: &[Broker], rounds: &Rounds) {
        let Some(ledger) = &mut self.shares else {
            return;
        };
        let carriers = &mut self.carriers;
        self.seats.retain_mut(|seat| {
            let broker = &brokers[seat.broker as usize];
            if broker.process != seat.process {
                ledger.dead(seat.broker);
                carriers.retain(|carrier| carrier.broker != seat.broker);
                return false;
            }
            if let Some(link) = broker.link.filter(|&link| link != seat.link) {
                ledger.reconnected(seat.broker, broker.linked_at);
                seat.link = link;
            }
            true
        });
        if self.rounds_known != rounds.version() {
            self.rounds_known = rounds.version();
            rounds.tell(ledger);
        }
    }
}
