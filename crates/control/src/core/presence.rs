//! Whether brokers are where they say: probes of their addresses, and what follows from the answers.
//!
//! A broker counts once it has answered at the address that it announced, as itself: before, nobody is sent there.

use std::time::Duration;

use clock::Instant;

use super::{BrokerNumber, Core, Effect, Liveness, Probe, ProbeAnswer};

/// Time between probes of a broker that has just lost its link.
const PROBE_INTERVAL: Duration = Duration::from_millis(50);

impl Core {
    /// What a probe of a broker's address found.
    pub fn probed(&mut self, probe: &Probe, answer: &ProbeAnswer, now: Instant) {
        let number = probe.broker;
        let broker = self.broker(number);
        if broker.life != probe.life || broker.tcp_address != probe.address {
            return;
        }
        let is_linked = broker.link.is_some();
        let is_silent = broker.liveness != Liveness::Up;
        match answer {
            ProbeAnswer::Refused if !is_linked => {
                self.dead(number, "nobody listens at its address", now);
            }
            ProbeAnswer::Present(present)
                if present.broker == broker.name && Some(present.identity) == broker.identity =>
            {
                self.is_where_it_says(number, now);
            }
            ProbeAnswer::Present(_) if !is_linked || is_silent => {
                self.dead(number, "another broker is at its address", now);
            }
            _ => self.missed(number),
        }
    }

    /// It is where it says.
    fn is_where_it_says(&mut self, number: BrokerNumber, now: Instant) {
        let broker = &mut self.brokers[number as usize];
        if std::mem::replace(&mut broker.has_answered, true) {
            return;
        }
        self.keep_broker(number);
        self.drive_sharers();
        self.drive_rounds();
        self.comes_up(number, now);
    }

    /// It is not where it says, or was too slow to say so.
    fn missed(&mut self, number: BrokerNumber) {
        let broker = &mut self.brokers[number as usize];
        let is_news = broker.link.is_some() && !broker.has_answered;
        if is_news && !std::mem::replace(&mut broker.is_missed, true) {
            let text = format!(
                "{} does not answer at {}, the address that it announces: nobody is sent there before it does; see its --broadcast-address",
                broker.name, broker.tcp_address
            );
            self.tell("problem", None, Some(number), text);
        }
    }

    /// A broker without a link may have died just now, or its host still be closing its sockets: it is asked for
    /// again, and often while it is not silent yet. So is one that has not answered yet, less often.
    pub(super) fn probe_due(&mut self, number: BrokerNumber, now: Instant) {
        let broker = &self.brokers[number as usize];
        let interval = match broker.liveness {
            Liveness::Up if broker.link.is_none() => PROBE_INTERVAL,
            Liveness::Up if broker.has_answered => return,
            Liveness::Silent(_) if broker.link.is_some() => return,
            Liveness::Up | Liveness::Silent(_) => self.settings.report_interval,
            Liveness::Dead => return,
        };
        if broker.probed_at.is_none_or(|at| now - at >= interval) {
            self.probe(number, now);
        }
    }

    /// Asks for it out of turn, not too often.
    pub(super) fn probe_again(&mut self, number: BrokerNumber, now: Instant) {
        let probed_at = self.broker(number).probed_at;
        if probed_at.is_none_or(|at| now - at >= PROBE_INTERVAL) {
            self.probe(number, now);
        }
    }

    pub(super) fn probe(&mut self, number: BrokerNumber, now: Instant) {
        let broker = &mut self.brokers[number as usize];
        broker.probed_at = Some(now);
        let probe = Probe {
            broker: number,
            life: broker.life,
            address: broker.tcp_address.clone(),
        };
        self.effects.push(Effect::Probe(probe));
    }
}
