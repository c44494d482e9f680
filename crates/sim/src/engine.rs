//! The running cluster: arrivals at stations, reports and grants once a second, failures.
//!
//! There is no queue of events. Arrivals come from the spec in order of time. Stations are
//! independent of each other between two ticks and compute a departure once it is determined, so an
//! arrival costs a route, a service and a token, and memory does not grow with the simulated time.
//! Ticks (reports, grants, failures) stand between arrivals.

mod others;
mod outage;
mod recording;
mod shares;

pub(crate) use recording::{Recorded, Recording};

use std::iter::Peekable;

use clock::Instant;
use limit::History;
use limit::adaptor;
use placement::{BrokerIndex, Gate, PublisherIndex, Station};
use workload::Arrival;

use crate::Scene;
use crate::scene::Stream;
use others::OtherTopics;
use outage::{Event, Outages};
use recording::Recorder;
use shares::Shares;

/// Time between reports of the brokers.
const TICK_NS: u64 = 1_000_000_000;

/// Publishers that are placed nowhere.
const NOWHERE: u32 = u32::MAX;

/// Messages of the topic since the engine began. sent = delivered + lost + refused + waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) delivered: u64,
    /// Waited in a broker that died.
    pub(crate) lost: u64,
    /// More waited than a station holds.
    pub(crate) refused: u64,
    /// Of publishers that were told not to send.
    pub(crate) withheld: u64,
}

/// A cluster that runs.
pub(crate) struct Engine<'a> {
    scene: &'a Scene,
    arrivals: Peekable<Stream>,
    /// Broker by publisher, or [`NOWHERE`].
    route: Vec<u32>,
    stations: Vec<Station>,
    others: Vec<OtherTopics>,
    shares: Option<Shares>,
    /// By broker, where the TB Adaptor wants to know.
    histories: Vec<History>,
    outages: Outages,
    recorder: Recorder,
    counts: Counts,
    now_ns: u64,
    next_tick_ns: u64,
}

impl<'a> Engine<'a> {
    /// An idle cluster at `begin_ns` of the spec's arrivals; what was due before is skipped.
    pub(crate) fn new(scene: &'a Scene, begin_ns: u64) -> Self {
        let mut arrivals = scene.arrivals().peekable();
        while arrivals
            .next_if(|arrival| arrival.at_ns < begin_ns)
            .is_some()
        {}
        let gate = || match scene.limit {
            Some(_) => Gate::Shut,
            None => Gate::Open,
        };
        let now = Instant::from_nanos(begin_ns);
        let history = |_| History::new(adaptor::HistoryLength::default(), now);
        let brokers = scene.brokers.len();
        Engine {
            arrivals,
            route: vec![NOWHERE; scene.publishers.len()],
            stations: scene
                .models
                .iter()
                .map(|&model| Station::new(model, gate()))
                .collect(),
            others: (0..brokers)
                .map(|broker| OtherTopics::new(&scene.spec, broker, begin_ns))
                .collect(),
            shares: scene.limit.map(|limit| Shares::new(limit, scene)),
            histories: if scene.spec.topic.adaptor {
                (0..brokers).map(history).collect()
            } else {
                Vec::new()
            },
            outages: Outages::new(brokers),
            recorder: Recorder::new(brokers),
            counts: Counts::default(),
            now_ns: begin_ns,
            next_tick_ns: begin_ns + TICK_NS,
            scene,
        }
    }

    /// Moves publishers at once; who is placed nowhere does not send. Shares follow the placement.
    pub(crate) fn place(&mut self, broker_of: &[Option<BrokerIndex>]) {
        for (route, place) in self.route.iter_mut().zip(broker_of) {
            *route = place.map_or(NOWHERE, |broker| broker.0);
        }
        self.share_out();
    }

    /// Brokers of the spec's failures go away and come back from now on; times count from here.
    pub(crate) fn arm_failures(&mut self) {
        self.outages.arm(&self.scene.spec.failures, self.now_ns);
    }

    /// Runs on for so long.
    pub(crate) fn run_for(&mut self, span_ns: u64) {
        let end_ns = self.now_ns.saturating_add(span_ns);
        while self.now_ns < end_ns {
            let until_ns = end_ns.min(self.next_tick_ns).min(self.outages.next_ns());
            self.serve_until(until_ns);
            self.now_ns = until_ns;
            if until_ns == self.next_tick_ns {
                self.tick();
            }
            while let Some(event) = self.outages.due(until_ns) {
                self.happen(event);
            }
        }
    }

    /// Latencies count from now on, and arrivals are kept if they are to be replayed.
    pub(crate) fn begin_recording(&mut self, with_trace: bool) {
        self.recorder.begin(self.now_ns, with_trace);
    }

    /// Seconds are recorded one by one, too.
    pub(crate) fn keep_seconds(&mut self) {
        self.recorder.keep_seconds();
    }

    /// The recording since [`Engine::begin_recording`].
    pub(crate) fn end_recording(&mut self) -> Recording {
        self.recorder.end(self.now_ns)
    }

    pub(crate) fn counts(&self) -> Counts {
        debug_assert_eq!(
            self.counts.sent,
            self.counts.delivered + self.counts.lost + self.counts.refused + self.waiting(),
            "{:?}",
            self.counts
        );
        self.counts
    }

    /// Messages that wait for tokens.
    pub(crate) fn waiting(&self) -> u64 {
        let stations = self.stations.iter();
        stations.map(|station| station.waiting() as u64).sum()
    }

    /// Publishers by broker.
    pub(crate) fn publishers(&self) -> Vec<usize> {
        let mut publishers = vec![0; self.stations.len()];
        for &broker in self.route.iter().filter(|&&broker| broker != NOWHERE) {
            publishers[broker as usize] += 1;
        }
        publishers
    }

    fn serve_until(&mut self, until_ns: u64) {
        while let Some(arrival) = self.arrivals.next_if(|arrival| arrival.at_ns < until_ns) {
            let broker = self.route[arrival.publisher as usize];
            if broker == NOWHERE {
                self.counts.withheld += u64::from(arrival.messages);
            } else if self.outages.is_away(broker) {
                self.outages.hold(broker, arrival);
            } else {
                self.arrive(broker as usize, arrival.at_ns, arrival);
            }
        }
    }

    /// A publisher's batch reaches its broker at `at_ns`, at or after it was due.
    #[inline]
    fn arrive(&mut self, broker: usize, at_ns: u64, arrival: Arrival) {
        let station = &mut self.stations[broker];
        self.others[broker].until(at_ns, station);
        self.recorder.arrived(at_ns, &arrival);
        let base_ns = self.scene.models[broker].base_ns;
        let (counts, recorder) = (&mut self.counts, &mut self.recorder);
        counts.sent += u64::from(arrival.messages);
        let refused = station.arrive(
            at_ns,
            arrival.at_ns,
            PublisherIndex(arrival.publisher),
            arrival.messages,
            |left| {
                counts.delivered += 1;
                recorder.left(broker, &left, base_ns);
            },
        );
        counts.refused += u64::from(refused);
        if let Some(history) = self.histories.get_mut(broker) {
            let unfinished = match station.gate() {
                Gate::Bucket(bucket) => bucket.unfinished_at(Instant::from_nanos(at_ns)),
                Gate::Open | Gate::Shut => 0.0,
            };
            let backlog = station.waiting() as f64 + unfinished;
            history.arrived(
                Instant::from_nanos(at_ns),
                f64::from(arrival.messages),
                backlog,
            );
        }
    }

    /// Reports and grants.
    fn tick(&mut self) {
        self.next_tick_ns += TICK_NS;
        self.recorder.second();
        self.exchange();
    }

    /// Brokers report, and what they are granted is in force.
    fn exchange(&mut self) {
        let (now_ns, base_of) = (self.now_ns, &self.scene.models);
        let (counts, recorder) = (&mut self.counts, &mut self.recorder);
        let Some(shares) = &mut self.shares else {
            return;
        };
        for (broker, station) in self.stations.iter_mut().enumerate() {
            let base_ns = base_of[broker].base_ns;
            station.advance(now_ns, |left| {
                counts.delivered += 1;
                recorder.left(broker, &left, base_ns);
            });
        }
        shares.exchange(
            Instant::from_nanos(now_ns),
            &mut self.stations,
            &mut self.histories,
        );
    }

    /// Tells the ledger who carries how much, and goes on until its shares are in force.
    fn share_out(&mut self) {
        let Some(shares) = &mut self.shares else {
            return;
        };
        let mut rates = vec![0.0; self.stations.len()];
        for (publisher, &broker) in self.scene.publishers.iter().zip(&self.route) {
            if broker != NOWHERE && !self.outages.is_away(broker) {
                rates[broker as usize] += publisher.rate.get();
            }
        }
        shares.carry(&rates, Instant::from_nanos(self.now_ns));
        for _ in 0..Shares::ROUNDS_TO_SETTLE {
            self.exchange();
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Dies(broker) => {
                self.counts.lost += self.stations[broker as usize].lose_waiting();
                if let Some(shares) = &mut self.shares {
                    shares.dead(broker, &mut self.stations[broker as usize]);
                }
            }
            Event::TakenOver(broker) => self.take_over(broker),
            Event::Returns(_) => {}
        }
    }

    /// The publishers of a dead broker are placed elsewhere and send what they held back.
    fn take_over(&mut self, dead: u32) {
        let stays =
            |&broker: &u32| (broker != NOWHERE && broker != dead).then_some(BrokerIndex(broker));
        let placed: Vec<Option<BrokerIndex>> = self.route.iter().map(stays).collect();
        let available = |broker: u32| !self.outages.is_away(broker);
        let broker_of = crate::fit::place_again(self.scene, &placed, available);
        self.place(&broker_of);
        for arrival in self.outages.take_held(dead) {
            let broker = self.route[arrival.publisher as usize];
            if broker == NOWHERE {
                self.counts.withheld += u64::from(arrival.messages);
            } else {
                self.arrive(broker as usize, self.now_ns, arrival);
            }
        }
    }
}
