//! Flags of messages on disk, named as nsqd's where nsqd has them.

use std::path::Path;

use broker::{BACKLOG_FOLDER, BacklogConfig};
use clap::Args;

use crate::byte_size::ByteSize;
use crate::duration::GoDuration;

/// How a broker with a data folder keeps messages there.
#[derive(Args, Clone, Debug)]
pub(crate) struct DiskFlags {
    /// Most bytes of all messages on disk. Beyond that publishers to full queues wait. With 0 no
    /// message goes to disk, and a stop loses those that are queued [default: as much as the disk has].
    #[arg(long, value_name = "SIZE")]
    disk_budget: Option<ByteSize>,
    /// Size of a file with messages at which a new one is begun.
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize(defaults().file_bytes_max))]
    max_bytes_per_file: ByteSize,
    /// How many messages are written to disk before they are synced. A kill loses none of those that
    /// are written; a power cut may lose what is not synced.
    #[arg(long, value_name = "N", default_value_t = defaults().sync_every, value_parser = at_least_one)]
    sync_every: usize,
    /// Longest time before written messages are synced.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().sync_timeout))]
    sync_timeout: GoDuration,
}

impl DiskFlags {
    /// What these flags describe of a broker with such a data folder; nothing without one.
    pub(crate) fn config(&self, data_path: Option<&Path>) -> Option<BacklogConfig> {
        let budget = self.disk_budget.map_or(u64::MAX, |size| size.0);
        let data_path = data_path.filter(|_| budget > 0)?;
        Some(BacklogConfig {
            bytes_max: budget,
            file_bytes_max: self.max_bytes_per_file.0,
            sync_every: self.sync_every,
            sync_timeout: self.sync_timeout.0,
            ..BacklogConfig::within(data_path.join(BACKLOG_FOLDER))
        })
    }
}

fn defaults() -> BacklogConfig {
    BacklogConfig::within(std::path::PathBuf::new())
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(String::from("use a whole number, 1 or more")),
    }
}
