//! Effects that the control plane wants carried out.

use link::{Door, Present, ToBroker};

use super::{BrokerNumber, FitJob};

/// An order to the shells.
#[derive(Debug)]
pub enum Effect {
    /// Say this to a broker; lost if its link is gone.
    Send(BrokerNumber, Box<ToBroker>),
    /// Close this link.
    CloseLink(u64),
    /// Find out who listens at an address of a broker's; [`Core::probed`](super::Core::probed) takes the answer.
    Probe(Probe),
    /// Find a fit away from the state machine's thread; [`Core::fitted`](super::Core::fitted) takes the answer.
    Fit(Box<FitJob>),
    /// Start another broker, if somebody can: this many messages per second have no room.
    Spawn {
        /// For which topic.
        topic: String,
        /// Messages per second.
        missing: f64,
    },
    /// Somebody waited for a topic's contract to be in force everywhere: it is, or these brokers did not confirm.
    ContractSettled {
        /// Number of the contract.
        ticket: u64,
        /// Brokers that have not confirmed.
        missing: Vec<String>,
    },
    /// A list of publishers has been taken in whole ([`Core::declare`](super::Core::declare)), or its topic is gone.
    Declared(u64),
    /// A broker has the channels that publishers waited for: of this topic, or of all that it has.
    Prepared {
        /// Topic; `None`: any.
        topic: Option<String>,
    },
    /// Something that users may want to know.
    Tell(Event),
}

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// Kind, as in [`crate::view::EventView::kind`].
    pub kind: &'static str,
    /// Topic, where it is about one.
    pub topic: Option<String>,
    /// Broker, where it is about one.
    pub broker: Option<String>,
    /// In words.
    pub text: String,
}

/// A question to a broker's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Whose address.
    pub broker: BrokerNumber,
    /// In which life of its.
    pub life: u64,
    /// Which of them.
    pub door: Door,
    /// `host:port`.
    pub address: String,
    /// It has answered where clients connect: it is asked before those that were never seen.
    pub is_known: bool,
}

/// The result of a probe of a broker's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeAnswer {
    /// The host answers that nobody listens: the process is gone.
    Refused,
    /// A broker proves who it is.
    Present(Present),
    /// Somebody listens and proves nothing.
    Open,
    /// No answer: nothing is known.
    Silence,
}
