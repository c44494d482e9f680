//! `GET /metrics`: the broker's counters for Prometheus, in the OpenMetrics text format.
//!
//! Every scrape renders one snapshot; nothing is kept between scrapes. The number of series is
//! bounded: the `metrics_max_topics` busiest topics by message count, with up to [`CHANNELS_MAX`]
//! channels each, have series of their own; the rest are summed up under the name `other`.

mod announcements;
mod disk;
mod memory;
mod series;
mod sharing;
mod summed;
mod tasks;

use std::fmt;

use axum::extract::State;
use axum::response::Response;
use http::metrics::{Series, answer, put, text_of};
use http::nsq::Failure;
use http::rendered;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::Shared;
use crate::announce::AnnounceStats;
use crate::backlog::{BacklogHealth, BacklogState};
use crate::catalog_file::CatalogState;
use crate::reactor::TaskReport;
use crate::sharing::SharingFigures;
use crate::stats::{ChannelStats, ReactorStats, Stats, StatsFilter, TopicStats};
use announcements::{ANNOUNCE, BY_CAUSE, TEMPO};
use disk::{CATALOG, DISK};
use memory::MemoryFigures;
use series::{CHANNEL, LATENCY, PERIODS, PROCESS, REACTOR, STAGE, STAGE_MAX, TASK, TOPIC};
use sharing::{BYTES, DATAGRAMS, GIVEN_UP, GOSSIP, HANDOVERS, LINK, POLICY};
use summed::{Summed, sum_up};
use tasks::{Tasks, sum_up_tasks};

/// Channels of one topic with series of their own.
const CHANNELS_MAX: usize = 50;

/// `GET /metrics`.
pub(super) async fn metrics(State(service): Shared) -> Result<Response, Failure> {
    let filter = StatsFilter {
        include_clients: false,
        ..StatsFilter::default()
    };
    let stats = service.handle.stats(filter).await?;
    let tasks = service.handle.tasks().await?;
    let config = service.handle.config();
    let heard = config.announce.as_ref();
    let announcements = heard.map(|_| service.handle.announcements.stats());
    let surroundings = Surroundings {
        catalog: (config.data_path.as_ref()).map(|_| service.handle.kept.state()),
        backlog: service.handle.backlog.as_ref().map(BacklogHealth::state),
        http: service.info.counts.clone(),
        announcements,
        gossip: service.handle.sharing.figures(),
        memory: MemoryFigures::of(&service.handle.memory),
        names_refused: service.handle.names.refused(),
        is_given_up: config
            .controller
            .as_ref()
            .map(|_| service.handle.link.is_given_up()),
        handovers: config.controller.as_ref().map(|_| {
            let handing = &service.handle.handing;
            [("sent", handing.sent()), ("taken", handing.taken())]
        }),
        link: config.controller.as_ref().map(|_| {
            let link = &service.handle.link;
            [("sent", link.sent()), ("received", link.received())]
        }),
    };
    let topics_max = config.metrics_max_topics;
    let page = move || answer(render(stats, tasks, surroundings, topics_max));
    Ok(rendered(page).await)
}

/// The page for one snapshot, with at most `topics_max` topics of their own.
fn render(
    stats: Stats,
    tasks: Vec<TaskReport>,
    surroundings: Surroundings,
    topics_max: usize,
) -> String {
    let Stats {
        topics, reactors, ..
    } = stats;
    let summed = sum_up(topics, topics_max, CHANNELS_MAX);
    let http = surroundings.http.clone();
    let snapshot = Snapshot {
        process: Process {
            producers: reactors.iter().map(|reactor| reactor.producers).sum(),
            resident_bytes: super::info::resident_bytes(),
        },
        tasks: sum_up_tasks(tasks, &summed),
        summed,
        reactors,
        surroundings,
    };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(snapshot));
    let of_port = registry.sub_registry_with_prefix("srtm");
    of_port.register_collector(Box::new(http));
    text_of(&registry)
}

/// What belongs to no topic and no reactor.
#[derive(Debug)]
struct Process {
    producers: u64,
    resident_bytes: u64,
}

#[derive(Debug)]
struct Snapshot {
    process: Process,
    summed: Summed,
    tasks: Tasks,
    reactors: Vec<ReactorStats>,
    surroundings: Surroundings,
}

/// The broker's dealings with others.
#[derive(Debug, Default)]
struct Surroundings {
    /// `None`: the broker keeps nothing.
    catalog: Option<CatalogState>,
    /// `None`: queues have nothing on disk.
    backlog: Option<BacklogState>,
    http: http::Counts,
    /// `None`: the broker has no announce port.
    announcements: Option<AnnounceStats>,
    gossip: SharingFigures,
    /// Messages handed over by direction; `None`: there is no controller.
    handovers: Option<[(&'static str, u64); 2]>,
    memory: MemoryFigures,
    /// Topics and channels that were not made because their makers had made enough.
    names_refused: u64,
    /// Bytes over the link by direction; `None`: there is no controller.
    link: Option<[(&'static str, u64); 2]>,
    /// Whether the controller's word is waited for no longer; `None`: there is no controller.
    is_given_up: Option<bool>,
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for series in PROCESS {
            put(&mut encoder, series, [([], self)])?;
        }
        for series in TOPIC {
            put(
                &mut encoder,
                series,
                self.topics()
                    .map(|(name, topic)| ([("topic", name)], topic)),
            )?;
        }
        for series in CHANNEL {
            put(&mut encoder, series, self.channels())?;
        }
        self.put_latency(&mut encoder)?;
        for series in TASK {
            let tasks = self.tasks.by_topic.iter();
            let labelled = tasks.map(|(topic, stats)| ([("topic", topic.as_str())], stats));
            put(&mut encoder, series, labelled)?;
        }
        for series in REACTOR {
            put_numbered(&mut encoder, series, &self.reactors)?;
        }
        put_numbered(&mut encoder, PERIODS, &self.tasks.periods)?;
        self.surroundings.memory.put(&mut encoder)?;
        self.put_policies(&mut encoder)?;
        for series in CATALOG {
            let catalog = self.surroundings.catalog.iter();
            put(&mut encoder, series, catalog.map(|each| ([], each)))?;
        }
        for series in DISK {
            let disk = self.surroundings.backlog.iter();
            put(&mut encoder, series, disk.map(|each| ([], each)))?;
        }
        let directions = self.surroundings.link.iter().flatten();
        let directions = directions.map(|(way, bytes)| ([("direction", *way)], bytes));
        put(&mut encoder, &LINK, directions)?;
        let ways = self.surroundings.handovers.iter().flatten();
        let ways = ways.map(|(way, messages)| ([("direction", *way)], messages));
        put(&mut encoder, &HANDOVERS, ways)?;
        let given_up = self.surroundings.is_given_up.iter();
        put(&mut encoder, &GIVEN_UP, given_up.map(|each| ([], each)))?;
        if self.surroundings.gossip.brokers > 0 {
            self.put_gossip(&mut encoder)?;
        }
        match &self.surroundings.announcements {
            Some(stats) => self.put_announcements(&mut encoder, stats),
            None => Ok(()),
        }
    }
}

impl Snapshot {
    fn topics(&self) -> impl Iterator<Item = (&str, &TopicStats)> {
        self.summed
            .topics
            .iter()
            .map(|topic| (topic.topic.as_str(), topic))
    }

    fn channels(&self) -> impl Iterator<Item = ([(&str, &str); 2], &ChannelStats)> {
        self.topics().flat_map(|(name, topic)| {
            topic
                .channels
                .iter()
                .map(move |channel| ([("topic", name), ("channel", &channel.channel)], channel))
        })
    }

    fn put_policies(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let shared = self
            .topics()
            .filter_map(|(name, topic)| Some((name, topic.sharing?)));
        let labelled = shared
            .map(|(name, sharing)| ([("topic", name), ("policy", sharing.policy.as_str())], &1));
        put(encoder, &POLICY, labelled)
    }

    fn put_gossip(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let gossip = &self.surroundings.gossip;
        for series in GOSSIP {
            put(encoder, series, [([], gossip)])?;
        }
        let outcomes = gossip.datagrams.iter();
        let outcomes = outcomes.map(|(outcome, count)| ([("outcome", *outcome)], count));
        put(encoder, &DATAGRAMS, outcomes)?;
        let kinds = gossip.sent_bytes.iter();
        let kinds = kinds.map(|(kind, count)| ([("kind", *kind)], count));
        put(encoder, &BYTES, kinds)
    }

    fn put_announcements(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        stats: &AnnounceStats,
    ) -> fmt::Result {
        for family in BY_CAUSE {
            let counts = family.causes.iter().map(|(cause, of)| (cause, of(stats)));
            let counts: Vec<_> = counts.collect();
            let labelled = counts.iter();
            let labelled = labelled.map(|(cause, count)| ([(family.label, **cause)], count));
            put(encoder, &family.series, labelled)?;
        }
        for series in ANNOUNCE {
            put(encoder, series, [([], stats)])?;
        }
        for series in TEMPO {
            put_numbered(encoder, series, &self.reactors)?;
        }
        Ok(())
    }

    /// Quantiles as gauges: they come from the reactors' own histograms, whose buckets are far finer
    /// than what a scrape could carry.
    fn put_latency(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let stages = || {
            self.topics().flat_map(|(name, topic)| {
                topic
                    .latency
                    .iter()
                    .map(move |stage| ([("topic", name), ("stage", stage.stage)], stage))
            })
        };
        let (name, help, quantiles) = LATENCY;
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        // Quantiles of several topics do not add up, so the sum of topics has none.
        for (labels, stage) in stages() {
            if self.summed.is_sum(labels[0].1) {
                continue;
            }
            for (quantile, value) in quantiles {
                let labels = [labels[0], labels[1], ("quantile", *quantile)];
                metric.encode_family(&labels)?.encode_gauge(&value(stage))?;
            }
        }
        for series in STAGE.iter().chain(STAGE_MAX) {
            put(encoder, series, stages())?;
        }
        Ok(())
    }
}

/// One family over what the reactors have, labelled with their numbers.
fn put_numbered<T>(
    encoder: &mut DescriptorEncoder<'_>,
    series: &Series<T>,
    of_reactors: &[T],
) -> fmt::Result {
    let numbers: Vec<String> = (0..of_reactors.len())
        .map(|each| each.to_string())
        .collect();
    let labels = numbers.iter().map(|number| [("reactor", number.as_str())]);
    put(encoder, series, labels.zip(of_reactors))
}

#[cfg(test)]
mod tests;
