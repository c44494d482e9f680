//! Feeds events to the agent and carries out its effects: one loop over stream, reactors, changes
//! and time.

use std::future::Future;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::time::sleep;

use super::core::{Agent, Answer, Effect};
use super::errands;
use super::line::{Line, News};
use super::proof::Proof;
use crate::{Handle, sys};

/// An agent, its stream and what it has asked for.
pub(super) struct Shell<'a> {
    handle: &'a Handle,
    proof: Proof,
    agent: Agent,
    line: Line,
    errands: FuturesUnordered<BoxFuture<'static, Answer>>,
}

impl<'a> Shell<'a> {
    pub(super) fn new(handle: &'a Handle, proof: Proof, agent: Agent) -> Shell<'a> {
        Shell {
            handle,
            proof,
            agent,
            line: Line::Down,
            errands: FuturesUnordered::new(),
        }
    }

    /// Goes on until the broker stops.
    pub(super) async fn keep(&mut self) {
        self.agent.wake(sys::monotonic_now());
        loop {
            self.carry_out();
            if self.agent.is_over() {
                return;
            }
            self.wait().await;
        }
    }

    /// Does what the agent wants, and sends its next message if the last one is said.
    fn carry_out(&mut self) {
        let board = &self.handle.link;
        loop {
            while let Some(effect) = self.agent.next_effect() {
                match effect {
                    Effect::Dial(address) => self.line.dial(address, self.proof.clone()),
                    Effect::HangUp => {
                        self.line = Line::Down;
                        self.handle.changes.close();
                    }
                    Effect::Ask(errand) => {
                        let errand = errands::run(self.handle.clone(), errand);
                        self.errands.push(errand.boxed());
                    }
                    Effect::Sharers(sharers) => self.handle.sharing.listed(sharers),
                    Effect::Round(round) => self.handle.sharing.told_round(&round),
                    Effect::HandOver(to) => self.handle.handing.set_takers(to),
                    Effect::TakeOver(pass) => self.handle.handing.set_pass(pass),
                }
            }
            board.show(&self.agent);
            if !self.line.takes_word() || !self.agent.has_word() {
                return;
            }
            if let Some(message) = self.agent.next_message(sys::monotonic_now()) {
                self.line.say(&message, board);
            }
        }
    }

    /// Waits for what happens next and tells the agent.
    async fn wait(&mut self) {
        let (handle, agent) = (self.handle, &mut self.agent);
        let is_heard = agent.takes_orders();
        tokio::select! {
            news = self.line.next(is_heard, &handle.link) => {
                let now = sys::monotonic_now();
                match news {
                    News::Stands => agent.connected(now),
                    News::Said(order) => agent.heard(order, now),
                    News::Written => {}
                    News::Ended(ended) => {
                        handle.changes.close();
                        agent.ended(ended, now);
                    }
                }
            }
            Some(answer) = self.errands.next() => agent.answered(answer, sys::monotonic_now()),
            changes = handle.changes.next(), if agent.takes_changes() => {
                let now = sys::monotonic_now();
                match changes {
                    Ok(changes) => agent.changed(changes, now),
                    Err(_) => agent.changes_lost(now),
                }
            }
            () = handle.report_wanted() => agent.report_wanted(sys::monotonic_now()),
            () = until(agent.next_wake()) => agent.wake(sys::monotonic_now()),
        }
    }
}

/// Waits for an instant of the monotonic clock; `None` never comes.
fn until(at: Option<clock::Instant>) -> impl Future<Output = ()> {
    let pause = at.map(|at| at.saturating_since(sys::monotonic_now()));
    async move {
        match pause {
            Some(pause) => sleep(pause).await,
            None => std::future::pending().await,
        }
    }
}
