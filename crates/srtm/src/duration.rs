//! Durations on the command line, as Go writes and reads them: `60s`, `1m30s`, `250ms`, `1.5h`.

pub(crate) use clock::DurationText as GoDuration;
