//! Publishers that divide a limit by announcements alone never exceed it together, and end with equal parts.

mod channel;

use std::time::Duration;

use channel::{Channel, TICK, World};
use limit::{Burst, Rate, Share, TokenBucket};
use proptest::collection::vec;
use proptest::prelude::*;
use wire::announce::Role;

const RATE: f64 = 1000.0;
const BURST: f64 = 20.0;

fn whole() -> Share {
    Share {
        rate: Rate::new(RATE).expect("in range"),
        burst: Burst::new(BURST).expect("in range"),
    }
}

/// What may happen to publishers.
#[derive(Clone, Copy, Debug)]
enum Event {
    Start,
    /// Ends without a word.
    Crash(usize),
    /// Says that it leaves, which may be lost.
    Leave(usize),
    /// Does not run for so many milliseconds.
    Stop(usize, u64),
    /// Its machine sleeps for so many milliseconds, at least an expiry.
    Sleep(usize, u64),
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let event = prop_oneof![
        3 => Just(Event::Start),
        1 => (0..8usize).prop_map(Event::Crash),
        1 => (0..8usize).prop_map(Event::Leave),
        1 => (0..8usize, 0..9000u64).prop_map(|(who, ms)| Event::Stop(who, ms)),
        1 => (0..8usize, 3000..9000u64).prop_map(|(who, ms)| Event::Sleep(who, ms)),
    ];
    vec((0..4000u64, event), 1..12)
}

/// The publishers, each of which publishes as much as it may, and what all of them together may publish.
struct Publishers {
    world: World,
    together: TokenBucket,
    messages: u64,
}

impl Publishers {
    fn new(channel: Channel, seed: u64) -> Publishers {
        let world = World::new(channel, seed);
        // Beyond b publishers each has a token of its own; there are fewer here.
        let together = TokenBucket::full(whole().rate, whole().burst, world.now);
        Publishers {
            world,
            together,
            messages: 0,
        }
    }

    fn run(&mut self, duration: Duration) -> Result<(), TestCaseError> {
        let until = self.world.now + duration;
        while self.world.now < until {
            self.world.tick();
            self.publish()?;
            let in_force = self.rates().iter().sum::<f64>();
            prop_assert!(
                in_force <= RATE,
                "{in_force} in force at {:?}",
                self.world.now
            );
        }
        Ok(())
    }

    fn publish(&mut self) -> Result<(), TestCaseError> {
        let now = self.world.now;
        for index in 0..self.world.endpoints.len() {
            if !self.world.is_running(index) {
                continue;
            }
            let Some(bucket) = &mut self.world.endpoints[index].bucket else {
                continue;
            };
            while bucket.departure(now, 1.0) == Some(now) {
                bucket.take(now, 1.0);
                self.messages += 1;
                prop_assert!(self.together.try_take(now, 1.0), "beyond (r, b) at {now:?}");
            }
        }
        Ok(())
    }

    fn rates(&self) -> Vec<f64> {
        let running = (0..self.world.endpoints.len()).filter(|&index| self.world.is_running(index));
        running
            .map(|index| self.world.endpoints[index].rate_in_force(self.world.now))
            .collect()
    }

    fn happen(&mut self, event: Event) {
        let now = self.world.now;
        let publishers = self.world.endpoints.len();
        match event {
            Event::Start if publishers < 8 => {
                self.world.start(Role::Publisher, Some(whole()));
            }
            Event::Crash(who) if who < publishers => self.world.endpoints[who].is_alive = false,
            Event::Leave(who) if who < publishers => {
                let endpoint = &mut self.world.endpoints[who];
                endpoint.is_alive = false;
                let leaving = endpoint.announcer.leave();
                self.world.send_all(who, &leaving);
            }
            Event::Stop(who, ms) if who < publishers => {
                self.world.stop(who, Duration::from_millis(ms));
            }
            Event::Sleep(who, ms) if who < publishers => {
                self.world.endpoints[who].stopped_until = now + Duration::from_millis(ms);
                self.world.endpoints[who].is_asleep = true;
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The law of `SubBucket`: while publishers start, crash, leave and are stopped, and announcements are lost,
    /// delayed and overtaken, the parts in force are at no instant more than the limit, nor is what is published. When all
    /// is quiet everybody has an equal part.
    #[test]
    fn parts_never_exceed_the_limit(
        events in events(), loss in 0.0..0.9f64, delay_ms in 0..300u64, seed: u64,
    ) {
        let delay = Duration::from_millis(delay_ms);
        let channel = Channel { loss, delay, is_fair: true };
        let mut publishers = Publishers::new(channel, seed);
        for (after_ms, event) in events {
            publishers.run(Duration::from_millis(after_ms))?;
            publishers.happen(event);
        }
        publishers.run(Duration::from_secs(40))?;
        let rates = publishers.rates();
        let part = RATE / rates.len() as f64;
        for rate in &rates {
            prop_assert!((rate - part).abs() <= part * 1e-6, "{rates:?}, not {part} each");
        }
    }
}

#[test]
fn most_of_the_limit_is_used_while_publishers_come_and_go() {
    let channel = Channel {
        loss: 0.1,
        delay: Duration::from_millis(2),
        is_fair: true,
    };
    let mut publishers = Publishers::new(channel, 7);
    publishers.happen(Event::Start);
    publishers
        .run(Duration::from_secs(4))
        .expect("within the limit");
    publishers.messages = 0;
    for _ in 0..4 {
        publishers.happen(Event::Start);
        publishers
            .run(Duration::from_secs(15))
            .expect("within the limit");
    }
    // Each newcomer leaves its part unused for the three seconds in which it listens; 60 s at the full rate were 60,000.
    assert!(publishers.messages > 54_000, "{}", publishers.messages);
}

#[test]
fn where_only_one_hears_the_other_that_one_yields() {
    let channel = Channel {
        loss: 0.0,
        delay: TICK,
        is_fair: false,
    };
    let mut publishers = Publishers::new(channel, 1);
    publishers.world.deaf.insert((1, 0));
    publishers.happen(Event::Start);
    publishers.happen(Event::Start);
    publishers
        .run(Duration::from_secs(20))
        .expect("within the limit");
    assert_eq!(publishers.rates(), [RATE, 0.0]);
    // Once both hear each other they divide it.
    publishers.world.deaf.clear();
    publishers
        .run(Duration::from_secs(20))
        .expect("within the limit");
    assert_eq!(publishers.rates(), [RATE / 2.0, RATE / 2.0]);
    // The first goes deaf while both use their part: until the second hears of it they use half as much again.
    publishers.world.deaf.insert((1, 0));
    let mut beyond = Duration::ZERO;
    for _ in 0..2000 {
        publishers.world.tick();
        let in_force = publishers.rates().iter().sum::<f64>();
        assert!(in_force <= RATE * 1.5);
        if in_force > RATE {
            beyond += TICK;
        }
    }
    assert!(beyond <= Duration::from_millis(100), "{beyond:?}");
    assert_eq!(publishers.rates(), [RATE, 0.0]);
}

/// The law needs that publishers hear each other; a parted network uses the limit once per side, as documented.
#[test]
fn each_side_of_a_parted_network_uses_the_whole_limit() {
    let mute = Channel {
        loss: 1.0,
        delay: TICK,
        is_fair: false,
    };
    let mut world = World::new(mute, 1);
    let sides = [0, 1].map(|_| world.start(Role::Publisher, Some(whole())));
    world.run(Duration::from_secs(5));
    for side in sides {
        assert_eq!(world.endpoints[side].rate_in_force(world.now), RATE);
    }
}
