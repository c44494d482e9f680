//! What keeps the segments of queues, named here once for all who use it.

use std::path::Path;

use disk::{DiskError, Folder, Opened, Shelf, ShelfConfig};

use super::BacklogConfig;

pub(super) use disk::Contents;

/// Segments of all queues.
pub(crate) type Segments = Shelf<Folder>;

/// Those in `folder`, with at most `bytes_max` of them. `seed` is what the salts of new files are drawn from; who publishes must not know it.
///
/// # Errors
/// [`DiskError`], where the folder cannot be used.
pub(crate) fn open(
    folder: &Path,
    config: &BacklogConfig,
    bytes_max: u64,
    seed: u64,
) -> Result<(Segments, Opened), DiskError> {
    let shelf_config = ShelfConfig {
        file_bytes_max: config.file_bytes_max,
        bytes_max,
    };
    Shelf::open(Folder::open(folder)?, shelf_config, seed)
}
