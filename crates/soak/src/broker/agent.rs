//! Around the product's [`Agent`]: its stream and its errands, in place of tokio's tasks
//! (`broker/agent/{shell,line,errands}.rs`). In half of the processes errands take a moment.

use std::collections::VecDeque;
use std::time::Duration;

use broker::agent::{Agent, Answer, ChangeLog, Effect, Ended, Errand};
use clock::Instant;
use link::{Hello, Order, ToBroker};
use topics::Told;

use super::ground::Ground;
use super::process::Process;
use super::{http_address, tcp_address};
use crate::event::{Actor, Packet, Port, StreamId};
use crate::outside::Outside;

/// A dial takes at most so long.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest that errands take where they take time, drawn for each process.
const SLOWNESS_MS: [u64; 4] = [0, 0, 5, 50];

/// The agent, the stream that it has dialled, and what it has asked for.
pub(super) struct Link {
    pub(super) agent: Agent,
    changes: ChangeLog,
    /// Something was logged that the agent has not taken.
    has_changes: bool,
    line: Line,
    /// Orders that it does not take yet.
    unheard: VecDeque<Order>,
    errands: VecDeque<(Instant, Errand)>,
    slowness_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Down,
    Dialling(StreamId, Instant),
    Up(StreamId),
}

impl Link {
    pub(super) fn new(ground: &Ground, out: &mut Outside) -> Link {
        let hello = Hello {
            broker: ground.name.clone(),
            identity: ground.identity,
            life: 0,
            tcp_address: tcp_address(ground.place),
            http_address: Some(http_address(ground.place)),
            gossip_address: Some(tcp_address(ground.place)),
            mcap: None,
            model: None,
        };
        let born = (out.chance.number(), ground.local(out.net.now));
        Link {
            agent: Agent::new(hello, vec![String::from("controller")], None, born),
            changes: ChangeLog::default(),
            has_changes: false,
            line: Line::Down,
            unheard: VecDeque::new(),
            errands: VecDeque::new(),
            slowness_ms: out.chance.pick(&SLOWNESS_MS),
        }
    }

    /// Whether a stream is the link.
    pub(super) fn is_on(&self, stream: StreamId) -> bool {
        match self.line {
            Line::Down => false,
            Line::Dialling(of, _) | Line::Up(of) => of == stream,
        }
    }

    /// Something became of topics.
    pub(super) fn log(&mut self, told: &mut Vec<Told>) {
        if !told.is_empty() {
            self.has_changes = true;
            self.changes.post(told);
        }
    }

    /// When something is to be done next.
    pub(super) fn next_at(&self, ground: &Ground) -> Option<Instant> {
        let dial = match self.line {
            Line::Dialling(_, until) => Some(until),
            _ => None,
        };
        let wake = self.agent.next_wake().map(|at| ground.outer(at));
        let errand = self.errands.iter().map(|(at, _)| *at).min();
        [dial, wake, errand].into_iter().flatten().min()
    }

    /// A dial has come through.
    pub(super) fn connected(&mut self, stream: StreamId, ground: &Ground, out: &Outside) {
        self.line = Line::Up(stream);
        self.agent.connected(ground.local(out.net.now));
    }

    /// The stream is gone.
    pub(super) fn gone(&mut self, ground: &Ground, out: &Outside) {
        let reason = String::from("the stream is gone");
        let ended = match self.line {
            Line::Up(_) => Ended::Lost(reason),
            _ => Ended::Unreachable(reason),
        };
        self.hang_up();
        self.agent.ended(ended, ground.local(out.net.now));
    }

    /// The controller says something.
    pub(super) fn said(&mut self, order: Order) {
        self.unheard.push_back(order);
    }

    /// Lets the agent hear what it takes; whether there was anything.
    fn hear(&mut self, ground: &Ground, out: &mut Outside) -> bool {
        let mut is_heard = false;
        while self.agent.takes_orders()
            && let Some(order) = self.unheard.pop_front()
        {
            let welcome = match &order.order {
                ToBroker::Welcome { life, .. } => Some(*life),
                ToBroker::Contract {
                    topic,
                    contract,
                    ticket,
                    ..
                } => {
                    let contracts = &mut out.books.contracts;
                    contracts.told(ground.place, topic, *ticket, *contract);
                    None
                }
                _ => None,
            };
            self.agent.heard(order, ground.local(out.net.now));
            if welcome == Some(self.agent.life()) {
                let owner = (ground.name.as_str(), ground.identity);
                let life = (self.agent.life(), ground.memory());
                let welcomed = out.books.names.welcomed(owner, life);
                out.books.check("names", welcomed);
            }
            is_heard = true;
        }
        is_heard
    }

    fn hang_up(&mut self) {
        self.line = Line::Down;
        self.unheard.clear();
        self.changes.close();
    }

    /// Does what is due.
    pub(super) fn wake(&mut self, ground: &Ground, out: &mut Outside) {
        if let Line::Dialling(stream, until) = self.line
            && until <= out.net.now
        {
            out.net.close(stream, ground.me);
            self.gone(ground, out);
        }
        self.agent.wake(ground.local(out.net.now));
    }

    /// Tells the agent what waits for it, and says what it has to say; whether there was anything.
    fn speak(&mut self, ground: &Ground, out: &mut Outside) -> bool {
        let now = ground.local(out.net.now);
        let mut is_new = self.hear(ground, out);
        if self.has_changes && self.agent.takes_changes() {
            self.has_changes = false;
            let Some(changes) = self.changes.take() else {
                return true;
            };
            is_new = true;
            match changes {
                Ok(changes) => self.agent.changed(changes, now),
                Err(_) => self.agent.changes_lost(now),
            }
        }
        while let Line::Up(stream) = self.line
            && let Some(message) = self.agent.next_message(now)
        {
            is_new = true;
            let contracts = &mut out.books.contracts;
            let said = contracts.said(ground.place, &message, &ground.catalog());
            out.books.check("contracts", said);
            out.say(stream, ground.me, Packet::ToController(Box::new(message)));
        }
        is_new
    }

    /// The agent's next errand, once its time has come.
    fn errand(&mut self, now: Instant) -> Option<Errand> {
        let due = self.errands.iter().position(|(at, _)| *at <= now)?;
        self.errands.remove(due).map(|(_, errand)| errand)
    }

    fn ask(&mut self, errand: Errand, out: &mut Outside) {
        if let Errand::TakeStock = errand {
            self.changes.open();
        }
        let after = match self.slowness_ms {
            0 => Duration::ZERO,
            most => out.chance.span_ms(0, most),
        };
        self.errands.push_back((out.net.now + after, errand));
    }
}

impl Process {
    /// Lets the agent go on as far as it can now; whether it could.
    pub(super) fn carry_on(&mut self, out: &mut Outside) -> bool {
        let mut has_gone_on = false;
        loop {
            if let Some(effect) = self.link.agent.next_effect() {
                self.effect(effect, out);
            } else if self.keeping.is_wait_over() {
                let now = self.ground.local(out.net.now);
                self.link.agent.answered(Answer::Kept(Ok(())), now);
            } else if let Some(errand) = self.link.errand(out.net.now) {
                if let Some(answer) = self.run(errand, out) {
                    let now = self.ground.local(out.net.now);
                    self.link.agent.answered(answer, now);
                }
            } else if !self.link.speak(&self.ground, out) {
                return has_gone_on;
            }
            has_gone_on = true;
        }
    }

    fn effect(&mut self, effect: Effect, out: &mut Outside) {
        match effect {
            Effect::Dial(_) => {
                let stream = out.net.dial(self.ground.me, Actor::Controller, Port::Link);
                self.link.line = Line::Dialling(stream, out.net.now + DIAL_TIMEOUT);
            }
            Effect::HangUp => {
                if let Line::Dialling(stream, _) | Line::Up(stream) = self.link.line {
                    out.net.close(stream, self.ground.me);
                }
                self.link.hang_up();
            }
            Effect::Ask(errand) => self.link.ask(errand, out),
            Effect::Sharers(sharers) => self.gossip.told_sharers(&sharers, &mut self.ground, out),
            Effect::Round(round) => self.gossip.told_round(&round, &self.ground, out),
            Effect::HandOver(to) => self.handing.set_takers(to, out.net.now),
            Effect::TakeOver(pass) => self.handing.set_pass(pass),
        }
    }
}
