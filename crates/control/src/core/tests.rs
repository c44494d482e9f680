//! The state machine against virtual brokers, in virtual time.

mod channel_laws;
mod channels;
mod cluster;
mod cpu_share;
mod faults;
mod fitting;
mod handover;
mod held;
mod input;
mod names;
mod neighbours;
mod on_full;
mod overload;
mod placing;
mod presence;
mod registry;
mod rest;
mod rounds;
mod scale;
mod sharers;
mod world;
