//! Carries out a controller's orders one after the other, in the order in which they arrive.
//!
//! A grant must find the contract that it belongs to, and the confirmation of a contract covers
//! those before it. The order holds across links too: an order that arrived over an earlier link is
//! completed first, and its result is told to nobody. Consecutive contracts are kept with one
//! write, and grants are handed out in batches.

use std::collections::VecDeque;

use clock::Instant;
use limit::adaptor::HistoryLength;
use link::{ToBroker, ToController, TopicChange};
use topics::Teller;

use super::Asked;
use super::absence::Absence;
use super::deletions::Deletions;
use super::errand::{Answer, Effect, Errand};
use super::outbox::Outbox;
use super::said;
use super::windows::{Measurement, Windows};
use crate::BrokerError;
use crate::handle::DeclaredContract;

/// Orders that wait to be carried out; as many as a controller lets wait for one broker.
pub(super) const ORDERS_MAX: usize = 4096;
/// Orders of one kind that are carried out at once.
const ORDERS_AT_ONCE: usize = 256;

/// The orders that came, and the one that is being carried out.
#[derive(Debug, Default)]
pub(super) struct Orders {
    waiting: VecDeque<Work>,
    asked: Asked,
    behind: Option<Behind>,
}

/// What orders touch beside themselves.
pub(super) struct Around<'a> {
    pub(super) absence: &'a mut Absence,
    pub(super) windows: &'a mut Windows,
    pub(super) deletions: &'a mut Deletions,
    pub(super) outbox: &'a mut Outbox,
}

/// An order that waits for its turn.
#[derive(Debug)]
enum Work {
    Order(ToBroker),
    Begin(u64, Option<HistoryLength>),
    GiveUp,
}

/// What to report of an errand's result.
#[derive(Debug)]
enum Behind {
    Begun,
    Contracts(Vec<(DeclaredContract, u64)>),
    Grants,
    Topic { topic: String, ticket: u64 },
    Change { topic: String, change: TopicChange },
    Window(Measurement),
    Plain(String),
}

/// The consequence for the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    Nothing,
    /// The broker is ready for a link: it says what is here, and reports.
    Begun,
}

impl Orders {
    /// A link begins.
    pub(super) fn begins(&mut self, epoch: u64, history: Option<HistoryLength>) {
        self.waiting.push_back(Work::Begin(epoch, history));
    }

    /// It is gone, and with it the orders that came by it.
    pub(super) fn ends(&mut self) {
        self.waiting.retain(|work| matches!(work, Work::GiveUp));
        self.asked.ends();
    }

    /// An order came.
    pub(super) fn push(&mut self, order: ToBroker) {
        self.waiting.push_back(Work::Order(order));
    }

    /// The controller has been away for too long.
    pub(super) fn give_up(&mut self) {
        self.waiting.push_front(Work::GiveUp);
    }

    /// Whether more may come.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < ORDERS_MAX
    }

    /// Begins what is next, unless something is being carried out.
    pub(super) fn drive(&mut self, around: &mut Around<'_>) {
        while self.asked == Asked::Nothing && around.outbox.has_room() {
            let Some(work) = self.waiting.pop_front() else {
                return;
            };
            let order = match work {
                Work::GiveUp if around.absence.gives_up() => {
                    let behind = Behind::Plain(String::from("letting topics flow"));
                    self.ask(Errand::Hear(Teller::GivenUp), behind, around);
                    continue;
                }
                Work::GiveUp => continue,
                Work::Begin(epoch, history) => {
                    let errand = Errand::BeginLink { epoch, history };
                    self.ask(errand, Behind::Begun, around);
                    continue;
                }
                Work::Order(order) => order,
            };
            if let ToBroker::Measure { topic, .. } = &order
                && around.windows.is_ending(topic)
            {
                self.waiting.push_front(Work::Order(order));
                return;
            }
            if let Err(text) = self.begin(order, around) {
                around.outbox.complain(text);
            }
        }
    }

    /// Something was carried out.
    pub(super) fn answered(
        &mut self,
        answer: Answer,
        now: Instant,
        around: &mut Around<'_>,
    ) -> Follows {
        let is_awaited = self.asked.is_answered();
        let Some(behind) = self.behind.take().filter(|_| is_awaited) else {
            return Follows::Nothing;
        };
        match (behind, answer) {
            (Behind::Begun, _) => return Follows::Begun,
            (Behind::Contracts(contracts), Answer::Declared(outcomes, unkept)) => {
                declared(contracts, outcomes, unkept.as_ref(), around.outbox);
            }
            (Behind::Grants, Answer::Granted(unknown, errors)) => {
                for topic in unknown {
                    let text = format!("share of {topic}: the topic has no limit here");
                    around.outbox.complain(text);
                }
                for error in errors {
                    around.outbox.complain(format!("shares: {error}"));
                }
            }
            (Behind::Topic { topic, ticket }, Answer::Learned(learned)) => match learned {
                Ok(true) => around
                    .outbox
                    .say(ToController::TopicReady { topic, ticket }),
                Ok(false) => {}
                Err(error) => around
                    .outbox
                    .complain(format!("channels of {topic}: {error}")),
            },
            // That something is deleted its reactor says, behind what it has said of it; where nothing is, this does.
            (
                Behind::Change { topic, change },
                Answer::Done(Err(BrokerError::TopicNotFound(_) | BrokerError::ChannelNotFound(_))),
            ) if change.is_deletion() => {
                around.deletions.followed(&topic, &change);
                around.outbox.say(ToController::Followed { topic, change });
            }
            (
                Behind::Change { .. },
                Answer::Done(Err(BrokerError::TopicNotFound(_) | BrokerError::ChannelNotFound(_))),
            ) => {}
            (Behind::Change { topic, .. }, Answer::Done(Err(error))) => {
                let text = format!("a change of {topic}: {error}");
                around.outbox.complain(text);
            }
            (Behind::Window(measurement), Answer::Done(begun)) => {
                around.windows.begun(measurement, begun, now, around.outbox);
            }
            (Behind::Plain(what), Answer::Done(Err(error))) => {
                around.outbox.complain(format!("{what}: {error}"));
            }
            _ => {}
        }
        Follows::Nothing
    }

    fn ask(&mut self, errand: Errand, behind: Behind, around: &mut Around<'_>) {
        (self.asked, self.behind) = (Asked::Now, Some(behind));
        around.outbox.ask(errand);
    }

    fn begin(&mut self, order: ToBroker, around: &mut Around<'_>) -> Result<(), String> {
        let plain = |what: &str| Behind::Plain(what.to_owned());
        match order {
            ToBroker::Contract { .. } => self.declare(order, around),
            ToBroker::Grant { .. } => self.grant(order, around),
            ToBroker::Renewed { report } => {
                self.ask(Errand::Renew(report), plain("renewing leases"), around);
            }
            ToBroker::Sharers(sharers) => around.outbox.effect(Effect::Sharers(sharers)),
            ToBroker::Round(round) => around.outbox.effect(Effect::Round(round)),
            ToBroker::HandOver { to } => around.outbox.effect(Effect::HandOver(to)),
            ToBroker::TakeOver { pass } => around.outbox.effect(Effect::TakeOver(pass)),
            ToBroker::Complete => {
                around.absence.begins();
                let errand = Errand::Hear(Teller::Answering);
                self.ask(errand, plain("letting topics flow"), around);
            }
            ToBroker::Topic { state, ticket } => {
                let errand = Errand::Learn(said::known(&state)?);
                let topic = state.topic;
                self.ask(errand, Behind::Topic { topic, ticket }, around);
            }
            ToBroker::Change { topic, change } => {
                if let Some(errand) = said::follow(&topic, &change)? {
                    self.ask(errand, Behind::Change { topic, change }, around);
                }
            }
            ToBroker::Measure { .. } => {
                let measurement = around.windows.ordered(order, around.outbox)?;
                around.windows.forget(&measurement.topic);
                let errand = Errand::BeginWindow(measurement.topic.clone(), measurement.order);
                self.ask(errand, Behind::Window(measurement), around);
            }
            ToBroker::Migrate { topic, moves } => {
                let errand = Errand::Migrate(said::name(&topic)?, moves);
                let what = format!("moving publishers of {topic}");
                self.ask(errand, Behind::Plain(what), around);
            }
            ToBroker::Welcome { .. } | ToBroker::NotLeading { .. } | ToBroker::Refused { .. } => {
                return Err(String::from("this message is not an order"));
            }
        }
        Ok(())
    }

    /// That contract and those right behind it.
    fn declare(&mut self, first: ToBroker, around: &mut Around<'_>) {
        let mut contracts = Vec::new();
        let is_contract = |order: &ToBroker| matches!(order, ToBroker::Contract { .. });
        for order in self.run(first, is_contract) {
            let ToBroker::Contract {
                topic,
                contract,
                limit_number: number,
                ticket,
            } = order
            else {
                continue;
            };
            match said::name(&topic) {
                Ok(topic) => contracts.push((
                    DeclaredContract {
                        maker: None,
                        topic,
                        contract,
                        number,
                    },
                    ticket,
                )),
                Err(text) => around.outbox.complain(text),
            }
        }
        if !contracts.is_empty() {
            let declarations = contracts.iter().map(|(each, _)| each.clone()).collect();
            let errand = Errand::Declare(declarations);
            self.ask(errand, Behind::Contracts(contracts), around);
        }
    }

    /// That grant and those right behind it.
    fn grant(&mut self, first: ToBroker, around: &mut Around<'_>) {
        let mut grants = Vec::new();
        for order in self.run(first, |order| matches!(order, ToBroker::Grant { .. })) {
            let ToBroker::Grant { topic, grant } = order else {
                continue;
            };
            match said::name(&topic) {
                Ok(topic) => grants.push((topic, grant)),
                Err(text) => around.outbox.complain(text),
            }
        }
        if !grants.is_empty() {
            self.ask(Errand::Grant(grants), Behind::Grants, around);
        }
    }

    /// `first` and the orders of its kind that wait right behind it, as many as are carried out at once.
    fn run(&mut self, first: ToBroker, is_of_kind: impl Fn(&ToBroker) -> bool) -> Vec<ToBroker> {
        let mut run = vec![first];
        while run.len() < ORDERS_AT_ONCE
            && let Some(Work::Order(next)) = self
                .waiting
                .pop_front_if(|work| matches!(work, Work::Order(order) if is_of_kind(order)))
        {
            run.push(next);
        }
        run
    }
}

/// Reports of each contract whether it is in force. One that cannot be kept is in force
/// nevertheless, because the controller keeps it and sends it again.
fn declared(
    contracts: Vec<(DeclaredContract, u64)>,
    outcomes: Vec<Result<(), BrokerError>>,
    unkept: Option<&BrokerError>,
    outbox: &mut Outbox,
) {
    for ((declared, ticket), outcome) in contracts.into_iter().zip(outcomes) {
        let is_empty = declared.contract.is_empty();
        let topic = declared.topic.to_string();
        match outcome {
            Ok(()) => {}
            // A topic that is not there has nothing declared.
            Err(BrokerError::TopicNotFound(_)) if is_empty => {}
            Err(error) => {
                outbox.complain(format!("contract of {topic}: {error}"));
                continue;
            }
        }
        if let Some(why) = unkept {
            let text = format!("contract of {topic}: it is in force, but not kept yet: {why}");
            outbox.complain(text);
        }
        outbox.say(ToController::ContractInForce { topic, ticket });
    }
}
