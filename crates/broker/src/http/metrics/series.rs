//! The table of series: name, meaning and where the value comes from.
//!
//! docs/operating.md has the same table for operators; a test keeps the two in step.

use std::time::Duration;

use http::metrics::{Series, counter, float, gauge};
use kernel::{CpuShare, TaskStats};
use topics::Full;

use super::Snapshot;
use crate::stats::{ChannelStats, ReactorStats, StageLatency, TopicStats};

pub(super) const PROCESS: &[Series<Snapshot>] = &[
    gauge("srtm_topics", "Topics.", |s| {
        float(s.summed.topics_total as u64)
    }),
    gauge(
        "srtm_topics_held",
        "Topics that pass nothing on until the controller has told what they have.",
        |s| float(s.summed.topics_held as u64),
    ),
    gauge(
        "srtm_topics_summed",
        "Topics without series of their own, summed up as other.",
        |s| float(s.summed.topics_summed as u64),
    ),
    gauge(
        "srtm_channels_summed",
        "Channels without series of their own, summed up as other.",
        |s| float(s.summed.channels_summed as u64),
    ),
    counter(
        "srtm_names_refused",
        "Topics and channels that were not made because their makers had made as many as they may.",
        |s| float(s.surroundings.names_refused),
    ),
    gauge(
        "srtm_producers",
        "Connections that have published and hold no subscription.",
        |s| float(s.process.producers),
    ),
    gauge(
        "srtm_resident_bytes",
        "Resident memory of the process.",
        |s| float(s.process.resident_bytes),
    ),
];

pub(super) const TOPIC: &[Series<TopicStats>] = &[
    counter(
        "srtm_topic_messages",
        "Messages accepted from publishers.",
        |t| float(t.message_count),
    ),
    counter(
        "srtm_topic_message_bytes",
        "Body bytes of accepted messages.",
        |t| float(t.message_bytes),
    ),
    counter(
        "srtm_topic_dropped",
        "Messages discarded by the limit or by a full ephemeral queue.",
        |t| float(t.dropped_count),
    ),
    counter(
        "srtm_topic_rejected",
        "Publish commands refused by the limit, or with a delay at the bound of deferred messages.",
        |t| float(t.rejected_count),
    ),
    counter(
        "srtm_topic_delayed",
        "Messages that waited for a token.",
        |t| float(t.delayed_count),
    ),
    gauge("srtm_topic_depth", "Messages in the topic's queue.", |t| {
        float(t.depth)
    }),
    gauge(
        "srtm_topic_held_publishers",
        "Publishers held back now by a full queue.",
        |t| float(t.held_publishers),
    ),
    gauge("srtm_topic_paused", "1 while the topic is paused.", |t| {
        float(u64::from(t.paused))
    }),
    gauge(
        "srtm_topic_held",
        "1 while the topic passes nothing on because the controller has not told what it has.",
        |t| float(u64::from(t.held.is_some())),
    ),
    gauge(
        "srtm_topic_limit_rate",
        "Limit in force: tokens per second.",
        |t| t.limit.map(|limit| limit.rate.get()),
    ),
    gauge(
        "srtm_topic_limit_burst",
        "Limit in force: tokens in a full bucket.",
        |t| t.limit.map(|limit| limit.burst.get()),
    ),
    gauge(
        "srtm_topic_limit_tokens",
        "Tokens in the bucket now.",
        |t| t.tokens,
    ),
    gauge(
        "srtm_share_rate",
        "This broker's part of a limit that brokers share: tokens per second.",
        |t| t.share.map(|share| share.rate.get()),
    ),
    gauge(
        "srtm_share_burst",
        "This broker's part of a limit that brokers share: tokens in a full bucket.",
        |t| t.share.map(|share| share.burst.get()),
    ),
    gauge(
        "srtm_share_demand",
        "This broker's demand, as it tells the brokers that share the limit by gossip: tokens per second, for fps a weight.",
        |t| t.sharing.map(|sharing| sharing.demand),
    ),
    gauge(
        "srtm_share_passed",
        "Tokens per second that passed here under a limit that brokers share by gossip, smoothed.",
        |t| t.sharing.map(|sharing| sharing.passed),
    ),
    gauge(
        "srtm_share_connected",
        "Brokers heard here that share the limit by gossip, this one included.",
        |t| t.sharing.map(|sharing| f64::from(sharing.connected)),
    ),
];

pub(super) const CHANNEL: &[Series<ChannelStats>] = &[
    counter(
        "srtm_channel_messages",
        "Messages put into the channel.",
        |c| float(c.message_count),
    ),
    counter(
        "srtm_channel_requeued",
        "Messages requeued by consumers.",
        |c| float(c.requeue_count),
    ),
    counter(
        "srtm_channel_timed_out",
        "Messages requeued because their timeout passed.",
        |c| float(c.timeout_count),
    ),
    counter(
        "srtm_channel_dropped",
        "Messages discarded: by a full queue, by sampling, or by an order to empty.",
        |c| float(c.dropped_count),
    ),
    counter(
        "srtm_channel_dropped_oldest",
        "Discarded messages that were the oldest of a full queue and gave way to newer ones.",
        |c| float(c.dropped_oldest_count),
    ),
    counter(
        "srtm_channel_full_episodes",
        "Times that messages found the channel full.",
        |c| float(c.full_episodes),
    ),
    gauge(
        "srtm_channel_blocking",
        "1 while the channel is full and its topic waits for it.",
        |c| float(u64::from(c.full == Some(Full::Blocks))),
    ),
    counter(
        "srtm_channel_refused_requeues",
        "REQs with a delay refused at the bound of deferred messages.",
        |c| float(c.refused_requeue_count),
    ),
    gauge(
        "srtm_channel_depth",
        "Messages waiting for a consumer.",
        |c| float(c.depth),
    ),
    gauge(
        "srtm_channel_in_flight",
        "Messages sent and not finished.",
        |c| float(c.in_flight_count),
    ),
    gauge(
        "srtm_channel_deferred",
        "Messages waiting for their delay to pass.",
        |c| float(c.deferred_count),
    ),
    gauge("srtm_channel_clients", "Consumers.", |c| {
        float(c.client_count)
    }),
    gauge(
        "srtm_channel_paused",
        "1 while the channel is paused.",
        |c| float(u64::from(c.paused)),
    ),
];

/// A quantile's label and where its value is found.
type Quantile = (&'static str, fn(&StageLatency) -> f64);

pub(super) const LATENCY: (&str, &str, &[Quantile]) = (
    "srtm_topic_latency_us",
    "Time spent in a stage, by quantile, in microseconds.",
    &[
        ("0.5", |stage| stage.p50_us),
        ("0.95", |stage| stage.p95_us),
        ("0.99", |stage| stage.p99_us),
        ("0.999", |stage| stage.p999_us),
    ],
);

/// Gauges, because OpenMetrics keeps the bare names `_count` and `_sum` for histograms and summaries.
pub(super) const STAGE: &[Series<StageLatency>] = &[
    gauge(
        "srtm_topic_latency_us_count",
        "Messages measured in a stage.",
        |stage| float(stage.count),
    ),
    gauge(
        "srtm_topic_latency_us_sum",
        "Time spent in a stage in all, in microseconds.",
        |stage| float(stage.sum_us),
    ),
];

pub(super) const STAGE_MAX: &[Series<StageLatency>] = &[gauge(
    "srtm_topic_latency_max_us",
    "Longest time spent in a stage, in microseconds.",
    |stage| Some(stage.max_us),
)];

pub(super) const REACTOR: &[Series<ReactorStats>] = &[
    gauge("srtm_reactor_connections", "Connections open.", |r| {
        float(r.connections)
    }),
    counter("srtm_reactor_turns", "Turns of the reactor's loop.", |r| {
        float(r.turns)
    }),
    counter(
        "srtm_reactor_busy_seconds",
        "Time that the reactor was neither waiting for something to do nor resting.",
        |r| seconds(r.busy),
    ),
    gauge(
        "srtm_reactor_stored_messages",
        "Messages queued, in flight or deferred.",
        |r| float(r.messages_stored),
    ),
    gauge(
        "srtm_reactor_stored_bytes",
        "Body bytes of stored messages.",
        |r| float(r.bytes_stored),
    ),
    counter(
        "srtm_reactor_refused_connections",
        "Connections refused at the connection limit.",
        |r| float(r.connections_refused),
    ),
    gauge(
        "srtm_reactor_unidentified",
        "Of the connections, those that have not said who they are.",
        |r| float(r.strangers),
    ),
    counter(
        "srtm_reactor_unidentified_gave_way",
        "Connections closed before they said who they are, to make room for others.",
        |r| float(r.strangers_gave_way),
    ),
    counter(
        "srtm_reactor_unidentified_late",
        "Connections closed because they did not say in time who they are.",
        |r| float(r.strangers_late),
    ),
    counter(
        "srtm_reactor_unidentified_refused",
        "Connections closed before they said who they are, for want of a place or of memory for a first command.",
        |r| float(r.strangers_refused),
    ),
    counter(
        "srtm_reactor_unread_pauses",
        "Times that a connection was not read from because its output was full.",
        |r| float(r.unread_pauses),
    ),
    counter(
        "srtm_reactor_unread_closed",
        "Connections closed because their peers read too slowly.",
        |r| float(r.unread_closed),
    ),
    counter(
        "srtm_reactor_half_closed",
        "Connections closed because the rest of a command came too slowly.",
        |r| float(r.half_closed),
    ),
    counter(
        "srtm_reactor_auths",
        "AUTHs of clients that were found to be permitted something.",
        |r| float(r.auths),
    ),
    counter(
        "srtm_reactor_auths_refused",
        "Commands of clients that were refused, and their connections closed, for want of a permission.",
        |r| float(r.auths_refused),
    ),
    counter(
        "srtm_reactor_tls_handshakes",
        "TLS handshakes of clients that are done.",
        |r| float(r.tls_handshakes),
    ),
    counter(
        "srtm_reactor_tls_failed_handshakes",
        "TLS handshakes of clients that failed.",
        |r| float(r.tls_handshakes_failed),
    ),
    counter(
        "srtm_reactor_layers_refused",
        "Connections closed because there was no memory for their TLS or compression.",
        |r| float(r.layers_refused),
    ),
    counter(
        "srtm_reactor_accept_backoffs",
        "Times the listener paused for want of file descriptors.",
        |r| float(r.accept_backoffs),
    ),
    gauge(
        "srtm_reactor_publishers",
        "Publishers attached that declared themselves in IDENTIFY.",
        |r| float(r.publishers),
    ),
    counter(
        "srtm_reactor_moves",
        "Publishers told to move to another broker.",
        |r| float(r.moves_sent),
    ),
    counter(
        "srtm_reactor_unknown_moves",
        "Orders to move publishers that are not attached, or to an invalid address.",
        |r| float(r.moves_unknown),
    ),
    counter(
        "srtm_reactor_throttled_notices",
        "Notices to publishers that a limit holds them back.",
        |r| float(r.throttled_sent),
    ),
];

/// Of topics as tasks of their reactors; of the common tasks under no topic.
pub(super) const TASK: &[Series<TaskStats>] = &[
    gauge(
        "srtm_task_cpu_share",
        "Part of each reactor's time that a topic is entitled to.",
        |t| t.share.map(CpuShare::as_f64),
    ),
    counter(
        "srtm_task_used_seconds",
        "Time that a topic was served for, on all reactors.",
        |t| seconds(t.used),
    ),
    counter(
        "srtm_task_waited_seconds",
        "Time that a topic had work and was not served.",
        |t| seconds(t.waited),
    ),
    gauge(
        "srtm_task_wait_max_seconds",
        "Longest time that a topic had work and was not served.",
        |t| seconds(t.wait_max),
    ),
    counter("srtm_task_turns", "Times that a topic was served.", |t| {
        float(t.turns)
    }),
    counter(
        "srtm_task_served_events",
        "Events of a topic that were served: connections that became ready, post between reactors, and deliveries.",
        |t| float(t.served_events),
    ),
    gauge(
        "srtm_task_queued_events",
        "Events of a topic that wait to be served.",
        |t| float(t.queued_events as u64),
    ),
    counter(
        "srtm_task_overruns",
        "Turns that took more than a topic's credits.",
        |t| float(t.overruns),
    ),
    gauge(
        "srtm_task_overrun_max_seconds",
        "The longest time that a turn took beyond the topic's credits.",
        |t| seconds(t.overrun_max),
    ),
    gauge(
        "srtm_task_unstable",
        "1 while a topic's events come faster than they are served.",
        |t| float(u64::from(t.is_unstable)),
    ),
    counter(
        "srtm_task_unstable_spells",
        "Times that a topic became unstable.",
        |t| float(t.unstable_spells),
    ),
];

/// Of a reactor's schedule.
pub(super) const PERIODS: &Series<u64> = &counter(
    "srtm_reactor_periods",
    "Times that all topics were given new credits.",
    |periods| float(*periods),
);

fn seconds(time: Duration) -> Option<f64> {
    Some(time.as_secs_f64())
}
