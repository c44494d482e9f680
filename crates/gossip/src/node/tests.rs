//! Nodes in virtual time, on a network that loses, delays, doubles, cuts, and is lied on.

mod attacks;
mod cluster;
mod cuts;
mod world;
