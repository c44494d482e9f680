//! The state machine against virtual brokers, in virtual time.

mod cluster;
mod faults;
mod fitting;
mod input;
mod placing;
