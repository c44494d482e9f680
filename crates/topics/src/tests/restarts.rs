//! Brokers of one limit that die, come back with or without their data folder, join, and lose their
//! controller: in virtual time, with the ledger that divides the limit. Whatever happens, together
//! they never release more than the limit.

use std::collections::VecDeque;

use limit::{Grant, JudgedBy, Ledger, LedgerConfig, OnExceed, Report, Traffic, oracle};
use proptest::prelude::*;

use super::*;

const BROKERS: usize = 3;
const STEP_US: u64 = 10_000;
/// Reports, and what the ledger answers, come every so many steps.
const REPORT_STEPS: u64 = 10;

const ROOMY: Bounds = Bounds {
    mem_queue_size: 100_000,
    ..BOUNDS
};

#[derive(Clone, Debug)]
enum Step {
    Start(usize),
    Crash(usize),
    Link(usize),
    Unlink(usize),
    Publish(usize, usize),
    Advance(u64),
}

/// What the controller says.
#[derive(Clone, Debug)]
enum FromController {
    Contract,
    Topic,
    Complete,
    Grant(Grant),
}

/// A broker's place: its process, if it runs, and what outlives that.
#[derive(Default)]
struct Place {
    world: Option<World>,
    has_folder: bool,
    /// The data folder has the contract.
    is_kept: bool,
    is_linked: bool,
    /// This life has been linked before.
    is_known: bool,
    reports: u64,
    delay_us: u64,
    inbox: VecDeque<(Instant, FromController)>,
}

struct Cluster {
    now: Instant,
    steps: u64,
    limit: Limit,
    ledger: Ledger,
    places: Vec<Place>,
    releases: Vec<Instant>,
    /// What a broker does that holds nothing.
    is_careless: bool,
}

impl Cluster {
    fn new(on_exceed: OnExceed, folders: [bool; BROKERS], delays_us: [u64; BROKERS]) -> Cluster {
        let limit = Limit {
            on_exceed,
            judged_by: JudgedBy::Release,
            ..Limit::messages(40.0, 5.0).expect("valid")
        };
        let config = LedgerConfig {
            ttl: Duration::from_secs(3),
            ..LedgerConfig::default()
        };
        let place = |(has_folder, delay_us)| Place {
            has_folder,
            delay_us,
            ..Place::default()
        };
        Cluster {
            now: Instant::ZERO,
            steps: 0,
            limit,
            ledger: Ledger::new(limit, config, 1),
            places: folders.into_iter().zip(delays_us).map(place).collect(),
            releases: Vec::new(),
            is_careless: false,
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Start(at) => self.start(at),
            Step::Crash(at) => self.crash(at),
            Step::Link(at) => self.link(at),
            Step::Unlink(at) => self.unlink(at),
            Step::Publish(at, messages) => {
                if let Some(world) = &mut self.places[at].world {
                    for _ in 0..messages {
                        world.publish("t", &["m"]);
                    }
                }
            }
            Step::Advance(steps) => (0..steps).for_each(|_| self.advance()),
        }
    }

    fn start(&mut self, at: usize) {
        let (now, limit, is_careless) = (self.now, self.limit, self.is_careless);
        let place = &mut self.places[at];
        if place.world.is_some() {
            return;
        }
        let mut world = World::of(ROOMY, TopicTable::controlled);
        world.out.now = now;
        if is_careless {
            world.table.hear(Teller::GivenUp);
        }
        if place.has_folder && place.is_kept {
            let key = world.topic("t");
            world.table.set_limit(key, Some(limit), now);
            world.table.learn(&known()).expect("within bounds");
        }
        world.subscribe("t", "c", 1, u32::MAX);
        place.world = Some(world);
        place.is_known = false;
    }

    fn crash(&mut self, at: usize) {
        self.unlink(at);
        if let Some(mut world) = self.places[at].world.take() {
            self.releases.extend(world.released());
        }
    }

    /// A broker says hello, and is told everything; a former life of it is gone then.
    fn link(&mut self, at: usize) {
        let place = &mut self.places[at];
        if place.world.is_none() || place.is_linked {
            return;
        }
        let broker = at as u32;
        if !std::mem::replace(&mut place.is_known, true) {
            self.ledger.dead(broker);
        }
        self.ledger.join(broker, self.now);
        self.ledger.reconnected(broker, self.now);
        (place.is_linked, place.reports) = (true, 0);
        for said in [
            FromController::Contract,
            FromController::Topic,
            FromController::Complete,
        ] {
            place.say(said, self.now);
        }
    }

    fn unlink(&mut self, at: usize) {
        self.places[at].is_linked = false;
        self.places[at].inbox.clear();
    }

    fn advance(&mut self) {
        self.now += Duration::from_micros(STEP_US);
        self.steps += 1;
        for place in &mut self.places {
            place.advance(self.now, self.limit);
        }
        if !self.steps.is_multiple_of(REPORT_STEPS) {
            return;
        }
        for (broker, place) in (0u32..).zip(&mut self.places) {
            if let Some(report) = place.report(self.now) {
                self.ledger
                    .report(broker, &report, self.now)
                    .expect("a member of this epoch");
            }
        }
        for (broker, grant) in self.ledger.plan(self.now) {
            let place = &mut self.places[broker as usize];
            if place.is_linked {
                place.say(FromController::Grant(grant), self.now);
            }
        }
    }

    /// All releases so far, as of one bucket.
    fn excess(&mut self) -> f64 {
        for place in &mut self.places {
            if let Some(world) = &mut place.world {
                self.releases.extend(world.released());
            }
        }
        self.releases.sort_unstable();
        oracle::window_excess(&self.releases, self.limit.rate, self.limit.burst)
    }
}

impl Place {
    fn say(&mut self, said: FromController, now: Instant) {
        let at = now + Duration::from_micros(self.delay_us);
        self.inbox.push_back((at, said));
    }

    fn advance(&mut self, now: Instant, limit: Limit) {
        let Some(world) = &mut self.world else {
            return;
        };
        world.advance_us(STEP_US);
        while let Some((_, said)) = self.inbox.pop_front_if(|(at, _)| *at <= now) {
            match said {
                FromController::Contract => {
                    self.is_kept = true;
                    let key = world.topic("t");
                    world.table.set_limit(key, Some(limit), now);
                }
                FromController::Topic => {
                    world.table.learn(&known()).expect("within bounds");
                }
                FromController::Complete => {
                    world.table.hear(Teller::Answering);
                    world.table.settle_all(now);
                }
                FromController::Grant(grant) => {
                    let key = world.topic("t");
                    assert!(world.table.grant(key, &grant, now), "behind its contract");
                }
            }
            world.run();
        }
    }

    fn report(&mut self, now: Instant) -> Option<Report> {
        let world = self.world.as_mut().filter(|_| self.is_linked)?;
        self.reports += 1;
        let said = world.table.report(self.reports, usize::MAX, now).topics;
        let said = said.into_iter().next().unwrap_or_default();
        Some(Report {
            number: self.reports,
            confirmed: said.confirmed,
            held: said.held,
            traffic: Traffic::new(said.mean_rate, said.max_backlog).expect("in range"),
        })
    }
}

fn known() -> KnownTopic {
    KnownTopic {
        name: "t".parse().expect("valid"),
        is_paused: false,
        channels: vec![("c".parse().expect("valid"), false)],
    }
}

fn steps() -> impl Strategy<Value = Step> {
    let broker = 0..BROKERS;
    prop_oneof![
        2 => broker.clone().prop_map(Step::Start),
        1 => broker.clone().prop_map(Step::Crash),
        3 => broker.clone().prop_map(Step::Link),
        1 => broker.clone().prop_map(Step::Unlink),
        4 => (broker, 1..60usize).prop_map(|(at, messages)| Step::Publish(at, messages)),
        4 => (1..300u64).prop_map(Step::Advance),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn brokers_that_restart_and_join_never_release_more_than_the_limit(
        steps in prop::collection::vec(steps(), 1..60),
        folders in prop::array::uniform3(any::<bool>()),
        delays_us in prop::array::uniform3(0..60_000u64),
        is_drop in any::<bool>(),
    ) {
        let on_exceed = if is_drop { OnExceed::Drop } else { OnExceed::Delay };
        let mut cluster = Cluster::new(on_exceed, folders, delays_us);
        for step in &steps {
            cluster.step(step);
        }
        // When all is well again, it flows.
        for at in 0..BROKERS {
            cluster.start(at);
            cluster.link(at);
        }
        cluster.step(&Step::Advance(1_500));
        let excess = cluster.excess();
        prop_assert!(excess <= 1e-3, "{excess} tokens too many");
        let before = cluster.releases.len();
        cluster.step(&Step::Publish(0, 5));
        cluster.step(&Step::Advance(1_000));
        let excess = cluster.excess();
        prop_assert!(excess <= 1e-3, "{excess} tokens too many");
        prop_assert!(cluster.releases.len() > before, "nothing flows");
    }
}

#[test]
fn without_holding_what_is_not_known_a_restart_exceeds_the_limit() {
    let excess = |is_careless| {
        let mut cluster = Cluster::new(OnExceed::Drop, [false; BROKERS], [20_000; BROKERS]);
        cluster.is_careless = is_careless;
        for at in [0, 0, 0] {
            for step in [Step::Start(at), Step::Publish(at, 50), Step::Link(at)] {
                cluster.step(&step);
            }
            cluster.step(&Step::Advance(300));
            cluster.step(&Step::Crash(at));
        }
        cluster.excess()
    };
    assert!(excess(false) <= 1e-3);
    assert!(excess(true) > 40.0, "the law sees it");
}
