//! The text of `/stats`, column for column as nsqd prints it. SRTM's own figures are in the JSON.

use std::fmt::{self, Write};
use std::time::Duration;

use clock::WallTime;

use super::Memory;
use super::document::{Client, Document, Processing, Topic};
use crate::http::{HttpInfo, nsqd_version_line};

/// The whole page at wall time `now`.
pub(super) fn render(info: &HttpInfo, document: &Document<'_>, now: WallTime) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut page, info, document, now);
    page
}

fn write(
    page: &mut String,
    info: &HttpInfo,
    document: &Document<'_>,
    now: WallTime,
) -> fmt::Result {
    let uptime = Duration::from_nanos(now.as_nanos().saturating_sub(info.start_time.as_nanos()));
    let now_s = now.as_nanos() / 1_000_000_000;
    writeln!(page, "{}", nsqd_version_line())?;
    writeln!(page, "start_time {}", rfc3339(document.start_time))?;
    writeln!(page, "uptime {}", go_duration(uptime))?;
    writeln!(page, "\nHealth: {}", document.health)?;
    if let Some(memory) = &document.memory {
        write_memory(page, memory)?;
    }
    let topics = document.topics.as_deref().unwrap_or_default();
    page.push_str(if topics.is_empty() {
        "\nTopics: None\n"
    } else {
        "\nTopics:"
    });
    for topic in topics {
        write_topic(page, topic, now_s)?;
    }
    let producers = document.producers.as_deref().unwrap_or_default();
    page.push_str(if producers.is_empty() {
        "\nProducers: None\n"
    } else {
        "\nProducers:\n"
    });
    producers
        .iter()
        .try_for_each(|client| writeln!(page, "   {}", line_of(client, now_s)))
}

fn write_memory(page: &mut String, memory: &Memory) -> fmt::Result {
    writeln!(page, "\nMemory:")?;
    let rows = [
        ("heap_objects", memory.heap_objects),
        ("heap_idle_bytes", memory.heap_idle_bytes),
        ("heap_in_use_bytes", memory.heap_in_use_bytes),
        ("heap_released_bytes", memory.heap_released_bytes),
        ("gc_pause_usec_100", memory.gc_pause_usec_100),
        ("gc_pause_usec_99", memory.gc_pause_usec_99),
        ("gc_pause_usec_95", memory.gc_pause_usec_95),
        ("next_gc_bytes", memory.next_gc_bytes),
        ("gc_total_runs", u64::from(memory.gc_total_runs)),
    ];
    rows.iter()
        .try_for_each(|(name, value)| writeln!(page, "   {name:<25}\t{value}"))
}

fn write_topic(page: &mut String, topic: &Topic<'_>, now_s: u64) -> fmt::Result {
    let paused = if topic.paused { "*P " } else { "   " };
    let Topic {
        topic_name,
        depth,
        backend_depth,
        message_count,
        ..
    } = topic;
    writeln!(
        page,
        "\n{paused}[{topic_name:<15}] depth: {depth:<5} be-depth: {backend_depth:<5} msgs: {message_count:<8} e2e%: {}",
        latencies(&topic.e2e_processing_latency)
    )?;
    for channel in &topic.channels {
        let paused = if channel.paused { "   *P " } else { "      " };
        write!(page, "{paused}[{:<25}] ", channel.channel_name)?;
        write!(
            page,
            "depth: {:<5} be-depth: {:<5} ",
            channel.depth, channel.backend_depth
        )?;
        write!(
            page,
            "inflt: {:<4} def: {:<4} ",
            channel.in_flight_count, channel.deferred_count
        )?;
        write!(
            page,
            "re-q: {:<5} timeout: {:<5} ",
            channel.requeue_count, channel.timeout_count
        )?;
        let latencies = latencies(&channel.e2e_processing_latency);
        writeln!(page, "msgs: {:<8} e2e%: {latencies}", channel.message_count)?;
        for client in channel.clients.as_deref().unwrap_or_default() {
            writeln!(page, "        {}", line_of(client, now_s))?;
        }
    }
    Ok(())
}

fn line_of(client: &Client<'_>, now_s: u64) -> String {
    let port = client
        .remote_address
        .rsplit_once(':')
        .map_or("", |(_, port)| port);
    let id = format!("{}:{port} {}", client.hostname, client.user_agent);
    let connected = go_duration(Duration::from_secs(now_s.saturating_sub(client.connect_ts)));
    let head = format!("[{} {id:<21}]", client.version);
    if client.pub_counts.is_empty() {
        return format!(
            "{head} state: {} inflt: {:<4} rdy: {:<4} fin: {:<8} re-q: {:<8} msgs: {:<8} connected: {connected}",
            client.state,
            client.in_flight_count,
            client.ready_count,
            client.finish_count,
            client.requeue_count,
            client.message_count,
        );
    }
    let total: u64 = client.pub_counts.iter().map(|each| each.count).sum();
    let topics: Vec<_> = client
        .pub_counts
        .iter()
        .map(|each| format!("{}={}", each.topic, each.count))
        .collect();
    format!(
        "{head} msgs: {total:<8} topics: {} connected: {connected}",
        topics.join(",")
    )
}

/// Percentiles in nsqd's units.
fn latencies(processing: &Processing) -> String {
    let all = processing.percentiles.as_deref().unwrap_or_default().iter();
    let texts: Vec<_> = all.map(|each| nsqd_latency(each.value)).collect();
    texts.join(", ")
}

fn nsqd_latency(value_ns: u64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
    let value = value_ns as f64;
    match units.into_iter().find(|(unit, _)| value > *unit) {
        Some((unit, suffix)) => format!("{:.1}{suffix}", value / unit),
        None => format!("{value:.1}ns"),
    }
}

/// A duration of a second or more as Go prints it: `1h2m3.5s`. Shorter ones are given in seconds too.
fn go_duration(duration: Duration) -> String {
    let (hours, minutes) = (duration.as_secs() / 3600, duration.as_secs() / 60 % 60);
    let fraction = format!("{:09}", duration.subsec_nanos());
    let fraction = fraction.trim_end_matches('0');
    let dot = if fraction.is_empty() { "" } else { "." };
    let seconds = format!("{}{dot}{fraction}s", duration.as_secs() % 60);
    match (hours, minutes) {
        (0, 0) => seconds,
        (0, _) => format!("{minutes}m{seconds}"),
        _ => format!("{hours}h{minutes}m{seconds}"),
    }
}

/// Unix seconds in UTC, by the rule of the proleptic Gregorian calendar.
fn rfc3339(unix_s: u64) -> String {
    let (days, second_of_day) = (unix_s / 86_400, unix_s % 86_400);
    // Counting years from March puts the leap day last, so that month lengths follow one formula.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (
        second_of_day / 3600,
        second_of_day / 60 % 60,
        second_of_day % 60,
    );
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_in_go() {
        let cases = [
            (Duration::ZERO, "0s"),
            (Duration::from_millis(1500), "1.5s"),
            (Duration::from_nanos(1_107_849_398), "1.107849398s"),
            (Duration::from_secs(60), "1m0s"),
            (Duration::from_secs(3723), "1h2m3s"),
            (Duration::from_secs(90_000), "25h0m0s"),
        ];
        for (duration, expected) in cases {
            assert_eq!(go_duration(duration), expected);
        }
    }

    #[test]
    fn latencies_have_nsqds_units() {
        for (value_ns, expected) in [
            (0, "0.0ns"),
            (1000, "1000.0ns"),
            (1500, "1.5us"),
            (2_340_000, "2.3ms"),
            (90_000_000_000, "90.0s"),
        ] {
            assert_eq!(nsqd_latency(value_ns), expected);
        }
    }

    #[test]
    fn dates_follow_the_calendar() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_795_252_916, "2026-11-21T09:21:56Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ];
        for (unix_s, expected) in cases {
            assert_eq!(rfc3339(unix_s), expected);
        }
    }
}
