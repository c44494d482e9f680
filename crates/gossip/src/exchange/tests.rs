//! One exchange by its rules, and many of them on a network that loses, delays, doubles and cuts.

mod network;
mod rules;
mod spreading;
