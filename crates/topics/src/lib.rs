//! Topics, channels, consumers and messages: the broker's pure core.
//!
//! No sockets, no clock, no randomness, no threads: [`TopicTable`] is a state machine that the
//! reactor drives and that tests and the simulator can drive as well.

mod agenda;
mod arena;
mod awaited;
mod backlog;
mod bounds;
mod budget;
mod channel;
mod consume;
mod consumer;
mod consumer_order;
mod effects;
mod ending;
mod fullness;
mod handover;
mod histogram;
mod in_flight;
mod latency;
mod lease;
mod limiter;
mod log;
mod memory;
mod message_id;
mod names;
mod observed;
mod processing;
mod publish;
mod pump;
mod queue;
mod refusal;
mod remove;
mod report;
mod sampler;
mod save;
mod segment;
mod service;
mod settling;
mod sharing;
mod snapshot;
mod spill;
pub mod stats;
mod store;
mod table;
mod told;
mod topic;
mod trace;
mod traffic;
mod tree;
mod unjudged;
mod waiting;
mod waiting_publishers;
mod wakeups;
mod window;
mod witness;
mod words;

#[cfg(test)]
mod tests;

pub use arena::{Arena, Key, Slot};
pub use awaited::{KnownTopic, Teller};
pub use backlog::{BacklogBounds, Outside};
pub use bounds::Bounds;
pub use budget::{Account, Charge, MemoryBudget, Part};
pub use consumer::{ConsumerKey, Subscription};
pub use consumer_order::ConsumerOrder;
pub use effects::Effects;
pub use ending::Loss;
pub use fullness::{Full, FullNews, FullNote};
pub use handover::{Batch, Handed, NotTaken, QueueName, StrandedWalk};
pub use in_flight::FlightError;
pub use latency::{Landed, Probe};
pub use log::{
    FINISHED_WAITING_MAX, KnownLog, LOG_WAITING_BYTES, LOGS_WAITING_BYTES, LogAnswer, LogBatch,
    LogOrder, LogStep, LoggedStanding,
};
pub use message_id::MessageIds;
pub use names::{NameBudget, NameShare};
pub use publish::Published;
pub use pump::{Delivery, Outlet};
pub use refusal::Refusal;
pub use report::{ReportWalk, TopicNews};
pub use segment::{Head, Segment};
pub use sharing::{Group, IntervalEnd, Known, LimitNumber, identity, interval_of};
pub use snapshot::{Step, Walk};
pub use spill::{BacklogAnswer, BacklogOrder, BacklogOutcome, ORDERS_MAX, QueueKey, SpilledQueue};
pub use store::{Arrival, Stored};
pub use table::TopicTable;
pub use told::Told;
pub use topic::{Counts, Declared, Topic, TopicKey};
pub use trace::{Source, TRACE_ARRIVALS_MAX, TraceResult};
pub use waiting_publishers::WaitingPublisher;
pub use wakeups::Wakeups;
pub use window::{SAMPLES_MIN, WindowOrder, WindowResult};
