//! Tempo's endpoints over real sockets on the loopback interface: each test has a multicast group of its own.

mod delivery;
mod hostile;
mod limits;
mod membership;
mod shares;
mod stranger;
mod world;
