//! The agent's decisions: when and whom to dial, what to send in which order, whose orders to carry
//! out, and when to go on without a controller.
//!
//! No sockets, no clock, no reactors: messages and the time come in, messages and [`Effect`]s go
//! out. An errand is answered when it is done. Orders are carried out one after the other; beside
//! them at most one report, one inventory, one keeping of the catalog and the ends of windows are
//! under way.

mod absence;
mod controllers;
mod deletions;
mod dialling;
mod errand;
mod inventory;
mod orders;
mod outbox;
mod reports;
mod said;
mod windows;

use std::collections::VecDeque;
use std::time::Duration;

use clock::Instant;
use limit::adaptor::HistoryLength;
use link::{Hello, Order, ToBroker, ToController};
use topics::Told;

use crate::BrokerError;
use absence::Absence;
pub use controllers::CONTROLLERS_MAX;
use deletions::Deletions;
use dialling::Dialling;
pub use errand::{Answer, Effect, Ended, Errand, Figures};
use inventory::Inventory;
use orders::{Around, Follows, Orders};
use outbox::Outbox;
use reports::Reports;
use windows::Windows;

/// The controller has so long to answer a hello.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(5);
/// Length of a step of traffic histories (SRTM-long, section 5.4).
const HISTORY_STEP_MS: u64 = 1000;

/// The broker's side of the link to its controller.
#[derive(Debug)]
pub struct Agent {
    hello: Hello,
    /// The latest life of a controller that this broker has heard of.
    epoch: u64,
    standing: Standing,
    dialling: Dialling,
    orders: Orders,
    inventory: Inventory,
    reports: Reports,
    windows: Windows,
    absence: Absence,
    deletions: Deletions,
    outbox: Outbox,
}

/// How it stands with the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Nobody is dialled before that.
    Away(Instant),
    /// Somebody is.
    Dialling,
    /// The hello is to be answered until then.
    Greeting(Instant),
    Linked,
    /// The broker stops.
    Over,
}

/// Whether something is on its way that is asked one at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Asked {
    #[default]
    Nothing,
    /// For the link that stands, or for none.
    Now,
    /// For one that is gone.
    Before,
}

impl Asked {
    /// The link is gone.
    fn ends(&mut self) {
        if *self == Asked::Now {
            *self = Asked::Before;
        }
    }

    /// It is answered; whether somebody waits for the answer.
    fn is_answered(&mut self) -> bool {
        std::mem::take(self) == Asked::Now
    }
}

impl Agent {
    /// One that dials the first of `controllers` at once. The hello's life is filled in by the controller. Without a word from it
    /// for `pass_after` topics flow that nobody here knows; `None`: they are held until it speaks. Pauses are drawn from `seed`.
    #[must_use]
    pub fn new(
        hello: Hello,
        controllers: Vec<String>,
        pass_after: Option<Duration>,
        (seed, now): (u64, Instant),
    ) -> Agent {
        Agent {
            hello,
            epoch: 0,
            standing: Standing::Away(now),
            dialling: Dialling::new(controllers, seed),
            orders: Orders::default(),
            inventory: Inventory::default(),
            reports: Reports::new(now),
            windows: Windows::default(),
            absence: Absence::new(pass_after, now),
            deletions: Deletions::default(),
            outbox: Outbox::default(),
        }
    }

    /// The same for a broker that has heard of that life of a controller before it was started: orders of one before are none.
    #[must_use]
    pub fn obeying(self, epoch: u64) -> Agent {
        Agent { epoch, ..self }
    }

    /// The link stands, and both ends have proven the key.
    pub fn connected(&mut self, now: Instant) {
        if self.standing == Standing::Dialling {
            self.standing = Standing::Greeting(now + WELCOME_TIMEOUT);
            self.outbox.say(ToController::Hello(self.hello.clone()));
        }
    }

    /// The dial has failed, or the link is gone.
    pub fn ended(&mut self, ended: Ended, now: Instant) {
        let ended = match (self.standing, ended) {
            (Standing::Away(_) | Standing::Over, _) => return,
            (Standing::Linked, ended) => ended,
            (_, Ended::Lost(reason)) => Ended::Unreachable(reason),
            (_, ended) => ended,
        };
        self.end(ended, now);
        self.drive(now);
    }

    /// The controller says something.
    pub fn heard(&mut self, order: Order, now: Instant) {
        let heard = match self.standing {
            Standing::Greeting(_) => self.greeted(order),
            Standing::Linked => self.ordered(order),
            _ => Ok(()),
        };
        if let Err(ended) = heard {
            self.hang_up(ended, now);
        }
        self.drive(now);
    }

    /// Something became of topics here, in this order. To be called while [`Agent::takes_changes`].
    pub fn changed(&mut self, changes: VecDeque<Told>, now: Instant) {
        if self.takes_changes() {
            for message in changes.into_iter().map(inventory::message_of) {
                if let ToController::Followed { topic, change } = &message {
                    self.deletions.followed(topic, change);
                }
                self.outbox.say(message);
            }
        }
        self.drive(now);
    }

    /// Changes were thrown away, since they came faster than they were said: the next link says everything anew.
    pub fn changes_lost(&mut self, now: Instant) {
        if self.standing == Standing::Linked {
            let reason = String::from("too many changes of topics and channels waited for it");
            self.hang_up(Ended::Lost(reason), now);
        }
        self.drive(now);
    }

    /// Something waits for what a report brings.
    pub fn report_wanted(&mut self, now: Instant) {
        self.reports.want(now);
        self.drive(now);
    }

    /// An errand is done.
    pub fn answered(&mut self, answer: Answer, now: Instant) {
        match answer {
            Answer::Stock(stock) => {
                if let Err(error) = self.inventory.taken(stock, &mut self.outbox) {
                    self.failed("taking stock", error, now);
                }
            }
            Answer::Reported(figures) => {
                if let Err(error) = self.reports.taken(figures, now, &mut self.outbox) {
                    self.failed("reporting", error, now);
                }
            }
            Answer::Kept(kept) => self.deletions.kept(kept, &mut self.outbox),
            Answer::Window(topic, shown) => self.windows.ended(&topic, shown, &mut self.outbox),
            answer => {
                let (orders, mut around) = self.parts();
                if orders.answered(answer, now, &mut around) == Follows::Begun {
                    self.inventory.begins();
                    self.reports.begins(now);
                }
            }
        }
        self.drive(now);
    }

    /// Does what is due.
    pub fn wake(&mut self, now: Instant) {
        if let Standing::Greeting(until) = self.standing
            && until <= now
        {
            let reason = format!("no welcome within {WELCOME_TIMEOUT:?}");
            self.hang_up(Ended::Unreachable(reason), now);
        }
        self.drive(now);
    }

    /// When [`Agent::wake`] is to be called.
    #[must_use]
    pub fn next_wake(&self) -> Option<Instant> {
        let standing = match self.standing {
            Standing::Away(at) | Standing::Greeting(at) => Some(at),
            Standing::Dialling | Standing::Linked | Standing::Over => None,
        };
        let report = self.reports.next_at().filter(|_| self.outbox.has_room());
        let others = [report, self.windows.next_at(), self.absence.next_at()];
        others.into_iter().chain([standing]).flatten().min()
    }

    /// The next effect to carry out, in order.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.outbox.next_effect()
    }

    /// The next message to send, once the one before has been sent.
    pub fn next_message(&mut self, now: Instant) -> Option<ToController> {
        let message = self.outbox.next_message();
        // There may be room for what waited.
        self.drive(now);
        message
    }

    /// Whether something is to be said.
    #[must_use]
    pub fn has_word(&self) -> bool {
        self.outbox.has_some()
    }

    /// Whether the controller may say more; until then it is not read from.
    #[must_use]
    pub fn takes_orders(&self) -> bool {
        self.orders.has_room()
    }

    /// Whether changes may be told; until then they wait in their log.
    #[must_use]
    pub fn takes_changes(&self) -> bool {
        self.inventory.is_said() && self.outbox.has_room()
    }

    /// Number of this process's life, as the controller gave it; 0 before.
    #[must_use]
    pub fn life(&self) -> u64 {
        self.hello.life
    }

    /// Whether topics flow without the controller's answer, which did not come in time.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.absence.is_given_up()
    }

    /// Whether the controller has said everything on the link that stands.
    #[must_use]
    pub fn is_told_all(&self) -> bool {
        self.absence.is_there()
    }

    /// Whether the broker stops.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.standing == Standing::Over
    }

    /// The first message on a link.
    fn greeted(&mut self, Order { epoch, order }: Order) -> Result<(), Ended> {
        if let ToBroker::NotLeading { leader } = order {
            return Err(Ended::NotLeading(leader));
        }
        self.admit(epoch)?;
        match order {
            ToBroker::Welcome {
                life,
                report_interval_ms,
                history_window_ms,
            } => {
                self.hello.life = life;
                self.standing = Standing::Linked;
                self.reports.set_interval(report_interval_ms);
                let name = &self.hello.broker;
                tracing::info!("linked to the controller (epoch {epoch}) as broker {name}");
                self.orders.begins(self.epoch, history(history_window_ms));
                Ok(())
            }
            ToBroker::Refused { reason, passes } => Err(match passes {
                true => Ended::NotYet(reason),
                false => Ended::Refused(reason),
            }),
            _ => Err(Ended::Unreachable(String::from(
                "its first message is not a welcome",
            ))),
        }
    }

    /// A later one.
    fn ordered(&mut self, Order { epoch, order }: Order) -> Result<(), Ended> {
        self.admit(epoch)?;
        self.orders.push(order);
        Ok(())
    }

    /// Whether orders of a controller's life are to be carried out: those of the latest that this broker has heard of.
    fn admit(&mut self, epoch: u64) -> Result<(), Ended> {
        let latest = self.epoch;
        if epoch < latest {
            return Err(Ended::Outdated { epoch, latest });
        }
        self.epoch = epoch;
        Ok(())
    }

    /// An errand that the link rests on failed.
    fn failed(&mut self, what: &str, error: BrokerError, now: Instant) {
        let ended = match error {
            BrokerError::Exiting => Ended::Exiting,
            error => Ended::Lost(format!("{what}: {error}")),
        };
        self.hang_up(ended, now);
    }

    fn hang_up(&mut self, ended: Ended, now: Instant) {
        self.outbox.effect(Effect::HangUp);
        self.end(ended, now);
    }

    fn end(&mut self, ended: Ended, now: Instant) {
        self.absence.ends(now);
        self.orders.ends();
        self.inventory.ends();
        self.reports.ends();
        self.windows.ends();
        self.deletions.ends();
        self.outbox.forget();
        let is_over = matches!(ended, Ended::Exiting);
        let pause = self.dialling.ended(ended);
        self.standing = match is_over {
            true => Standing::Over,
            false => Standing::Away(now + pause),
        };
    }

    /// Begins what is due and has room.
    fn drive(&mut self, now: Instant) {
        if let Standing::Away(at) = self.standing
            && at <= now
        {
            self.standing = Standing::Dialling;
            let address = self.dialling.address().to_owned();
            self.outbox.effect(Effect::Dial(address));
        }
        if self.absence.is_late(now) {
            self.orders.give_up();
        }
        let (orders, mut around) = self.parts();
        orders.drive(&mut around);
        self.inventory.drive(&mut self.outbox);
        self.reports.drive(now, &mut self.outbox);
        self.windows.drive(now, &mut self.outbox);
        self.deletions.drive(&mut self.outbox);
    }

    fn parts(&mut self) -> (&mut Orders, Around<'_>) {
        let around = Around {
            absence: &mut self.absence,
            windows: &mut self.windows,
            deletions: &mut self.deletions,
            outbox: &mut self.outbox,
        };
        (&mut self.orders, around)
    }
}

/// A history of about this length; `None` where that is impossible: the present one stays.
fn history(window_ms: u64) -> Option<HistoryLength> {
    let steps = usize::try_from(window_ms / HISTORY_STEP_MS).unwrap_or(usize::MAX);
    let length = HistoryLength::new(steps, HISTORY_STEP_MS);
    let stays = |error| tracing::warn!("the history stays as it is: {error}");
    length.map_err(stays).ok()
}

#[cfg(test)]
mod tests;
