//! The state as the API shows it.

use std::fmt::Write;
use std::ops::Bound;

use clock::Instant;
use link::Door;

use super::catalog::Catalog;
use super::fit::{Phase, over_limit};
use super::overload::seen_violation;
use super::publisher::Row;
use super::registry::Brokers;
use super::settings::Rules;
use super::tally::Load;
use super::topics::Topics;
use super::{Broker, BrokerNumber, Liveness, Topic, check};
use crate::ControlError;
use crate::view::{
    BrokerAddress, BrokerView, NeighbourView, PlacementView, PublisherView, TopicBrokerView,
    TopicView,
};

/// Makes the answers of the API; borrows the parts that it shows.
#[derive(Clone, Copy)]
pub(super) struct Views<'a> {
    pub(super) rules: &'a Rules,
    pub(super) topics: &'a Topics,
    pub(super) brokers: &'a Brokers,
    pub(super) catalog: &'a Catalog,
}

impl Views<'_> {
    /// One topic.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub(super) fn topic_view(&self, name: &str) -> Result<TopicView, ControlError> {
        Ok(self.view_topic(name, self.topics.find(name)?))
    }

    /// At most `at_most` topics behind `after`, ordered by name.
    pub(super) fn topic_views(&self, after: Option<&str>, at_most: usize) -> Vec<TopicView> {
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.topics
            .all()
            .range::<str, _>((behind, Bound::Unbounded))
            .take(at_most)
            .map(|(name, topic)| self.view_topic(name, topic))
            .collect()
    }

    /// At most `at_most` publishers of a topic behind `after`, ordered by id.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub(super) fn publisher_views(
        &self,
        name: &str,
        after: Option<&str>,
        at_most: usize,
    ) -> Result<Vec<PublisherView>, ControlError> {
        let rows = self
            .topics
            .find(name)?
            .publishers
            .behind(after)
            .take(at_most);
        let prepared = self.prepared(name);
        Ok(rows
            .map(|row| self.view_publisher(row, &prepared))
            .collect())
    }

    /// One publisher, by its index.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub(super) fn publisher_view(
        &self,
        name: &str,
        index: usize,
    ) -> Result<PublisherView, ControlError> {
        let row = self.topics.find(name)?.publishers.rows().get(index);
        let row =
            row.ok_or_else(|| ControlError::NotFound(String::from("it was removed meanwhile")))?;
        Ok(self.view_publisher(row, &self.prepared(name)))
    }

    /// Publishers by id, in the order asked for.
    pub(super) fn publishers_named(&self, name: &str, ids: &[String]) -> Vec<PublisherView> {
        let Some(topic) = self.topics.get(name) else {
            return Vec::new();
        };
        let rows = ids.iter().filter_map(|id| topic.publishers.find(id));
        let prepared = self.prepared(name);
        rows.map(|index| self.view_publisher(&topic.publishers.rows()[index], &prepared))
            .collect()
    }

    /// Where a topic is; for one that nobody knows, where a first publisher would go. Of its publishers those behind `after`,
    /// `at_most` so many.
    ///
    /// # Errors
    /// [`ControlError::Invalid`] for what is no topic's name.
    pub(super) fn placement_view(
        &self,
        name: &str,
        after: Option<&str>,
        at_most: usize,
    ) -> Result<PlacementView, ControlError> {
        check::topic(name)?;
        Ok(self.view_placement(name, after, at_most))
    }

    fn view_placement(&self, name: &str, after: Option<&str>, at_most: usize) -> PlacementView {
        let Some(topic) = self.topics.get(name) else {
            return PlacementView {
                topic: name.to_owned(),
                brokers: self
                    .roomiest()
                    .map(|number| self.address(number))
                    .into_iter()
                    .collect(),
                ..PlacementView::default()
            };
        };
        let mut rows = topic.publishers.behind(after);
        let part: Vec<&Row> = rows.by_ref().take(at_most).collect();
        let last = part.last().map(|row| row.spec.id.clone());
        let last_publisher = last.filter(|_| rows.next().is_some());
        let placed = part.into_iter();
        let publishers: std::collections::BTreeMap<String, String> = placed
            .filter_map(|row| Some((row.spec.id.clone(), self.brokers[row.broker?].name.clone())))
            .collect();
        let rates = topic.placed_rates(self.brokers.len());
        let mut numbers: Vec<BrokerNumber> = self
            .brokers
            .numbered()
            .zip(&rates)
            .filter(|((_, broker), rate)| **rate > 0.0 || broker.reports.all().contains_key(name))
            .map(|((number, _), _)| number)
            .collect();
        if numbers.is_empty() {
            numbers.extend(self.roomiest());
        }
        PlacementView {
            topic: name.to_owned(),
            exists: true,
            brokers: numbers
                .into_iter()
                .map(|number| self.address(number))
                .collect(),
            publishers,
            last_publisher,
            decided_by: self.view_neighbour(topic),
        }
    }

    /// All brokers, ordered by name.
    pub(super) fn broker_views(&self, now: Instant) -> Vec<BrokerView> {
        let named = self.brokers.numbered();
        let named = named.filter(|(_, broker)| !broker.name.is_empty());
        let mut views: Vec<BrokerView> = named
            .map(|(number, _)| self.broker_view(number, now))
            .collect();
        views.sort_by(|a, b| a.broker.cmp(&b.broker));
        views
    }

    /// One broker.
    pub(super) fn broker_view(&self, number: BrokerNumber, now: Instant) -> BrokerView {
        self.view_broker(&self.brokers[number], self.topics.loads.at(number), now)
    }

    fn view_topic(&self, name: &str, topic: &Topic) -> TopicView {
        let rows = topic.publishers.rows();
        TopicView {
            topic: name.to_owned(),
            spec: topic.spec.clone(),
            state: self.state_of(name, topic).to_owned(),
            text: self.explain(name, topic),
            publishers: rows.len(),
            unplaced: topic.publishers.unplaced().len(),
            rate: topic.publishers.rate(),
            brokers: self.view_carriers(name, topic),
            fit_status: topic.fit.status.clone(),
            fit_brokers: match topic.fit.status {
                Some(_) => self
                    .brokers
                    .iter()
                    .map(|broker| broker.name.clone())
                    .collect(),
                None => Vec::new(),
            },
            decided_by: self.view_neighbour(topic),
        }
    }

    fn view_neighbour(&self, topic: &Topic) -> Option<NeighbourView> {
        let deciding = topic.fit.status.as_ref()?.decided_by.as_ref()?;
        let broker = self.brokers.get(deciding.broker.0)?;
        Some(NeighbourView {
            topic: deciding.topic.clone(),
            broker: broker.name.clone(),
            latency_us: deciding.latency_us,
            promise_us: deciding.promise_us,
        })
    }

    fn state_of(&self, name: &str, topic: &Topic) -> &'static str {
        let is_seen = seen_violation(self.topics, self.brokers, name).is_some();
        topic.fit.state(is_seen, topic.has_moves())
    }

    fn explain(&self, name: &str, topic: &Topic) -> String {
        if !topic.fit.text.is_empty() {
            return topic.fit.text.clone();
        }
        if let Some(seen) = seen_violation(self.topics, self.brokers, name) {
            return match over_limit(self.topics, self.brokers, name) {
                Some(why) => format!("{seen}: {why}"),
                None => seen,
            };
        }
        let rows = topic.publishers.rows();
        let attached = topic.publishers.attached();
        let unplaced = topic.publishers.unplaced().iter();
        let homeless = unplaced.filter(|&&index| rows[index as usize].attached.is_some());
        let mut text = format!(
            "{attached} of {} publishers connected, {} on the move",
            rows.len(),
            topic.publishers.misplaced().len() + homeless.count()
        );
        let waiting = self.waiting(name);
        if waiting > 0 && matches!(topic.fit.phase, Phase::Settling { .. }) {
            let _ = write!(
                text,
                "; {waiting} messages wait; nothing is measured until they are delivered"
            );
        }
        if let Some(neighbour) = self.view_neighbour(topic) {
            let _ = write!(
                text,
                "; {} takes no more of them, because {} is promised {} ms there",
                neighbour.broker,
                neighbour.topic,
                neighbour.promise_us / 1e3
            );
        }
        text
    }

    /// Messages of a topic that wait at brokers that report.
    fn waiting(&self, name: &str) -> u64 {
        let carried = self.brokers.iter().filter_map(|broker| broker.word(name));
        carried.map(|carried| carried.report.depth).sum()
    }

    fn view_carriers(&self, name: &str, topic: &Topic) -> Vec<TopicBrokerView> {
        let rates = topic.placed_rates(self.brokers.len());
        let all = self.brokers.numbered().zip(rates);
        all.filter(|((_, broker), rate)| *rate > 0.0 || broker.reports.all().contains_key(name))
            .map(|((number, broker), rate)| {
                let here = topic.publishers.at(number);
                let carried = broker.reports.get(name);
                TopicBrokerView {
                    broker: broker.name.clone(),
                    tcp_address: broker.tcp_address.clone(),
                    publishers: here.map_or(0, |here| here.placed.number()),
                    attached: here.map_or(0, |here| here.attached.number()),
                    rate,
                    measured_rate: carried.map_or(0.0, |carried| carried.rate),
                    fixed_rate: carried.map_or(0.0, |carried| carried.fixed_rate),
                    share: carried.and_then(|carried| carried.report.held),
                    latency_us: topic
                        .fit
                        .last
                        .iter()
                        .find(|(broker, _)| *broker == number)
                        .and_then(|(_, latency)| *latency),
                }
            })
            .collect()
    }

    /// By number whether a broker has all channels of a topic.
    fn prepared(&self, name: &str) -> Vec<bool> {
        let numbers = self.brokers.numbers();
        numbers
            .map(|number| self.catalog.is_held_by(name, &self.brokers[number]))
            .collect()
    }

    /// A place is told when the broker is `prepared`.
    fn view_publisher(&self, row: &Row, prepared: &[bool]) -> PublisherView {
        let is_told =
            |number: &BrokerNumber| row.attached == Some(*number) || prepared[*number as usize];
        let inferred = || row.inferred_group.map(|group| format!("~{group}"));
        PublisherView {
            id: row.spec.id.clone(),
            rate: row.spec.rate,
            measured_rate: row.measured_rate,
            batch: row.spec.batch,
            group: row.spec.group.clone().or_else(inferred),
            broker: row
                .broker
                .filter(is_told)
                .map(|number| self.address(number)),
            attached_to: row.attached.map(|number| self.brokers[number].name.clone()),
        }
    }

    fn view_broker(&self, broker: &Broker, here: &Load, now: Instant) -> BrokerView {
        let state = match broker.liveness {
            Liveness::Dead => "dead",
            Liveness::Silent(_) => "silent",
            Liveness::Up if !broker.has_answered(Door::Clients) => "unreached",
            Liveness::Up if broker.is_draining => "draining",
            Liveness::Up => "up",
        };
        BrokerView {
            broker: broker.name.clone(),
            tcp_address: broker.tcp_address.clone(),
            http_address: broker.http_address.clone(),
            gossip_address: broker.gossip_address.clone(),
            state: state.to_owned(),
            not_counted: broker.not_counted(),
            is_draining: broker.is_draining,
            mcap: self.rules.mcap_of(broker),
            is_calibrated: broker.mcap.is_some(),
            load: here.placed.rate(),
            measured_rate: broker.reports.measured_rate(),
            publishers: here.placed.number(),
            attached: here.attached.number(),
            holds: broker.reports.unfinished(),
            memory_used_bytes: broker.memory.map(|memory| memory.used_bytes),
            memory_budget_bytes: broker.memory.map(|memory| memory.budget_bytes),
            seconds_since_report: (now - broker.reported_at).as_secs_f64(),
        }
    }

    /// The broker with the largest residual capacity.
    fn roomiest(&self) -> Option<BrokerNumber> {
        let open = self
            .brokers
            .numbered()
            .filter(|(_, broker)| broker.takes_publishers());
        let room = |number: BrokerNumber, broker: &Broker| {
            self.rules.mcap_of(broker)
                - broker.reports.fixed_rate()
                - self.topics.loads.at(number).placed.rate()
        };
        let best = open.reduce(|best, next| {
            if room(next.0, next.1) > room(best.0, best.1) {
                next
            } else {
                best
            }
        });
        best.map(|(number, _)| number)
    }

    fn address(&self, number: BrokerNumber) -> BrokerAddress {
        let broker = &self.brokers[number];
        BrokerAddress {
            broker: broker.name.clone(),
            tcp_address: broker.tcp_address.clone(),
        }
    }
}
