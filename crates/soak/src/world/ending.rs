//! After the faults: everything must come right by itself, and soon.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Instant;
use control::handle::Command;

use super::World;
use crate::broker::{Broker, place_of};
use crate::event::{Actor, Ask};
use crate::faults::{FLEETING, Loss};
use crate::plan::CHANNELS;

/// After the last fault everything is to be in order within so long.
const RECOVERY: Duration = Duration::from_secs(60);
/// Of what was published something is delivered within so long, until all is.
const DELIVERY: Duration = Duration::from_secs(20);

/// The states of a promise that is kept, that is not, or that is being looked at.
const ANSWERS: [&str; 4] = ["fitted", "violated", "out-of-brokers", "measuring"];

/// How far the run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The operator declares topics; nothing goes wrong yet.
    Declaring,
    /// Things go wrong.
    Troubled,
    /// Nothing goes wrong any more; until then the cluster is to be in order.
    Recovering(Instant),
    /// Nobody publishes any more; until then more than this is to be delivered.
    Delivering(Instant, u64),
    /// All is well.
    Over,
}

impl World {
    pub(super) fn begin_recovery(&mut self) {
        self.stage = Stage::Recovering(self.out.net.now + RECOVERY);
        self.answered.clear();
    }

    /// Goes on to the next stage, or says why it does not come.
    pub(super) fn go_on(&mut self) {
        let now = self.out.net.now;
        match self.stage {
            Stage::Declaring if self.operator.is_content() => {
                self.stage = Stage::Troubled;
                self.begin_trouble();
            }
            Stage::Recovering(until) => {
                let Some(problem) = self.disorder() else {
                    self.stage = Stage::Delivering(now + DELIVERY, 0);
                    for publisher in &mut self.publishers {
                        publisher.is_silent = true;
                    }
                    self.bury_the_lost();
                    return;
                };
                if now >= until {
                    self.out.books.breaks("liveness", problem);
                }
            }
            Stage::Delivering(until, finished) => {
                let Some(problem) = self.undelivered() else {
                    self.stage = Stage::Over;
                    return;
                };
                let so_far = self.out.books.deliveries.finishes();
                if so_far > finished {
                    self.stage = Stage::Delivering(now + DELIVERY, so_far);
                } else if now >= until {
                    self.out.books.breaks("liveness", problem);
                }
            }
            Stage::Declaring | Stage::Troubled | Stage::Over => {}
        }
    }

    /// Somebody makes sure that the lost broker is no more, and says so.
    fn bury_the_lost(&mut self) {
        if let Some(place) = self.lost {
            self.kill(Actor::Broker(place));
            let wish = Ask::Remove(self.brokers[place].name.clone());
            self.operator.wish(wish, &mut self.out);
        }
    }

    /// Whatever is not in order although nothing is wrong any more.
    fn disorder(&mut self) -> Option<String> {
        let mut here = self.brokers.iter().filter(|broker| self.counts(broker));
        if let Some(broker) = here.find(|broker| !broker.is_told_all()) {
            return Some(format!("{} is not linked, or not told all", broker.name));
        }
        if !self.operator.is_content() {
            return Some(String::from("the operator waits"));
        }
        self.misplaced()
            .or_else(|| self.lacking_channels())
            .or_else(|| self.lacking_shares())
            .or_else(|| self.silent_about_promises())
    }

    /// Whether a broker is to be well in the end.
    fn counts(&self, broker: &Broker) -> bool {
        broker.place < self.plan.brokers && self.lost != Some(broker.place)
    }

    /// Publishers that are not connected where the controller wants them.
    fn misplaced(&mut self) -> Option<String> {
        for topic in self.plan.topics.clone() {
            let out = &mut self.out;
            let views = self.controller.observe(
                |reply| Command::Publishers(topic.name.clone(), None, usize::MAX, reply),
                out,
            );
            let Some(Ok(views)) = views else {
                return Some(format!("nothing is known of publishers of {}", topic.name));
            };
            let places: BTreeMap<_, _> = views
                .iter()
                .map(|view| {
                    let broker = view.broker.as_ref();
                    let address = broker.map(|broker| broker.tcp_address.as_str());
                    (view.id.as_str(), (address, view.attached_to.as_deref()))
                })
                .collect();
            for publisher in self
                .publishers
                .iter()
                .filter(|each| each.topic == topic.name)
            {
                let there = publisher.follower.broker();
                let known = places.get(publisher.id.as_str());
                let place = there.and_then(place_of);
                let is_well = known.is_some_and(|(address, attached)| {
                    place.is_some() && place != self.lost && *address == there && attached.is_some()
                });
                if !is_well {
                    return Some(format!(
                        "{} publishes at {there:?} and belongs at (broker, attached to) {known:?}; its trouble: {}",
                        publisher.id,
                        publisher.follower.trouble()
                    ));
                }
            }
        }
        None
    }

    /// Brokers with other channels or pauses than the controller knows.
    fn lacking_channels(&mut self) -> Option<String> {
        let now = self.out.net.now;
        for topic in self.plan.topics.clone() {
            let out = &mut self.out;
            let views = self
                .controller
                .observe(|reply| Command::Channels(topic.name.clone(), reply), out);
            let Some(Ok(views)) = views else {
                return Some(format!("nothing is known of channels of {}", topic.name));
            };
            let known: BTreeMap<&str, bool> = views
                .channels
                .iter()
                .map(|view| (view.channel.as_str(), view.is_paused))
                .collect();
            let mut named = CHANNELS.iter().chain(&FLEETING);
            if let Some(channel) = named.find(|channel| {
                known.contains_key(**channel) != self.operator.wants(&topic.name, channel)
            }) {
                return Some(format!(
                    "{channel} of {} is not as the operator was told: known are {known:?}",
                    topic.name
                ));
            }
            let (most, lost) = (self.plan.brokers, self.lost);
            let here = self.brokers[..most].iter_mut();
            for broker in here.filter(|broker| lost != Some(broker.place)) {
                let Some(stats) = broker.topic(&topic.name, now) else {
                    return Some(format!("{} has no topic {}", broker.name, topic.name));
                };
                let here: BTreeMap<&str, bool> = stats
                    .channels
                    .iter()
                    .map(|channel| (channel.channel.as_str(), channel.paused))
                    .collect();
                if here != known || stats.held.is_some() {
                    return Some(format!(
                        "{} has {here:?} of {} ({:?}), known are {known:?}",
                        broker.name, topic.name, stats.held
                    ));
                }
            }
        }
        None
    }

    /// Limits of which less is shared out than there is.
    fn lacking_shares(&mut self) -> Option<String> {
        let now = self.out.net.now;
        for topic in self.out.books.limits.topics() {
            let declared = self.out.books.limits.declared(&topic)?;
            if let Some(law) = self.out.books.gossiped.get(&topic) {
                let planned = self.plan.topics.iter().find(|each| each.name == topic);
                let publishers = planned.map_or(&[][..], |topic| &topic.publishers);
                let asked = publishers.iter().map(|publisher| publisher.rate).sum();
                if let Some(problem) = law.disorder(asked, now) {
                    return Some(format!("{topic}: {problem}"));
                }
                continue;
            }
            let lost = self.lost;
            let here = self.brokers.iter_mut();
            let shares: Vec<_> = here
                .filter(|broker| lost != Some(broker.place))
                .map(|broker| broker.share(&topic, now).map(|share| share.rate))
                .collect();
            let sum: f64 = shares.iter().flatten().sum();
            // What a broker that is not dead for certain may be using stays reserved, all of it at worst: until somebody says that it is dead.
            let is_proven = self.plan.lost.is_none_or(|(_, loss)| loss == Loss::Killed);
            let least = if is_proven { 0.95 } else { 0.0 };
            if sum < least * declared.rate {
                return Some(format!(
                    "{sum:.3} of {declared:?} of {topic} are shared out: {shares:?}"
                ));
            }
        }
        None
    }

    /// Promises of which nothing is said.
    fn silent_about_promises(&mut self) -> Option<String> {
        for topic in self.plan.topics.clone() {
            // Under a limit below what is published nothing can be promised, and the queue never ends that a window would wait for.
            let asked: f64 = topic.publishers.iter().map(|each| each.rate).sum();
            let declared = self.out.books.limits.declared(&topic.name);
            if !topic.has_promise || declared.is_some_and(|limit| limit.rate < 1.1 * asked) {
                continue;
            }
            let out = &mut self.out;
            let view = self
                .controller
                .observe(|reply| Command::Topic(topic.name.clone(), reply), out);
            let Some(Ok(view)) = view else {
                return Some(format!("nothing is known of {}", topic.name));
            };
            if ANSWERS.contains(&view.state.as_str()) {
                self.answered.insert(topic.name.clone());
            }
            if !self.answered.contains(&topic.name) {
                return Some(format!(
                    "the promise of {} is {}: {}",
                    topic.name, view.state, view.text
                ));
            }
        }
        None
    }

    /// A published message that is not where it should be.
    fn undelivered(&mut self) -> Option<String> {
        let mut publishers = self.publishers.iter();
        let unheard = publishers.find(|publisher| publisher.follower.unacknowledged() > 0);
        if let Some(publisher) = unheard {
            return Some(format!(
                "{} has {} messages that nobody has acknowledged, at {:?}",
                publisher.id,
                publisher.follower.unacknowledged(),
                publisher.follower.broker()
            ));
        }
        self.out.books.deliveries.missing(1).pop()
    }
}
