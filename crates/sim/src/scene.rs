//! The simulated scene: a spec, with everything that follows from it worked out.

mod source;

use std::time::Duration;

use limit::profile::{FitQuestion, fit_bucket};
use limit::theory::{AccessDelay, Poisson};
use limit::{Burst, Rate};
use model::ServiceModel;
use placement::{BrokerIndex, BrokerState, FitConfig, GroupIndex, Mode, Policy, Publisher};
use workload::trace::Trace;
use workload::{Pattern, PublisherProfile, Spec};

use crate::SimError;
use crate::capacity::capacity;
pub(crate) use source::{Source, Stream};

/// Arrivals that a bucket is fitted to, at most.
const PROFILED_ARRIVALS_MAX: usize = 1 << 22;

/// Messages per second that a publisher counts for at least.
const RATE_LEAST: f64 = 1e-3;

/// Part within the promise at which a binary search stops (SRTM-long, section 6.5).
const BAND: f64 = 0.2;

/// A load, a topic and a cluster, ready to be simulated.
#[derive(Clone, Debug)]
pub struct Scene {
    pub(crate) spec: Spec,
    source: Source,
    pub(crate) publishers: Vec<Publisher>,
    pub(crate) brokers: Vec<BrokerState>,
    pub(crate) models: Vec<ServiceModel>,
    pub(crate) limit: Option<(Rate, Burst)>,
    pub(crate) policy: Policy,
    pub(crate) mode: Mode,
    /// When the arrivals end that the bucket was fitted to: nothing is measured before.
    pub(crate) begin_ns: u64,
}

impl Scene {
    /// Works out the limit (the spec's, or the one that fits its arrivals) and the brokers' capacities.
    ///
    /// # Errors
    /// [`SimError`] for a spec that makes no sense.
    pub fn new(spec: &Spec) -> Result<Scene, SimError> {
        spec.check()?;
        Self::of(spec, Source::Spec, &spec.profiles())
    }

    /// As [`Scene::new`], with the arrivals of a recording, repeated for as long as is simulated, in place of those of
    /// the spec's publishers.
    ///
    /// # Errors
    /// [`SimError`], also for a recording without arrivals.
    pub fn of_recording(spec: &Spec, recording: Trace) -> Result<Scene, SimError> {
        spec.check()?;
        let publishers = recording.header.publishers.iter();
        let profiles: Vec<PublisherProfile> =
            publishers.map(|publisher| publisher.profile).collect();
        let last_ns = match recording.arrivals.last() {
            Some(last) => last.at_ns,
            None => return Err(SimError::EmptyRecording),
        };
        let length_ns = recording.header.length.map_or(last_ns, nanos);
        let source = Source::Recorded {
            arrivals: recording.arrivals.into(),
            length_ns: length_ns.max(last_ns).max(1),
        };
        Self::of(spec, source, &profiles)
    }

    fn of(spec: &Spec, source: Source, profiles: &[PublisherProfile]) -> Result<Scene, SimError> {
        let model = model(spec);
        let slo_us = spec.topic.slo.as_secs_f64() * 1e6;
        let mcap = match spec.cluster.mcap {
            Some(mcap) => mcap,
            None => capacity(
                &model,
                typical_batch(profiles),
                slo_us,
                spec.topic.percentile,
            ),
        };
        let broker = |number: usize| BrokerState {
            mcap,
            load: spec.cluster.load.get(number).copied().unwrap_or(0.0),
            is_available: true,
        };
        let brokers: Vec<BrokerState> = (0..spec.cluster.brokers as usize).map(broker).collect();
        let (limit, begin_ns) = limit(spec, &source, profiles)?;
        let word = |refused: String| SimError::Word(refused);
        let policy = spec.topic.policy.parse::<Policy>();
        let mode = spec.topic.fit.parse::<Mode>();
        Ok(Scene {
            publishers: publishers(profiles)?,
            models: vec![model; brokers.len()],
            brokers,
            limit,
            policy: policy.map_err(|refused| word(refused.to_string()))?,
            mode: mode.map_err(|refused| word(refused.to_string()))?,
            begin_ns,
            source,
            spec: spec.clone(),
        })
    }

    /// The spec.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The topic's limit: the spec's, or the one that was fitted to the arrivals.
    #[must_use]
    pub fn limit(&self) -> Option<(Rate, Burst)> {
        self.limit
    }

    /// The brokers as the Load Distributor sees them.
    #[must_use]
    pub fn brokers(&self) -> &[BrokerState] {
        &self.brokers
    }

    /// The cost of a message at each broker.
    #[must_use]
    pub fn models(&self) -> &[ServiceModel] {
        &self.models
    }

    /// The publishers as the Load Distributor sees them.
    #[must_use]
    pub fn publishers(&self) -> &[Publisher] {
        &self.publishers
    }

    /// The steady access delay of the load under its limit, where theory covers it: one class of
    /// independent Poisson publishers that send all the time.
    #[must_use]
    pub fn theory(&self) -> Option<AccessDelay> {
        let (rate, burst) = self.limit?;
        let [class] = self.spec.publishers.as_slice() else {
            return None;
        };
        let is_steady = class.ramp.is_none() && class.off.is_zero();
        let is_spoken_of = class.arrivals == Pattern::Poisson && class.group_publishers <= 1;
        if !is_steady || !is_spoken_of || !matches!(self.source, Source::Spec) {
            return None;
        }
        let poisson = Poisson {
            rate: Rate::new(self.spec.messages_per_second()).ok()?,
            batch_messages: class.batch_messages,
        };
        AccessDelay::new(poisson, rate, burst).ok()
    }

    /// The promise in microseconds.
    #[must_use]
    pub fn slo_us(&self) -> f64 {
        self.spec.topic.slo.as_secs_f64() * 1e6
    }

    /// How publishers are distributed.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// The same scene with other random arrivals, and with the burst that fits those unless the spec says one; a
    /// recording goes on where the repeat before ended. Repeat 0 is the scene itself.
    ///
    /// # Errors
    /// [`SimError::Profile`] where no bucket fits the other arrivals.
    pub fn repeat(&self, repeat: u32) -> Result<Scene, SimError> {
        let mut scene = self.clone();
        match self.source {
            Source::Spec if repeat > 0 => {
                scene.spec.seed = self.spec.seed.wrapping_add(u64::from(repeat));
                let profiles = scene.spec.profiles();
                (scene.limit, scene.begin_ns) = limit(&scene.spec, &scene.source, &profiles)?;
            }
            Source::Spec => {}
            Source::Recorded { .. } => {
                let length_ns = nanos(self.spec.length());
                scene.begin_ns += length_ns.saturating_mul(u64::from(repeat));
            }
        }
        Ok(scene)
    }

    /// The same load on more brokers like the first, which carry nothing else.
    pub(crate) fn with_more_brokers(&self, count: u32) -> Result<Scene, SimError> {
        let mut scene = self.clone();
        scene.spec.cluster.brokers += count;
        scene.spec.check()?;
        let first = BrokerState {
            load: 0.0,
            ..self.brokers[0]
        };
        for _ in 0..count {
            scene.brokers.push(first);
            scene.models.push(self.models[0]);
        }
        Ok(scene)
    }

    /// The same publishers sending `factor` times as often, under `factor` times the limit's rate.
    pub(crate) fn with_rate(&self, factor: f64) -> Result<Scene, SimError> {
        let mut spec = self.spec.clone();
        if let Source::Recorded { .. } = self.source {
            return Err(SimError::FixedRate);
        }
        for class in &mut spec.publishers {
            class.rate *= factor;
        }
        spec.topic.rate = spec.topic.rate.map(|rate| rate * factor);
        Scene::new(&spec)
    }

    /// Publishers over the first `k` brokers by residual capacity, as the policy spreads them, whatever capacities say.
    pub(crate) fn only(&self, k: usize) -> Vec<Option<BrokerIndex>> {
        let mut brokers: Vec<usize> = (0..self.brokers.len()).collect();
        brokers.sort_by(|&a, &b| self.brokers[b].rcap().total_cmp(&self.brokers[a].rcap()));
        let mut scene = self.clone();
        for (rank, &broker) in brokers.iter().enumerate() {
            scene.brokers[broker].is_available = rank < k;
        }
        crate::spread(&scene, k)
    }

    pub(crate) fn fit_config(&self) -> FitConfig {
        FitConfig {
            policy: self.policy,
            mode: self.mode,
            percentile: self.spec.topic.percentile,
            slo_us: self.spec.topic.slo.as_secs_f64() * 1e6,
            band: BAND,
            limit: self.limit,
        }
    }

    /// The arrivals from the beginning.
    pub(crate) fn arrivals(&self) -> Stream {
        self.source.stream(&self.spec)
    }
}

fn model(spec: &Spec) -> ServiceModel {
    let cluster = &spec.cluster;
    let nanos = |span: Duration| span.as_secs_f64() * 1e9;
    ServiceModel {
        per_message_ns: nanos(cluster.per_message),
        per_batch_ns: nanos(cluster.per_batch),
        per_active_connection_ns: nanos(cluster.per_active_connection),
        base_ns: nanos(cluster.base),
        servers: cluster.cores.max(1),
    }
}

fn publishers(profiles: &[PublisherProfile]) -> Result<Vec<Publisher>, SimError> {
    let publishers = profiles.iter().map(|profile| {
        Ok(Publisher {
            // One that sent nothing within a recording counts as hardly anything.
            rate: Rate::new(profile.rate.max(RATE_LEAST))?,
            batch_messages: u32::from(profile.batch_messages),
            group: profile.group.map(GroupIndex),
        })
    });
    publishers.collect()
}

/// Messages of a batch in the mean over messages: what a benchmark of the brokers sends.
fn typical_batch(profiles: &[PublisherProfile]) -> u16 {
    let (mut messages, mut sum) = (0.0, 0.0);
    for profile in profiles {
        messages += profile.rate;
        sum += profile.rate * f64::from(profile.batch_messages);
    }
    (sum / messages).round().clamp(1.0, 1000.0) as u16
}

/// The limit, and when the arrivals end that it was fitted to.
fn limit(
    spec: &Spec,
    source: &Source,
    profiles: &[PublisherProfile],
) -> Result<(Option<(Rate, Burst)>, u64), SimError> {
    let topic = &spec.topic;
    if !topic.limited {
        return Ok((None, 0));
    }
    let rate = topic.rate.map(Rate::new).transpose()?;
    if let (Some(rate), Some(burst)) = (rate, topic.burst) {
        return Ok((Some((rate, Burst::new(burst)?)), 0));
    }
    let rate = match rate {
        Some(rate) => rate,
        None => {
            let mean: f64 = profiles.iter().map(|profile| profile.rate).sum();
            Rate::new(topic.headroom * mean)?
        }
    };
    if let Some(burst) = topic.burst {
        return Ok((Some((rate, Burst::new(burst)?)), 0));
    }
    let end_ns = nanos(topic.window);
    let seen: Vec<(u64, u32)> = source
        .stream(spec)
        .take_while(|arrival| arrival.at_ns < end_ns)
        .take(PROFILED_ARRIVALS_MAX)
        .map(|arrival| (arrival.at_ns, u32::from(arrival.messages)))
        .collect();
    let last_ns = seen.last().map_or(0, |&(at_ns, _)| at_ns);
    let question = FitQuestion {
        percentile: topic.percentile,
        rate: Some(rate),
        ..FitQuestion::default()
    };
    let profile = fit_bucket(seen.into_iter(), &question)?;
    Ok((Some((rate, profile.burst)), last_ns))
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_spec_may_name_every_policy() {
        let known = BTreeSet::from(Policy::ALL.map(Policy::as_str));
        assert_eq!(BTreeSet::from(workload::POLICIES), known);
    }
}
