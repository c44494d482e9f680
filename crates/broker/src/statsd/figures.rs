//! What is sent: nsqd 1.3.0's figures of topics, channels and memory, under its names.
//!
//! Counters are told by how much they have grown since they were told last; of a topic that was deleted and made anew, since then.

use rustc_hash::FxHashMap;

use super::packets::Packets;
use crate::stats::{ChannelStats, ProcessingStats, Stats, TopicStats};

/// Counters as they were told last.
#[derive(Debug, Default)]
pub(super) struct Counted {
    topics: FxHashMap<String, CountedTopic>,
}

#[derive(Debug, Default)]
struct CountedTopic {
    messages: u64,
    bytes: u64,
    channels: FxHashMap<String, CountedChannel>,
}

#[derive(Clone, Copy, Debug, Default)]
struct CountedChannel {
    messages: u64,
    requeued: u64,
    timed_out: u64,
}

/// Figures of the process.
pub(super) struct Memory {
    /// Messages held.
    pub(super) messages: u64,
    /// Memory of the process that is resident.
    pub(super) resident_bytes: u64,
}

/// Puts in the figures of all topics; gives what was counted.
pub(super) fn put(
    stats: &Stats,
    before: &Counted,
    without_ephemeral: bool,
    packets: &mut Packets,
) -> Counted {
    let is_wanted = |name: &str| !(without_ephemeral && name.ends_with("#ephemeral"));
    let nothing = CountedTopic::default();
    let mut counted = Counted::default();
    for topic in stats.topics.iter().filter(|topic| is_wanted(&topic.topic)) {
        let last = before.topics.get(&topic.topic).unwrap_or(&nothing);
        let mut now = put_topic(topic, last, packets);
        for channel in topic
            .channels
            .iter()
            .filter(|each| is_wanted(&each.channel))
        {
            let last = last.channels.get(&channel.channel).copied();
            let told = put_channel(&topic.topic, channel, last.unwrap_or_default(), packets);
            now.channels.insert(channel.channel.clone(), told);
        }
        counted.topics.insert(topic.topic.clone(), now);
    }
    counted
}

/// Puts in the figures of the memory. There is no garbage collector, whose figures are 0.
pub(super) fn put_memory(memory: &Memory, packets: &mut Packets) {
    let gauges = [
        ("heap_objects", memory.messages),
        ("heap_idle_bytes", 0),
        ("heap_in_use_bytes", memory.resident_bytes),
        ("heap_released_bytes", 0),
        ("gc_pause_usec_100", 0),
        ("gc_pause_usec_99", 0),
        ("gc_pause_usec_95", 0),
        ("next_gc_bytes", 0),
    ];
    for (name, value) in gauges {
        packets.gauge(&format!("mem.{name}"), value);
    }
    packets.count("mem.gc_runs", 0);
}

fn put_topic(topic: &TopicStats, last: &CountedTopic, packets: &mut Packets) -> CountedTopic {
    let start = format!("topic.{}", topic.topic);
    let messages = grown(topic.message_count, last.messages);
    packets.count(&format!("{start}.message_count"), messages);
    let bytes = grown(topic.message_bytes, last.bytes);
    packets.count(&format!("{start}.message_bytes"), bytes);
    packets.gauge(&format!("{start}.depth"), topic.depth);
    packets.gauge(&format!("{start}.backend_depth"), topic.backlog_depth);
    put_processing(&start, topic.processing.as_ref(), packets);
    CountedTopic {
        messages: topic.message_count,
        bytes: topic.message_bytes,
        channels: FxHashMap::default(),
    }
}

fn put_channel(
    topic: &str,
    channel: &ChannelStats,
    last: CountedChannel,
    packets: &mut Packets,
) -> CountedChannel {
    let start = format!("topic.{topic}.channel.{}", channel.channel);
    let messages = grown(channel.message_count, last.messages);
    packets.count(&format!("{start}.message_count"), messages);
    packets.gauge(&format!("{start}.depth"), channel.depth);
    packets.gauge(&format!("{start}.backend_depth"), channel.backlog_depth);
    packets.gauge(&format!("{start}.in_flight_count"), channel.in_flight_count);
    packets.gauge(&format!("{start}.deferred_count"), channel.deferred_count);
    let requeued = grown(channel.requeue_count, last.requeued);
    packets.count(&format!("{start}.requeue_count"), requeued);
    let timed_out = grown(channel.timeout_count, last.timed_out);
    packets.count(&format!("{start}.timeout_count"), timed_out);
    packets.gauge(&format!("{start}.clients"), channel.client_count);
    put_processing(&start, channel.processing.as_ref(), packets);
    CountedChannel {
        messages: channel.message_count,
        requeued: channel.requeue_count,
        timed_out: channel.timeout_count,
    }
}

fn put_processing(start: &str, told: Option<&ProcessingStats>, packets: &mut Packets) {
    for (quantile, value_ns) in told.map_or(&[][..], |told| &told.percentiles) {
        let percent = quantile * 100.0;
        let name = format!("{start}.e2e_processing_latency_{percent:.0}");
        packets.gauge(&name, *value_ns);
    }
}

/// By how much a counter has grown; one that has shrunk began anew.
fn grown(now: u64, last: u64) -> u64 {
    now.checked_sub(last).unwrap_or(now)
}
