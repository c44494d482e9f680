//! Faults begin and end.

use std::time::Duration;

use super::World;
use crate::event::{Actor, Ask, Event};
use crate::faults::{Fault, Loss};
use crate::network::Host;

/// Two lives of the controller whose numbers could not be kept begin so far apart at least.
const LIVES_APART: Duration = Duration::from_secs(1);

impl World {
    pub(super) fn fault(&mut self, fault: Fault) {
        let out = &mut self.out;
        match fault {
            Fault::Kill(actor) => self.kill(actor),
            Fault::Dark(actor) => {
                out.net.set_dark(actor.host(), true);
                self.kill(actor);
                if let Actor::Broker(place) = actor {
                    self.brokers[place].folder.crash();
                    if let Some(disk) = &self.brokers[place].disk {
                        disk.crash();
                        self.out.books.deliveries.powerless(place);
                    }
                }
            }
            Fault::Start(actor) => self.start(actor),
            Fault::Pause(actor) => {
                self.paused.entry(actor.host()).or_default();
            }
            Fault::Resume(actor) => self.resume(actor.host()),
            Fault::Cut(ways) => {
                for (from, to) in ways {
                    out.net.cut(from, to);
                }
            }
            Fault::Mend(ways) => {
                for (from, to) in ways {
                    out.net.mend(from, to);
                }
            }
            Fault::Reset(percent) => {
                for stream in out.net.made() {
                    if out.chance.below(100) < percent {
                        out.net.reset(stream);
                    }
                }
            }
            Fault::StoreFull(is_full) => self.controller.disk.set_full(is_full),
            Fault::FolderFull(place, is_full) => self.brokers[place].folder.set_full(is_full),
            Fault::DiskAils(place, ailment) => {
                if let Some(disk) = &self.brokers[place].disk {
                    disk.ails(ailment);
                    self.out.books.deliveries.doubt(place);
                }
            }
            Fault::Weather(weather) => out.net.weather = weather,
            Fault::Answers(lost) => out.net.answers_lost = lost,
            Fault::Wish(ask) => self.operator.wish(*ask, out),
            Fault::Calm => self.calm(),
        }
    }

    pub(super) fn kill(&mut self, actor: Actor) {
        self.paused.remove(&actor.host());
        self.down.insert(actor);
        match actor {
            Actor::Controller => self.controller.kill(&mut self.out),
            Actor::Broker(place) => self.brokers[place].kill(&mut self.out),
            _ => {}
        }
    }

    fn start(&mut self, actor: Actor) {
        self.down.remove(&actor);
        self.out.net.set_dark(actor.host(), false);
        match actor {
            Actor::Controller if !self.controller.is_running() => {
                self.controller.start(&mut self.out);
                if self.controller.disk.is_full() && self.controller.is_running() {
                    // As `control::Service::run` does where the number of its life is not kept.
                    self.paused.entry(actor.host()).or_default();
                    let goes_on = Event::Fault(Fault::Resume(actor));
                    self.out.net.after(LIVES_APART, goes_on);
                }
                if !self.controller.is_running() {
                    // It cannot write its store; who runs it tries again.
                    let again = Event::Fault(Fault::Start(actor));
                    self.down.insert(actor);
                    self.out.net.after(super::LOOK_INTERVAL * 4, again);
                }
            }
            Actor::Broker(place) => {
                self.brokers[place].start(&mut self.out);
                if !self.brokers[place].is_running() {
                    // It cannot read its disk; who runs it tries again.
                    let again = Event::Fault(Fault::Start(actor));
                    self.down.insert(actor);
                    self.out.net.after(super::LOOK_INTERVAL * 4, again);
                }
            }
            _ => {}
        }
    }

    fn resume(&mut self, host: Host) {
        for event in self.paused.remove(&host).unwrap_or_default() {
            let now = self.out.net.now;
            self.out.net.agenda.note(now, event);
        }
    }

    /// Everything works from now on.
    fn calm(&mut self) {
        self.out.net.mend_all();
        self.out.net.weather = self.plan.weather;
        self.out.net.answers_lost = 0.0;
        self.controller.disk.set_full(false);
        for host in self.paused.keys().copied().collect::<Vec<_>>() {
            self.resume(host);
        }
        for broker in &mut self.brokers {
            broker.folder.set_full(false);
            if let Some(disk) = &broker.disk {
                disk.ails(None);
            }
        }
        let stray = Actor::Broker(self.plan.brokers);
        for actor in self.down.clone() {
            if actor != stray {
                self.start(actor);
            }
        }
        self.kill(stray);
        self.out.books.deliveries.bury(self.plan.brokers);
        if let Some((place, loss)) = self.plan.lost {
            self.lost = Some(place);
            self.fault(loss.fault(place, self.plan.brokers));
            // Nobody gets what it holds.
            let memory = (place, self.brokers[place].life);
            self.out.books.deliveries.gone(memory);
            self.out.books.deliveries.bury(place);
        }
        for consumer in &mut self.consumers {
            consumer.behave();
        }
        for place in 0..self.plan.brokers {
            let wish = Ask::Drain(format!("b{place}"), false);
            self.operator.wish(wish, &mut self.out);
        }
        for topic in self.plan.topics.clone() {
            for channel in crate::plan::CHANNELS {
                let change = link::TopicChange::ChannelResumed {
                    channel: channel.to_owned(),
                };
                let wish = Ask::Change(topic.name.clone(), change);
                self.operator.wish(wish, &mut self.out);
            }
            // Nobody consumes them, and full ones hold their topic up. Those that are deleted already are not deleted again: they stay so.
            for channel in crate::faults::FLEETING {
                if !self.operator.wants(&topic.name, channel) {
                    continue;
                }
                let change = link::TopicChange::ChannelDeleted {
                    channel: channel.to_owned(),
                };
                let wish = Ask::Change(topic.name.clone(), change);
                self.operator.wish(wish, &mut self.out);
            }
        }
        for law in self.out.books.gossiped.values_mut() {
            // Where it is dead for certain it is on no list any more.
            let lost = self.plan.lost.filter(|(_, loss)| *loss != Loss::Killed);
            law.calm(
                lost.map(|(place, _)| place),
                self.plan.brokers,
                self.out.net.now,
            );
        }
        self.begin_recovery();
    }
}
