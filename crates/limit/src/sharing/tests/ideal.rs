//! Flows as the paper's appendix has them: given numbers a_i of unbottlenecked flows and rates B_i
//! of bottlenecked ones.
//!
//! At every instant each unbottlenecked flow of limiter i asks for [`ASKED`] times (l_i − B_i)/a_i,
//! and the limiter hears every update of the last interval. The question that remains is where the
//! local limits go.

use std::time::Duration;

use clock::{Instant, Xoshiro256PlusPlus, stream, uniform};
use rand::Rng;

use super::super::{Limiter, Policy, Remote, Sharing, SharingConfig, Update};

/// L, units per second.
pub const LIMIT: f64 = 1_000_000.0;

/// What greedy flows ask for, as a multiple of what there is for them. More than the policy's headroom of 5 %: flows that
/// never want more than the headroom are not held back, and their limit follows them as slowly as it grows.
const ASKED: f64 = 1.1;

const STEP: Duration = Duration::from_millis(5);

/// Flows at one limiter: a_i and B_i.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demands {
    pub unbottlenecked: u32,
    /// Units per second, of three flows.
    pub bottlenecked: f64,
}

pub struct Ideal {
    pub limiters: Vec<Box<dyn Limiter>>,
    pub demands: Vec<Demands>,
    now: Instant,
    interval: Duration,
    told: Vec<Update>,
    random: Xoshiro256PlusPlus,
    /// Tells the flows of one set of demands from those of the next.
    generation: u64,
}

/// The allocation of the appendix: U · a_i/A + B_i.
pub fn allocation(demands: &[Demands]) -> Vec<f64> {
    let bottlenecked: f64 = demands.iter().map(|at| at.bottlenecked).sum();
    let flows: f64 = demands.iter().map(|at| f64::from(at.unbottlenecked)).sum();
    let each = (LIMIT - bottlenecked) / flows;
    let of = |at: &Demands| each * f64::from(at.unbottlenecked) + at.bottlenecked;
    demands.iter().map(of).collect()
}

/// Demands of `count` limiters, of which every flow that is bottlenecked has less than its fair share.
pub fn any_demands(count: usize, random: &mut Xoshiro256PlusPlus) -> Vec<Demands> {
    let mut below = |most: u64| random.next_u64() % most;
    let flows: Vec<u32> = (0..count).map(|_| below(8) as u32).collect();
    let all: u32 = flows.iter().sum::<u32>().max(1);
    // Half a fair share for each of the three.
    let most = 1.5 * LIMIT / f64::from(all + 3 * count as u32);
    let mut demands: Vec<Demands> = flows
        .into_iter()
        .map(|unbottlenecked| Demands {
            unbottlenecked,
            bottlenecked: if below(2) == 0 { 0.0 } else { most },
        })
        .collect();
    demands[0].unbottlenecked = demands[0].unbottlenecked.max(1);
    demands
}

impl Ideal {
    pub fn new(sharing: &Sharing, demands: Vec<Demands>, seed: u64) -> Self {
        let limiters = (0..sharing.config().limiters)
            .map(|index| sharing.limiter(index, Instant::ZERO).expect("in range"))
            .collect::<Vec<_>>();
        Ideal {
            told: vec![Update::default(); limiters.len()],
            limiters,
            demands,
            now: Instant::ZERO,
            interval: sharing.config().estimate_interval,
            random: stream(seed, "ideal"),
            generation: 0,
        }
    }

    pub fn fps(limiters: usize, interval_ms: u64) -> Sharing {
        let depth = LIMIT * 0.06;
        let config = SharingConfig::bytes(Policy::Fps, LIMIT, depth, limiters as u32);
        let config = SharingConfig {
            estimate_interval: Duration::from_millis(interval_ms),
            ..config.expect("in range")
        };
        config.checked().expect("sane")
    }

    /// Other demands, of other flows.
    pub fn change(&mut self, demands: Vec<Demands>) {
        self.demands = demands;
        self.generation += 1;
    }

    pub fn local_limits(&self) -> Vec<f64> {
        let rates = self
            .limiters
            .iter()
            .map(|limiter| limiter.part().rate.get());
        rates.collect()
    }

    /// One estimate interval.
    pub fn interval(&mut self) {
        let end = self.now + self.interval;
        while self.now < end {
            self.step();
        }
        let sums =
            |field: fn(Update) -> f64| self.told.iter().map(|&told| field(told)).sum::<f64>();
        let (demand, passed) = (sums(Update::demand), sums(Update::passed));
        for (limiter, told) in self.limiters.iter_mut().zip(&mut self.told) {
            let others = Update::new(
                (demand - told.demand()).max(0.0),
                (passed - told.passed()).max(0.0),
            );
            let remote = Remote {
                others: others.expect("sums of updates"),
                connected: self.demands.len() as u32,
            };
            *told = limiter.estimate(self.now, remote);
        }
    }

    fn step(&mut self) {
        self.now += STEP;
        for (at, (limiter, demands)) in self.limiters.iter_mut().zip(&self.demands).enumerate() {
            let local_limit = limiter.part().rate.get();
            let flows = demands.unbottlenecked;
            let left = (local_limit - demands.bottlenecked).max(0.05 * local_limit);
            let each = ASKED * left / f64::from(flows.max(1));
            let offers = flows + 3;
            // Who comes last is refused most.
            let first = (uniform(&mut self.random) * f64::from(offers)) as u32;
            for place in 0..offers {
                let flow = (first + place) % offers;
                let rate = if flow < flows {
                    each
                } else {
                    demands.bottlenecked / 3.0
                };
                let name = (self.generation << 32) | (at as u64) << 16 | u64::from(flow);
                if rate > 0.0 {
                    limiter.handle(self.now, name, rate * STEP.as_secs_f64());
                }
            }
        }
    }
}
