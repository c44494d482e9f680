//! The division of a topic's limit: the ledger, the brokers that carry the topic, and the ledger's
//! knowledge of their processes, links and rounds. The ledger is told of changes when the topic is
//! looked at next, not when they happen, because a broker may have a share of every topic.

use limit::{Ledger, Limit, Unit};

use super::persist::KeptShares;
use super::registry::Brokers;
use super::rounds::Rounds;
use super::{Broker, BrokerNumber};

/// Who may use how much of a topic's limit.
#[derive(Debug, Default)]
pub struct Shares {
    /// Their account; `None`: there is no limit, or brokers share it among themselves.
    pub ledger: Option<Ledger>,
    /// Brokers that carry the topic, with what the shares are reckoned from.
    pub(super) carriers: Vec<Carrier>,
    /// Brokers that the ledger knows.
    seats: Vec<Seat>,
    /// How much of the rounds the ledger was told, by [`Rounds::version`].
    rounds_known: u64,
    /// The most that each broker may be using, as it was kept last.
    pub(super) kept: KeptShares,
}

/// A broker that carries a topic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Carrier {
    pub(super) broker: BrokerNumber,
    /// Messages per second placed there, or that arrive there from clients that cannot be moved.
    pub(super) rate: f64,
}

/// A broker that a ledger knows, as the ledger was told of it last.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seat {
    broker: BrokerNumber,
    /// [`Broker::process`].
    process: u64,
    /// The link that its reports came through; 0: none yet.
    link: u64,
}

impl Shares {
    /// Whether the ledger goes on under `limit` where it was declared as `former`, which holds as long as the unit does.
    pub(super) fn go_on_under(&self, limit: Option<Limit>, former: Option<Limit>) -> bool {
        let unit = |limit: Option<Limit>| -> Option<Unit> { Some(granted(limit)?.unit) };
        self.ledger.is_some() && unit(former) == unit(limit)
    }

    /// The limit is another one from now on; a ledger that does not go on begins again without members.
    pub(super) fn set_limit(&mut self, limit: Option<Limit>, goes_on: bool, anew: Option<Ledger>) {
        match (&mut self.ledger, limit) {
            (Some(ledger), Some(limit)) if goes_on => ledger.set_limit(limit),
            _ => {
                *self = Shares {
                    ledger: anew,
                    ..Shares::default()
                };
            }
        }
    }

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
    pub(super) fn learn(&mut self, brokers: &Brokers, rounds: &Rounds) {
        let Some(ledger) = &mut self.ledger else {
            return;
        };
        let carriers = &mut self.carriers;
        self.seats.retain_mut(|seat| {
            let broker = &brokers[seat.broker];
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

/// What of a limit is granted: what brokers agree on among themselves is not.
pub(super) fn granted(limit: Option<Limit>) -> Option<Limit> {
    limit.filter(|limit| !limit.is_gossiped())
}
