//! What all virtual clusters have in common: a core and its records, brokers to tell and to ask,
//! and topics as brokers have them.

use std::collections::BTreeMap;

use clock::Instant;
use link::{ChannelState, Identity, Present, ToBroker, TopicChange, TopicState};

use crate::core::{Core, Effect, Event, Probe, ProbeAnswer};
use crate::store::{MemoryStore, Store};

/// Brokers around a core.
pub(super) trait Stage {
    /// The core, what it has kept, and the time.
    fn parts(&mut self) -> (&mut Core, &mut MemoryStore, Instant);

    /// An order goes to a broker.
    fn order(&mut self, number: u32, order: ToBroker);

    /// Who is at an address; `None`: there is no answer yet.
    fn at(&self, probe: &Probe) -> Option<ProbeAnswer>;

    /// More brokers are wanted.
    fn spawned(&mut self) {}

    /// People are told something.
    fn told(&mut self, _event: Event) {}

    /// Makes durable what was decided; what is to be done of it.
    fn keep(&mut self) -> Vec<Effect> {
        let (core, kept, _) = self.parts();
        let changes = core.take_changes();
        kept.commit(&changes).expect("memory takes everything");
        core.take_effects()
    }
}

/// Does all that the core wants done, and what follows from it.
pub(super) fn carry_out(stage: &mut impl Stage) {
    loop {
        let effects = stage.keep();
        if effects.is_empty() {
            return;
        }
        for effect in effects {
            match effect {
                Effect::Send(number, order) => stage.order(number, *order),
                Effect::Probe(probe) => {
                    if let Some(answer) = stage.at(&probe) {
                        let (core, _, now) = stage.parts();
                        core.probed(&probe, &answer, now);
                    }
                }
                Effect::Fit(job) => {
                    let answer = job.run();
                    let (core, _, now) = stage.parts();
                    core.fitted(answer, now);
                }
                Effect::Spawn { .. } => stage.spawned(),
                Effect::Tell(event) => stage.told(event),
                Effect::CloseLink(_)
                | Effect::ContractSettled { .. }
                | Effect::Declared(_)
                | Effect::Prepared { .. } => {}
            }
        }
    }
}

/// A broker answers as itself; it has read its Welcome before.
pub(super) fn present(broker: String, identity: Identity, probe: &Probe) -> ProbeAnswer {
    ProbeAnswer::Present(Present {
        broker,
        identity,
        life: probe.life,
    })
}

/// A topic at one broker.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct VirtualTopic {
    pub(super) is_paused: bool,
    /// With whether they are paused.
    pub(super) channels: BTreeMap<String, bool>,
    /// How often it or a channel was emptied.
    pub(super) emptied: u32,
}

/// Topics at one broker, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct VirtualTopics(pub(super) BTreeMap<String, VirtualTopic>);

impl VirtualTopics {
    /// A topic that is there.
    pub(super) fn get(&self, name: &str) -> Option<&VirtualTopic> {
        self.0.get(name)
    }

    /// Whether a topic is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A topic comes into being, without channels.
    pub(super) fn make(&mut self, name: &str) {
        self.0.entry(name.to_owned()).or_default();
    }

    /// As `Topic` says.
    pub(super) fn learn(&mut self, state: TopicState) {
        let topic = self.0.entry(state.topic).or_default();
        topic.is_paused = state.is_paused;
        for channel in state.channels {
            topic.channels.insert(channel.channel, channel.is_paused);
        }
    }

    /// As `Change` says; also by a client or an operator, but for what makes a topic. Whether there was anything to change.
    pub(super) fn change(&mut self, name: &str, change: &TopicChange) -> bool {
        let Some(topic) = self.0.get_mut(name) else {
            return false;
        };
        let before = topic.clone();
        let mut pause = |channel: &str, is_paused| {
            if let Some(state) = topic.channels.get_mut(channel) {
                *state = is_paused;
            }
        };
        match change {
            TopicChange::TopicCreated => {}
            TopicChange::TopicDeleted => return self.0.remove(name).is_some(),
            TopicChange::TopicPaused => topic.is_paused = true,
            TopicChange::TopicResumed => topic.is_paused = false,
            TopicChange::ChannelCreated { channel } => {
                topic.channels.entry(channel.clone()).or_default();
            }
            TopicChange::ChannelDeleted { channel } => drop(topic.channels.remove(channel)),
            TopicChange::ChannelPaused { channel } => pause(channel, true),
            TopicChange::ChannelResumed { channel } => pause(channel, false),
            TopicChange::TopicEmptied | TopicChange::ChannelEmptied { .. } => topic.emptied += 1,
        }
        *topic != before
    }

    /// As an inventory says it.
    pub(super) fn states(&self) -> Vec<TopicState> {
        let states = self.0.iter().map(|(name, topic)| TopicState {
            topic: name.clone(),
            is_paused: topic.is_paused,
            channels: (topic.channels.iter())
                .map(|(channel, &is_paused)| ChannelState {
                    channel: channel.clone(),
                    is_paused,
                })
                .collect(),
        });
        states.collect()
    }

    /// What a process leaves on disk.
    pub(super) fn forget_ephemeral(&mut self) {
        let lasts = |name: &String| !name.ends_with("#ephemeral");
        self.0.retain(|name, _| lasts(name));
        for topic in self.0.values_mut() {
            topic.channels.retain(|name, _| lasts(name));
        }
    }
}
