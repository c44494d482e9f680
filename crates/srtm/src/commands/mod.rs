//! The subcommands, one file each.

pub(crate) mod bench;
pub(crate) mod broker;
mod demo;
pub(crate) mod nsqd;
pub(crate) mod publish;
pub(crate) mod subscribe;
pub(crate) mod topic;
pub(crate) mod up;
