//! The subcommands, one file each.

pub(crate) mod access;
pub(crate) mod bench;
pub(crate) mod broker;
pub(crate) mod calibrate;
pub(crate) mod config;
pub(crate) mod controller;
mod demo;
pub(crate) mod disk;
pub(crate) mod experiment;
pub(crate) mod keys;
pub(crate) mod limiter;
pub(crate) mod nsqd;
pub(crate) mod nsqlookupd;
mod peer;
pub(crate) mod plan;
pub(crate) mod publish;
pub(crate) mod publisher;
mod scenario;
pub(crate) mod sim;
pub(crate) mod subscribe;
pub(crate) mod topic;
pub(crate) mod trace;
pub(crate) mod up;
pub(crate) mod whereis;
