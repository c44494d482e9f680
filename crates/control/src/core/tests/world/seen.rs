//! Observed promises and moves.

use std::time::Duration;

use clock::Instant;

use super::{Sensor, World};

impl World {
    /// Notes in which states topics are, and whether that is true.
    pub(super) fn note_states(&mut self) {
        let topics: Vec<String> = self.promises_us.keys().cloned().collect();
        for topic in topics {
            let view = self.core.topic_view(&topic).expect("declared");
            let state = view.state;
            if state == "fitted" {
                let promise_us = self.promises_us[&topic];
                let figures = view.brokers.iter().filter_map(|broker| broker.latency_us);
                let is_stale = figures.into_iter().any(|us| us > promise_us);
                let last = self.now.as_nanos() / 1_000_000_000;
                let is_broken = |second: u64| {
                    let seconds = self.seconds.get(&topic);
                    let seen = seconds.and_then(|seconds| seconds.get(&second));
                    seen.is_some_and(|seen| 20 * seen.late > seen.delivered)
                };
                // Reports are a second apart, and the second that they are of may have begun well.
                let is_seen = (last.saturating_sub(3)..last).all(is_broken);
                if is_stale || is_seen {
                    self.lies += 1;
                }
            }
            let states = self.states.entry(topic).or_default();
            if states.last().is_none_or(|(_, last)| *last != state) {
                states.push((self.now, state));
            }
        }
    }

    pub(in crate::core::tests) fn second(&self) -> u64 {
        self.now.as_nanos() / 1_000_000_000
    }

    /// The last second after `since` in which more than 1 % of a topic's messages were late; how long after.
    pub(in crate::core::tests) fn broken_until(&self, topic: &str, since: u64) -> u64 {
        let seconds = self.seconds[topic].range(since..);
        let mut broken = seconds.filter(|(_, second)| 100 * second.late > second.delivered);
        broken
            .next_back()
            .map_or(0, |(second, _)| second + 1 - since)
    }

    /// Moves of one publisher in any ten seconds, at most.
    pub(in crate::core::tests) fn most_moves_in_ten_seconds(&self) -> usize {
        let most = |sensor: &Sensor| {
            let within = |from: &Instant| {
                let moved = sensor.moved.iter();
                moved
                    .filter(|at| *at >= from && **at - *from < Duration::from_secs(10))
                    .count()
            };
            sensor.moved.iter().map(within).max().unwrap_or(0)
        };
        self.sensors.values().map(most).max().unwrap_or(0)
    }

    /// Moves from so many seconds after the beginning until so many.
    pub(in crate::core::tests) fn moves_between(&self, from: f64, until: f64) -> usize {
        let moved = self.sensors.values().flat_map(|sensor| &sensor.moved);
        let after = moved.filter(|at| **at >= self.began);
        after
            .filter(|at| (from..until).contains(&(**at - self.began).as_secs_f64()))
            .count()
    }

    /// Seconds from the beginning to the first move.
    pub(in crate::core::tests) fn first_move(&self) -> f64 {
        let moved = self.sensors.values().flat_map(|sensor| &sensor.moved);
        let after = moved.filter(|at| **at >= self.began);
        after
            .min()
            .map_or(f64::INFINITY, |at| (*at - self.began).as_secs_f64())
    }

    /// Moves of a topic's publishers.
    pub(in crate::core::tests) fn moved(&self, topic: &str) -> usize {
        let sensors = self.sensors.iter().filter(|((of, _), _)| of == topic);
        sensors.map(|(_, sensor)| sensor.moved.len()).sum()
    }

    /// By broker, messages per second that are sent there.
    pub(in crate::core::tests) fn sent(&self) -> Vec<f64> {
        let mut sent = vec![0.0; self.nodes.len()];
        for sensor in self.sensors.values() {
            if let Some(at) = sensor.at {
                sent[at] += sensor.rate;
            }
        }
        sent
    }

    /// What happened since an instant, for whoever looks into a failure.
    pub(in crate::core::tests) fn story(&self, since: Instant) -> String {
        let events = self.events.iter().filter(|(at, _)| *at >= since);
        let lines =
            events.map(|(at, text)| format!("{:7.2} {text}\n", (*at - since).as_secs_f64()));
        lines.collect()
    }
}
