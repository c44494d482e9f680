//! Series of what a broker keeps on disk: its catalog, and messages.

use http::metrics::{Series, counter, float, gauge};

use crate::backlog::BacklogState;
use crate::catalog_file::CatalogState;

/// Of a broker with a data folder.
pub(super) const CATALOG: &[Series<CatalogState>] = &[
    gauge(
        "srtm_catalog_writable",
        "1 while topics, channels and contracts can be kept.",
        |catalog| float(u64::from(catalog.failure.is_none())),
    ),
    counter(
        "srtm_catalog_failed_writes",
        "Writes of the catalog that failed.",
        |catalog| float(catalog.failures),
    ),
];

/// Of a broker whose queues may have messages on disk.
pub(super) const DISK: &[Series<BacklogState>] = &[
    gauge(
        "srtm_disk_writable",
        "1 while messages can be kept on disk.",
        |disk| float(u64::from(disk.failure.is_none())),
    ),
    counter(
        "srtm_disk_failures",
        "Writes, reads and syncs of messages on disk that have failed.",
        |disk| float(disk.failures),
    ),
    gauge(
        "srtm_disk_used_bytes",
        "Bytes of all files with messages.",
        |disk| float(disk.bytes),
    ),
    gauge(
        "srtm_disk_budget_bytes",
        "Bytes that files with messages may have; publishers wait beyond.",
        |disk| float(disk.bytes_max),
    ),
    gauge(
        "srtm_disk_full",
        "1 while the disk budget is used up and publishers wait for it.",
        |disk| float(u64::from(disk.is_full)),
    ),
    gauge("srtm_disk_files", "Files with messages.", |disk| {
        float(disk.files)
    }),
    counter(
        "srtm_disk_damages",
        "Places in files with messages that were found damaged.",
        |disk| float(disk.damages),
    ),
    gauge(
        "srtm_log_bytes",
        "Bytes of the logs of durable topics.",
        |disk| float(disk.logs.bytes),
    ),
    counter(
        "srtm_log_appended",
        "Messages that were written to logs.",
        |disk| float(disk.logs.appended),
    ),
    counter(
        "srtm_log_synced",
        "Messages of topics with durability fsync that the disk has confirmed.",
        |disk| float(disk.logs.synced),
    ),
    counter(
        "srtm_log_syncs",
        "Syncs of logs, each for all messages of a topic that waited for it.",
        |disk| float(disk.logs.syncs),
    ),
    gauge(
        "srtm_log_waiting",
        "Messages that the disk does not take: their publishers wait.",
        |disk| float(disk.logs.waiting),
    ),
    counter(
        "srtm_log_recovered",
        "Messages of queues that were found in logs when the broker began.",
        |disk| float(disk.logs.recovered),
    ),
];
