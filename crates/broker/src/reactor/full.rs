//! Log lines about full channels.

use topics::{Full, FullNews, FullNote};

/// Logs the news of a full channel.
pub(super) fn log_full(note: FullNote) {
    let FullNote {
        topic,
        channel,
        news,
    } = note;
    match news {
        FullNews::Begins {
            full: Full::Blocks,
            depth,
            ..
        } => tracing::warn!(
            "channel {channel} of topic {topic} is full with {depth} messages: publishers wait until it has room; \
             declare on_full drop_oldest if they should not"
        ),
        FullNews::Begins {
            full: Full::DropsOldest,
            depth,
            is_abandoned: true,
        } => tracing::warn!(
            "channel {channel} of topic {topic} is full with {depth} messages and has had no consumer for long: its oldest \
             messages are dropped; delete the channel, or declare on_full block if publishers should wait"
        ),
        FullNews::Begins {
            full: Full::DropsOldest,
            depth,
            ..
        } => tracing::warn!(
            "channel {channel} of topic {topic} is full with {depth} messages: its oldest messages are dropped, as declared"
        ),
        FullNews::Ends { lasted, dropped } => tracing::info!(
            "channel {channel} of topic {topic} has room again after {lasted:.1?}; {dropped} messages were dropped"
        ),
    }
}
