//! What keeps the segments of queues, named here once for all who use it.

use disk::{DiskError, Opened, Shelf, ShelfConfig, Volume};

use super::BacklogConfig;

pub(super) use disk::Contents;

/// Segments of all queues.
pub(crate) type Segments<V> = Shelf<V>;

/// Those on a volume, with at most `bytes_max` of them. `seed` is what the salts of new files are drawn from; who publishes must not know it.
///
/// # Errors
/// [`DiskError`], where the volume cannot be used.
pub(crate) fn open<V: Volume>(
    volume: V,
    config: &BacklogConfig,
    bytes_max: u64,
    seed: u64,
) -> Result<(Segments<V>, Opened), DiskError> {
    let shelf_config = ShelfConfig {
        file_bytes_max: config.file_bytes_max,
        bytes_max,
    };
    Shelf::open(volume, shelf_config, seed)
}
