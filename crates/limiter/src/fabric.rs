//! The fabric: how the sites of this process hear of each other and of all others.

use std::time::Duration;

use clock::{Instant, Streams, Xoshiro256PlusPlus, uniform};
use limit::sharing::{Remote, Update};

use crate::delay_queue::DelayQueue;

/// What carries numbers between sites. Sites and limits are counted as in [`crate::Config`].
pub trait Fabric: std::fmt::Debug {
    /// Tells the others what `site` found of `limit` in the interval that ends at `now`.
    fn tell(&mut self, now: Instant, site: usize, limit: usize, own: Update);

    /// What `site` knows of the others' part in `limit`.
    fn remote(&mut self, now: Instant, site: usize, limit: usize) -> Remote;
}

/// Numbers that need no gossip: all sites are in this process. They arrive exact, after a delay, or not at all.
#[derive(Debug)]
pub struct MemoryFabric {
    sites: usize,
    /// The latest update of each limit and site.
    heard: Vec<Vec<Update>>,
    /// The sum of all updates in `heard`, by limit.
    sums: Vec<(f64, f64)>,
    under_way: DelayQueue<(usize, usize, Update)>,
    delay: Duration,
    loss: f64,
    random: Xoshiro256PlusPlus,
}

impl MemoryFabric {
    /// Between `sites` sites about `limits` limits, each number `delay` under way and lost with the chance `loss`.
    pub fn new(sites: usize, limits: usize, delay: Duration, loss: f64, seed: u64) -> MemoryFabric {
        MemoryFabric {
            sites,
            heard: vec![vec![Update::default(); sites]; limits],
            sums: vec![(0.0, 0.0); limits],
            // Room for a second of numbers at the least interval that is offered.
            under_way: DelayQueue::new(1000 * sites * limits.max(1)),
            delay,
            loss,
            random: Streams::new(seed).stream("hearsay"),
        }
    }

    fn arrive(&mut self, now: Instant) {
        while let Some((_, (site, limit, update))) = self.under_way.pop_due(now) {
            self.heard[limit][site] = update;
            // Added up anew, not kept up to date: differences of floats would remain for ever.
            self.sums[limit] = self.heard[limit].iter().fold((0.0, 0.0), |sums, update| {
                (sums.0 + update.demand(), sums.1 + update.passed())
            });
        }
    }
}

impl Fabric for MemoryFabric {
    fn tell(&mut self, now: Instant, site: usize, limit: usize, own: Update) {
        if self.loss > 0.0 && chance(&mut self.random, self.loss) {
            return;
        }
        // Without room it is lost, as a network would lose it.
        let _ = self.under_way.push(now + self.delay, (site, limit, own));
    }

    fn remote(&mut self, now: Instant, site: usize, limit: usize) -> Remote {
        self.arrive(now);
        let own = self.heard[limit][site];
        let (demand, passed) = self.sums[limit];
        let others = Update::new(
            (demand - own.demand()).clamp(0.0, Update::MAX),
            (passed - own.passed()).clamp(0.0, Update::MAX),
        );
        Remote {
            others: others.unwrap_or_default(),
            connected: u32::try_from(self.sites).unwrap_or(u32::MAX),
        }
    }
}

/// Whether something with the given chance happens.
pub(crate) fn chance(random: &mut Xoshiro256PlusPlus, chance: f64) -> bool {
    uniform(random) < chance
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_arrive_after_their_delay_and_leave_out_ones_own() {
        let ms = Duration::from_millis(1);
        let mut fabric = MemoryFabric::new(3, 1, 20 * ms, 0.0, 1);
        let start = Instant::ZERO;
        for (site, demand) in [(0, 1.0), (1, 10.0), (2, 100.0)] {
            let update = Update::new(demand, 2.0 * demand).expect("numbers");
            fabric.tell(start, site, 0, update);
        }
        let early = fabric.remote(start + 19 * ms, 0, 0);
        assert_eq!((early.others, early.connected), (Update::default(), 3));
        let remote = fabric.remote(start + 20 * ms, 1, 0);
        assert_eq!(
            (remote.others.demand(), remote.others.passed()),
            (101.0, 202.0)
        );
    }

    #[test]
    fn what_is_lost_does_not_arrive() {
        let mut fabric = MemoryFabric::new(2, 1, Duration::ZERO, 0.5, 1);
        let mut arrived = 0;
        for second in 0..1000u64 {
            let now = Instant::from_nanos(second * 1_000_000_000);
            let update = Update::new(second as f64, 0.0).expect("numbers");
            fabric.tell(now, 0, 0, update);
            arrived += u32::from(fabric.remote(now, 1, 0).others.demand() == second as f64);
        }
        assert!((400..600).contains(&arrived), "{arrived}");
    }
}
