//! Conservation under anything that clients and operators may do, in any order.

use proptest::prelude::*;

use link::OnFull;

use super::backlog::{Keeper, SPILLING};
use super::handover::{batch_of, queue_of};
use super::*;
use crate::WaitingPublisher;
use crate::channel::{Channel, ChannelKey};

#[derive(Clone, Debug)]
pub(super) enum Step {
    Publish { batch: usize, delay_us: u64 },
    Subscribe { channel: usize, ready: u32 },
    Leave(usize),
    Finish(usize),
    Requeue(usize, u64),
    Touch(usize),
    Pause(bool),
    PauseChannel(usize, bool),
    EmptyChannel(usize),
    Empty,
    DeleteChannel(usize),
    Limit(u32, u32),
    Unlimit,
    OnFull(Option<OnFull>),
    Stop,
    Advance(u64),
    Lift(Option<usize>),
    Settle(Option<usize>, bool),
    TakeOver(Option<usize>, u64),
    Keep(usize, bool),
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1..8usize, prop_oneof![Just(0u64), 1..50_000u64]).prop_map(|(batch, delay_us)| Step::Publish { batch, delay_us }),
        2 => (0..3usize, 0..6u32).prop_map(|(channel, ready)| Step::Subscribe { channel, ready }),
        1 => any::<usize>().prop_map(Step::Leave),
        6 => any::<usize>().prop_map(Step::Finish),
        2 => (any::<usize>(), 0..20_000u64).prop_map(|(number, us)| Step::Requeue(number, us)),
        1 => any::<usize>().prop_map(Step::Touch),
        1 => any::<bool>().prop_map(Step::Pause),
        1 => (0..3usize, any::<bool>()).prop_map(|(channel, paused)| Step::PauseChannel(channel, paused)),
        1 => (0..3usize).prop_map(Step::EmptyChannel),
        1 => Just(Step::Empty),
        1 => (0..3usize).prop_map(Step::DeleteChannel),
        1 => (1..2_000u32, 1..10u32).prop_map(|(rate, burst)| Step::Limit(rate, burst)),
        1 => Just(Step::Unlimit),
        1 => prop_oneof![Just(None), Just(Some(OnFull::Block)), Just(Some(OnFull::DropOldest))].prop_map(Step::OnFull),
        1 => (0..20u8).prop_map(|number| if number == 0 { Step::Stop } else { Step::Advance(90_000_000) }),
        4 => (1..100_000u64).prop_map(Step::Advance),
        3 => prop::option::of(0..3usize).prop_map(Step::Lift),
        3 => (prop::option::of(0..3usize), any::<bool>()).prop_map(|(queue, is_taken)| Step::Settle(queue, is_taken)),
        2 => (prop::option::of(0..3usize), 0..8u64).prop_map(|(queue, number)| Step::TakeOver(queue, number)),
        4 => (0..4usize, prop::bool::weighted(0.1)).prop_map(|(count, fails)| Step::Keep(count, fails)),
    ];
    prop::collection::vec(step, 1..120)
}

const CHANNELS: [&str; 3] = ["a", "b", "c#ephemeral"];

/// Plays steps against one topic and keeps the consumers' side of the books.
pub(super) struct Play {
    pub(super) world: World,
    keeper: Keeper,
    consumers: Vec<ConsumerKey>,
    flights: Vec<(ConsumerKey, u64)>,
}

impl Play {
    pub(super) fn new(bounds: Bounds) -> Play {
        Play {
            world: World::with(bounds),
            keeper: Keeper::default(),
            consumers: Vec::new(),
            flights: Vec::new(),
        }
    }

    pub(super) fn step(&mut self, step: &Step) {
        let now = self.world.now();
        let topic = self.world.topic("t");
        let channel = |number: usize| CHANNELS[number].parse().expect("valid");
        match *step {
            Step::Publish { batch, delay_us } => {
                let delay = Duration::from_micros(delay_us);
                if self
                    .world
                    .publish_arrived("t", &vec!["body"; batch], now, delay)
                    == Published::Full
                {
                    self.world.table.hold(topic, WaitingPublisher(1), false);
                }
            }
            Step::Subscribe { channel, ready } => self.subscribe(channel, ready),
            Step::Leave(number) if !self.consumers.is_empty() => {
                let key = self.consumers.swap_remove(number % self.consumers.len());
                self.world.table.unsubscribe(key, now);
            }
            Step::Finish(number) => {
                self.with_flight(number, |table, key, id| table.finish(key, id, now).is_ok())
            }
            Step::Requeue(number, us) => {
                let delay = Duration::from_micros(us);
                self.with_flight(number, |table, key, id| {
                    table.requeue(key, id, delay, now).is_ok()
                });
            }
            Step::Touch(number) => self.with_flight(number, |table, key, id| {
                table.touch(key, id, Duration::from_secs(2), now).is_ok()
            }),
            Step::Pause(paused) => self.world.table.pause(topic, paused),
            Step::Empty => self.world.table.empty(topic),
            Step::Limit(rate, burst) => self.world.limit("t", f64::from(rate), f64::from(burst)),
            Step::Unlimit => self.world.table.set_limit(topic, None, now),
            Step::OnFull(on_full) => self.world.table.set_on_full(topic, on_full),
            Step::Stop => self.world.table.begin_ending(Duration::from_secs(5), now),
            Step::Advance(us) => self.world.advance_us(us),
            Step::Lift(_) | Step::Settle(..) | Step::TakeOver(..) => self.hand_over(step),
            Step::PauseChannel(number, _)
            | Step::EmptyChannel(number)
            | Step::DeleteChannel(number) => {
                let name = channel(number);
                if let Some(key) = self.world.table.find_channel(topic, &name) {
                    self.operate(key, step);
                }
            }
            Step::Keep(count, fails) => {
                self.keeper.set_fails(fails);
                self.keeper.work(&mut self.world, count);
            }
            Step::Leave(_) => {}
        }
        self.world.run();
        while let Some(key) = self.world.table.effects.roomy.pop()
            && self.world.table.pop_waiting(key).is_some()
        {}
    }

    fn hand_over(&mut self, step: &Step) {
        let (now, table) = (self.world.now(), &mut self.world.table);
        let queue = |number: Option<usize>| queue_of("t", number.map(|number| CHANNELS[number]));
        match *step {
            Step::Lift(number) => {
                table.lift(&queue(number), Duration::from_millis(20), now);
            }
            Step::Settle(number, is_taken) => table.settle(&queue(number), is_taken, now),
            Step::TakeOver(number, batch) => {
                let _ = table.take_over(&queue(number), &batch_of(batch, &["x", "y"]), now);
            }
            _ => {}
        }
    }

    fn subscribe(&mut self, channel: usize, ready: u32) {
        let name = CHANNELS[channel].parse().expect("valid");
        let subscription = Subscription {
            connection: self.consumers.len() as u64,
            number: 0,
            msg_timeout: Duration::from_secs(1),
            sample_rate: 0,
            is_finished_when_sent: false,
        };
        if let Ok(key) = self.world.table.subscribe("t", &name, subscription) {
            self.world.table.set_ready(key, ready);
            self.consumers.push(key);
        }
    }

    fn operate(&mut self, key: ChannelKey, step: &Step) {
        match step {
            Step::PauseChannel(_, paused) => self.world.table.pause_channel(key, *paused),
            Step::EmptyChannel(_) => self.world.table.empty_channel(key),
            _ => self.world.table.delete_channel(key),
        }
    }

    /// Acts on a delivery of some consumer that has not left; what has timed out meanwhile fails.
    fn with_flight(
        &mut self,
        number: usize,
        act: impl FnOnce(&mut TopicTable, ConsumerKey, u64) -> bool,
    ) {
        for delivery in self.world.deliveries() {
            let owner = self.consumers.iter().find(|&&key| {
                self.world
                    .table
                    .consumer(key)
                    .is_some_and(|c| c.subscription.connection == delivery.connection)
            });
            self.flights.extend(owner.map(|&key| (key, delivery.id)));
        }
        if !self.flights.is_empty() {
            let (key, id) = self.flights.swap_remove(number % self.flights.len());
            act(&mut self.world.table, key, id);
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let table = &self.world.table;
        for (_, topic) in table.tree.topics.iter() {
            prop_assert!(topic.is_conserved(), "{topic:?}");
        }
        let mut references = table
            .tree
            .topics
            .iter()
            .map(|(_, topic)| topic.unfinished())
            .sum::<u64>() as usize;
        for (_, channel) in table.tree.channels.iter() {
            prop_assert!(channel.is_conserved(), "{channel:?}");
            let again = channel.deferred.iter().filter(|each| each.0.attempts > 0);
            prop_assert_eq!(channel.deferred_again, again.count());
            let away = channel.handing.lifted_again();
            prop_assert!(channel.deferred_again + away <= BOUNDS.deferred_max);
            prop_assert!(channel.dropped_oldest_count <= channel.dropped_count);
            references += channel.unfinished() as usize;
            let in_flight: u32 = channel
                .consumers
                .iter()
                .filter_map(|&key| table.consumer(key))
                .map(|c| c.in_flight_count)
                .sum();
            prop_assert_eq!(in_flight as usize, channel.in_flight_count());
        }
        prop_assert!(
            table.memory.store.len() <= references,
            "every stored message is in some queue"
        );
        let topics = table
            .tree
            .topics
            .iter()
            .map(|(_, topic)| topic.waiting.queue.outside());
        let channels = table.tree.channels.iter();
        let channels = channels.map(|(_, channel)| channel.queue.outside());
        let outside: usize = topics.chain(channels).sum();
        prop_assert_eq!(references == outside, table.memory.store.len() == 0);
        // What a stop would lose is all that is here and not ephemeral.
        let lost: u64 = table.losses().iter().map(|loss| loss.messages()).sum();
        let ephemeral = table.tree.channels.iter().map(|(_, channel)| channel);
        let ephemeral = ephemeral.filter(|channel| channel.name.is_ephemeral());
        let ephemeral: u64 = ephemeral.map(Channel::unfinished).sum();
        prop_assert_eq!(lost + ephemeral, references as u64);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_or_leaked(steps in steps(), spills: bool) {
        let mut play = Play::new(if spills { SPILLING } else { BOUNDS });
        for step in &steps {
            play.step(step);
            play.check()?;
        }
        let topic = play.world.topic("t");
        play.world.table.delete(topic);
        prop_assert_eq!(play.world.table.memory.store.len(), 0);
        play.keeper.set_fails(false);
        play.keeper.work(&mut play.world, usize::MAX);
        prop_assert_eq!(play.keeper.messages(), 0);
    }
}
