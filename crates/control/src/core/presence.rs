//! Whether brokers are where they say: probes of the addresses that they announce, and what follows
//! from the answers.
//!
//! An address counts once its broker has answered there, as itself, in this life; before that
//! nobody is sent there. Without the address for clients a broker counts for nothing; without
//! another, it does not count for what uses that one. A broker that does not answer is asked less
//! and less often, with at most one question under way per address.

use std::time::Duration;

use clock::Instant;
use link::Door;

use super::outbox::Outbox;
use super::registry::Brokers;
use super::{Broker, BrokerNumber, Effect, Liveness, Probe, ProbeAnswer, Settings};

/// Time between probes of a broker that has just lost its link; after the first probe of an address, from where it doubles.
const PROBE_INTERVAL: Duration = Duration::from_millis(50);

/// Longest pause between probes of an address where the broker has not answered.
const PROBE_PAUSE_MAX: Duration = Duration::from_secs(30);

/// So many misses in a row are told; a broker that reads its Welcome late misses the first.
const MISSES_TOLD: u32 = 2;

/// What is known of one of the addresses that a broker announces.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Presence {
    /// It has answered there, as itself, in this life.
    pub(super) has_answered: bool,
    /// Probes in a row that did not find it.
    misses: u32,
    /// The result of the last probe.
    found: Option<&'static str>,
    probed_at: Option<Instant>,
    is_under_way: bool,
}

impl Presence {
    fn is_due(&self, interval: Duration, now: Instant) -> bool {
        !self.is_under_way && self.probed_at.is_none_or(|at| now - at >= interval)
    }

    fn pause(&self) -> Duration {
        let doubled = PROBE_INTERVAL * (1 << self.misses.min(16));
        doubled.min(PROBE_PAUSE_MAX)
    }
}

impl Broker {
    /// Whether it has answered at this address, as itself, in this life.
    #[must_use]
    pub fn has_answered(&self, door: Door) -> bool {
        self.presence(door).has_answered
    }

    /// The address that it announces.
    #[must_use]
    pub fn announced(&self, door: Door) -> Option<&String> {
        match door {
            Door::Clients => Some(&self.tcp_address),
            Door::Http => self.http_address.as_ref(),
            Door::Gossip => self.gossip_address.as_ref(),
        }
    }

    /// The address that it announces, if it has answered there.
    #[must_use]
    pub fn answering(&self, door: Door) -> Option<&String> {
        self.announced(door).filter(|_| self.has_answered(door))
    }

    /// Why it does not count, or not for everything; `None` where it does.
    #[must_use]
    pub fn not_counted(&self) -> Option<String> {
        let is_here = self.liveness == Liveness::Up && self.link.is_some();
        let missing = Door::ALL
            .into_iter()
            .filter(|door| is_here && self.announced(*door).is_some() && !self.has_answered(*door));
        let texts: Vec<String> = missing
            .map(|door| format!("it {}", self.missing(door)))
            .collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    pub(super) fn presence(&self, door: Door) -> &Presence {
        &self.presences[door as usize]
    }

    pub(super) fn presence_mut(&mut self, door: Door) -> &mut Presence {
        &mut self.presences[door as usize]
    }

    /// The consequence of its not answering there; the subject of the sentence is the broker.
    fn missing(&self, door: Door) -> String {
        let address = self.announced(door).map_or("", String::as_str);
        let found = self.presence(door).found.unwrap_or("no answer yet");
        match door {
            Door::Clients => format!(
                "does not answer at {address}, the address that it announces ({found}): no publisher is sent there until it does; check its --broadcast-address"
            ),
            Door::Http => format!(
                "does not answer by HTTP at {address} ({found}): lookup does not name that address, and no queue is handed over to it; open the port, or check its --http-address and --broadcast-address"
            ),
            Door::Gossip => format!(
                "does not answer by UDP at {address} ({found}): it is not among the brokers that share limits by gossip, and topics with such limits pass nothing there; open the port, or check its --gossip-address"
            ),
        }
    }
}

/// What an answer shows of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// Nothing that was not known.
    Nothing,
    /// It is where it says, which nobody had seen in this life.
    Here,
    /// Its process is gone, and how one knows.
    Gone(&'static str),
}

impl Brokers {
    /// The result of a probe of a broker's address.
    pub(super) fn probed(
        &mut self,
        probe: &Probe,
        answer: &ProbeAnswer,
        out: &mut Outbox,
    ) -> Shown {
        let (number, door) = (probe.broker, probe.door);
        let broker = &mut self[number];
        if broker.life != probe.life || broker.announced(door) != Some(&probe.address) {
            return Shown::Nothing;
        }
        broker.presence_mut(door).is_under_way = false;
        let is_linked = broker.link.is_some();
        let is_silent = broker.liveness != Liveness::Up;
        let is_gone = door == Door::Clients && !is_linked;
        let found = match answer {
            ProbeAnswer::Present(present)
                if present.broker == broker.name && Some(present.identity) == broker.identity =>
            {
                match present.life == broker.life {
                    true => return self.has_answered(number, door),
                    // It has not read its Welcome yet, or a former process of it goes on there.
                    false => "another process of it answers",
                }
            }
            ProbeAnswer::Refused if is_gone => return Shown::Gone("nobody listens at its address"),
            ProbeAnswer::Present(_) if is_gone || door == Door::Clients && is_silent => {
                return Shown::Gone("another broker is at its address");
            }
            ProbeAnswer::Refused => "nobody listens",
            ProbeAnswer::Present(_) => "another broker answers",
            ProbeAnswer::Open => "what listens there proves nothing",
            ProbeAnswer::Silence => "no answer",
        };
        self.missed(number, door, found, out);
        Shown::Nothing
    }

    /// It is where it says.
    fn has_answered(&mut self, number: BrokerNumber, door: Door) -> Shown {
        let presence = self[number].presence_mut(door);
        (presence.misses, presence.found) = (0, None);
        match std::mem::replace(&mut presence.has_answered, true) {
            true => Shown::Nothing,
            false => Shown::Here,
        }
    }

    /// It is not where it says, or was too slow to say so.
    fn missed(&mut self, number: BrokerNumber, door: Door, found: &'static str, out: &mut Outbox) {
        let broker = &mut self[number];
        let presence = broker.presence_mut(door);
        presence.misses = presence.misses.saturating_add(1);
        presence.found = Some(found);
        let is_news = !presence.has_answered && presence.misses == MISSES_TOLD;
        if is_news && broker.link.is_some() {
            let text = format!("{} {}", broker.name, broker.missing(door));
            out.tell("problem", None, Some(broker), text);
        }
    }

    /// Asks at the addresses of a broker where it is time.
    pub(super) fn probe_due(
        &mut self,
        number: BrokerNumber,
        settings: &Settings,
        out: &mut Outbox,
        now: Instant,
    ) {
        for door in Door::ALL {
            let interval = self.probe_interval(number, door, settings);
            if interval.is_some_and(|least| self[number].presence(door).is_due(least, now)) {
                self.probe(number, door, now, out);
            }
        }
    }

    /// A broker without a link may have died just now, or its host still be closing its sockets: it is asked for
    /// again, and often while it is not silent yet.
    fn probe_interval(
        &self,
        number: BrokerNumber,
        door: Door,
        settings: &Settings,
    ) -> Option<Duration> {
        let broker = &self[number];
        match (broker.liveness, broker.link) {
            (Liveness::Up, Some(_)) => {
                let presence = broker.presence(door);
                (!presence.has_answered).then(|| presence.pause())
            }
            (Liveness::Dead, _) | (Liveness::Silent(_), Some(_)) => None,
            _ if door != Door::Clients => None,
            (Liveness::Up, None) => Some(PROBE_INTERVAL),
            (Liveness::Silent(_), None) => Some(settings.report_interval),
        }
    }

    /// Asks for it out of turn, not too often.
    pub(super) fn probe_again(&mut self, number: BrokerNumber, out: &mut Outbox, now: Instant) {
        let presence = self[number].presence(Door::Clients);
        if presence.is_due(PROBE_INTERVAL, now) {
            self.probe(number, Door::Clients, now, out);
        }
    }

    /// Asks at an address that the broker announces, unless a question is under way there.
    pub(super) fn probe(
        &mut self,
        number: BrokerNumber,
        door: Door,
        now: Instant,
        out: &mut Outbox,
    ) {
        let broker = &mut self[number];
        let Some(address) = broker.announced(door).cloned() else {
            return;
        };
        let (life, is_known) = (broker.life, broker.has_answered(Door::Clients));
        let presence = broker.presence_mut(door);
        if std::mem::replace(&mut presence.is_under_way, true) {
            return;
        }
        presence.probed_at = Some(now);
        let probe = Probe {
            broker: number,
            life,
            door,
            address,
            is_known,
        };
        out.push(Effect::Probe(probe));
    }
}
