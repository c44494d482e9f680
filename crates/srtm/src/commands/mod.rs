//! The subcommands, one file each.

pub(crate) mod bench;
pub(crate) mod broker;
pub(crate) mod calibrate;
pub(crate) mod controller;
mod demo;
pub(crate) mod nsqd;
pub(crate) mod nsqlookupd;
pub(crate) mod publish;
pub(crate) mod publisher;
pub(crate) mod subscribe;
pub(crate) mod topic;
pub(crate) mod up;
pub(crate) mod whereis;
