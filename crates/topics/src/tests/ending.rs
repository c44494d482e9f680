//! A stop in virtual time: how long it waits, for whom, and what it reports as lost.

use super::*;
use crate::WaitingPublisher;

const SECOND_US: u64 = 1_000_000;
const PATIENCE: Duration = Duration::from_secs(5);

/// Consumers of a stop: each finishes one message every so many microseconds, or none.
struct Stop {
    world: World,
    consumers: Vec<(ConsumerKey, Option<u64>)>,
    in_flight: Vec<(u64, u64)>,
}

impl Stop {
    fn new() -> Stop {
        let bounds = Bounds {
            mem_queue_size: 10_000,
            ..BOUNDS
        };
        Stop {
            world: World::with(bounds),
            consumers: Vec::new(),
            in_flight: Vec::new(),
        }
    }

    fn consume(&mut self, topic: &str, channel: &str, ready: u32, finishes_every_us: Option<u64>) {
        let connection = self.consumers.len() as u64;
        let key = self.world.subscribe(topic, channel, connection, ready);
        self.consumers.push((key, finishes_every_us));
    }

    /// Stops; gives how long that took, in microseconds, and how many messages were lost.
    fn run(&mut self) -> (u64, u64) {
        let begin = self.world.now();
        self.world.table.begin_ending(PATIENCE, begin);
        self.world.run();
        let mut next_us: Vec<u64> = self
            .consumers
            .iter()
            .map(|(_, each)| each.unwrap_or(0))
            .collect();
        let step_us = 500;
        loop {
            let elapsed_us = (self.world.now() - begin).as_micros() as u64;
            for delivery in self.world.deliveries() {
                self.in_flight.push((delivery.connection, delivery.id));
            }
            for (connection, &(key, every_us)) in self.consumers.iter().enumerate() {
                let Some(every_us) = every_us else { continue };
                while next_us[connection] <= elapsed_us {
                    next_us[connection] += every_us;
                    let mine = |&(owner, _): &(u64, u64)| owner == connection as u64;
                    let Some(at) = self.in_flight.iter().position(mine) else {
                        continue;
                    };
                    let (_, id) = self.in_flight.remove(at);
                    let now = self.world.now();
                    let finished = self.world.table.finish(key, id, now);
                    assert_eq!(finished, Ok(()));
                }
            }
            self.world.run();
            let now = self.world.now();
            if self.world.table.has_ended(now) {
                let losses = self.world.table.losses();
                return (elapsed_us, losses.iter().map(|loss| loss.messages()).sum());
            }
            self.world.advance_us(step_us);
        }
    }
}

#[test]
fn with_nobody_to_wait_for_a_stop_ends_at_once_and_names_what_is_lost() {
    let mut stop = Stop::new();
    assert_eq!(stop.run(), (0, 0));
    let mut stop = Stop::new();
    stop.consume("t", "c", 0, None);
    let (key, now) = (stop.consumers[0].0, stop.world.now());
    stop.world.table.unsubscribe(key, now);
    stop.world.publish("t", &["m"; 3]);
    stop.world
        .publish_arrived("t", &["later"], now, Duration::from_secs(60));
    stop.world.publish("no_channel", &["m"; 2]);
    stop.world.publish("t#ephemeral", &["m"; 2]);
    stop.consumers.clear();
    assert_eq!(stop.run(), (0, 6), "ephemeral ones do not count");
    let losses = stop.world.table.losses();
    let told: Vec<_> = losses
        .iter()
        .map(|loss| {
            (
                loss.topic.as_str(),
                loss.channel.is_some(),
                loss.queued,
                loss.deferred,
            )
        })
        .collect();
    assert!(
        told.contains(&("t", true, 3, 1)) && told.contains(&("no_channel", false, 2, 0)),
        "{told:?}"
    );
}

#[test]
fn who_makes_progress_is_drained_to_the_end() {
    let mut stop = Stop::new();
    stop.consume("t", "c", 1, Some(100_000));
    stop.world.publish("t", &["m"; 200]);
    let (took_us, lost) = stop.run();
    assert_eq!(lost, 0);
    assert!(
        took_us > 19 * SECOND_US,
        "four times its patience: {took_us} us"
    );
}

#[test]
fn without_progress_a_stop_waits_as_long_as_it_is_told() {
    let mut stop = Stop::new();
    stop.consume("t", "c", 5, None);
    stop.world.publish("t", &["m"; 20]);
    assert_eq!(stop.run(), (5 * SECOND_US, 20));
}

#[test]
fn what_hangs_at_one_consumer_goes_to_another_that_works() {
    let mut stop = Stop::new();
    stop.consume("t", "c", 2_500, None);
    stop.world.publish("t", &["m"; 2_500]);
    stop.consume("t", "c", 10, Some(1_000));
    stop.world.publish("t", &["m"; 2_500]);
    let (took_us, lost) = stop.run();
    assert_eq!(lost, 0);
    assert!(
        took_us >= 10 * SECOND_US,
        "2.5 s, the patience, 2.5 s: {took_us} us"
    );
}

#[test]
fn a_channel_that_holds_a_topic_up_does_not_cost_another_one_its_messages() {
    let mut stop = Stop::new();
    stop.consume("t", "stalled", 0, None);
    stop.consume("t", "good", 10, Some(1_000));
    // 10,000 are all that one channel takes: 5,000 wait behind them in the topic.
    stop.world.publish("t", &["m"; 5_000]);
    stop.world.publish("t", &["m"; 5_000]);
    stop.world.publish("t", &["m"; 5_000]);
    let (_, lost) = stop.run();
    assert_eq!(lost, 15_000, "those of the stalled one, and no other");
    let losses = stop.world.table.losses();
    assert_eq!(losses.len(), 1);
    assert_eq!(
        losses[0].channel.as_ref().map(|name| name.as_str()),
        Some("stalled")
    );
}

#[test]
fn delays_that_end_soon_are_waited_for() {
    let mut stop = Stop::new();
    stop.consume("t", "c", 10, Some(1_000));
    let now = stop.world.now();
    for delay_s in [3, 7, 30] {
        let delay = Duration::from_secs(delay_s);
        stop.world.publish_arrived("t", &["later"], now, delay);
    }
    let (took_us, lost) = stop.run();
    assert_eq!(lost, 1, "the last is due too late");
    assert!(
        (7 * SECOND_US..13 * SECOND_US).contains(&took_us),
        "{took_us}"
    );
}

#[test]
fn nothing_new_comes_in() {
    let mut world = World::with(BOUNDS);
    let topic = world.topic("t");
    world.publish("t", &["m"; 10]);
    world.table.hold(topic, WaitingPublisher(1), false);
    let now = world.now();
    world.table.begin_ending(PATIENCE, now);
    assert!(matches!(
        world.table.effects.without_topic[..],
        [WaitingPublisher(1)]
    ));
    assert_eq!(world.publish("t", &["m"]), Published::Gone);
}
