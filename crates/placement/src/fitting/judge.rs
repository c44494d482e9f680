//! What a window means: the decisions of the measured way, and the common ends of both.

use super::{BrokerFit, FitState, Fitting, Phase, Search, Step, Window, shedding_order};
use crate::BrokerIndex;

/// How often a window with too few samples is run again.
const MOST_REPEATS: u32 = 2;

impl Fitting {
    /// Whether the window must be run again because a broker whose answer is needed has none.
    pub(super) fn lacks_answers(&mut self) -> bool {
        let silent: Vec<u32> = self
            .judged()
            .filter(|&at| self.measured.own()[at].is_none())
            .map(|at| at as u32)
            .collect();
        if silent.is_empty() {
            self.repeats = 0;
            return false;
        }
        if self.repeats < MOST_REPEATS {
            self.repeats += 1;
            self.status.problem(format!(
                "window repeated: too few samples at brokers {silent:?}"
            ));
            return true;
        }
        self.repeats = 0;
        self.status.problem(format!(
            "brokers {silent:?} had too few samples in {} windows: they count as within the SLO",
            MOST_REPEATS + 1
        ));
        false
    }

    /// All brokers were measured with all that they carry.
    pub(super) fn judge(&mut self, window: &Window<'_>) -> Step {
        let judged_us: Vec<Option<f64>> = (0..self.measured.brokers() as u32)
            .map(|at| self.measured.judged_us(BrokerIndex(at)))
            .collect();
        self.recording.remember(&self.places.home, &judged_us);
        let violating: Vec<BrokerIndex> = (0u32..)
            .zip(&judged_us)
            .filter(|(_, latency)| latency.is_some_and(|latency| latency > self.config.slo_us))
            .map(|(at, _)| BrokerIndex(at))
            .filter(|&broker| self.places.home.contains(&Some(broker)))
            .collect();
        if violating.is_empty() {
            let is_complete = self.places.home.iter().all(Option::is_some);
            return if is_complete {
                self.done()
            } else {
                self.iterate()
            };
        }
        if let Some(fitted) = self.fitted.take() {
            return self.end_rebalance(fitted);
        }
        if let Some(step) = self.refit(window) {
            return step;
        }
        self.status.state = FitState::Measuring;
        let searches = violating
            .into_iter()
            .map(|broker| self.search_at(broker))
            .collect();
        self.search_on(searches)
    }

    /// A round of the search was measured.
    pub(super) fn narrow(&mut self, mut searches: Vec<Search>) -> Step {
        for search in searches.iter_mut().filter(|search| !search.is_settled()) {
            let latency = self.measured.judged_us(search.broker);
            search.narrow(latency, self.config.slo_us, self.config.band);
        }
        self.search_on(searches)
    }

    /// Puts the searches' next round into effect, or ends the iteration when all are settled.
    pub(super) fn search_on(&mut self, searches: Vec<Search>) -> Step {
        for search in &searches {
            for &publisher in search.kept() {
                self.places.home[publisher as usize] = Some(search.broker);
            }
            for &publisher in search.shed() {
                self.places.home[publisher as usize] = None;
            }
            if search.is_settled() {
                self.places.full[search.broker.0 as usize] = true;
                self.measured.set(search.broker, search.fitting_us());
            }
        }
        let under_way = searches.iter().filter(|search| !search.is_settled());
        let under_way: Vec<BrokerIndex> = under_way.map(|search| search.broker).collect();
        if under_way.is_empty() {
            self.show(&[]);
            return self.iterate();
        }
        self.phase = Phase::Searching(searches);
        Step::Measure(self.places.with_waiting(&under_way))
    }

    /// The next iteration: all that are left over are distributed over the brokers that are not full.
    pub(super) fn iterate(&mut self) -> Step {
        let most = 2 * self.places.brokers.len() as u32 + 8;
        self.iterations += 1;
        if self.iterations > most {
            let why = format!("no assignment held the SLO in {most} iterations");
            return self.out_of_brokers(self.places.left_over_rate(), why);
        }
        match self.places.settle() {
            Ok(()) => self.measure_all(&[]),
            Err(out) => self.rebalance_or_end(&out),
        }
    }

    /// Asks for the first window of an iteration.
    pub(super) fn measure_all(&mut self, predicted_us: &[Option<f64>]) -> Step {
        self.phase = Phase::Judging;
        let is_first = self.status.windows == 0;
        if !is_first {
            self.status.begin_iteration();
        }
        self.status.state = FitState::Placing;
        self.measured.clear();
        self.show(predicted_us);
        Step::Measure(self.places.home.clone())
    }

    pub(super) fn done(&mut self) -> Step {
        self.phase = Phase::Ended;
        self.status.state = FitState::Fitted;
        Step::Done(self.places.home.iter().copied().flatten().collect())
    }

    /// The end for want of brokers. The best measured complete assignment stays; if there is none,
    /// the publishers left over are spread over all brokers.
    pub(super) fn out_of_brokers(&mut self, missing: f64, why: String) -> Step {
        self.phase = Phase::Ended;
        self.status.state = FitState::OutOfBrokers;
        let best = self
            .recording
            .best()
            .unwrap_or_else(|| self.places.overfilled());
        Step::OutOfBrokers { best, missing, why }
    }

    /// Brings the status up to date with who is where and what was measured.
    pub(super) fn show(&mut self, predicted_us: &[Option<f64>]) {
        let counts = self.places.counts();
        let carrying = (0u32..)
            .zip(&counts)
            .filter(|(_, publishers)| **publishers > 0);
        let fits = carrying.map(|(at, &publishers)| BrokerFit {
            broker: BrokerIndex(at),
            publishers,
            p99_us: self.measured.own()[at as usize],
            predicted_p99_us: predicted_us.get(at as usize).copied().flatten(),
            full: self.places.full[at as usize],
        });
        self.status.brokers(fits.collect());
    }

    /// Brokers whose answer decides something, by index.
    fn judged(&self) -> impl Iterator<Item = usize> {
        let counts = self.places.counts();
        let searching: Option<Vec<usize>> = match &self.phase {
            Phase::Searching(searches) => {
                let under_way = searches.iter().filter(|search| !search.is_settled());
                Some(under_way.map(|search| search.broker.0 as usize).collect())
            }
            Phase::Judging | Phase::Ended => None,
        };
        (0..counts.len()).filter(move |at| {
            counts[*at] > 0
                && searching
                    .as_ref()
                    .is_none_or(|searching| searching.contains(at))
        })
    }

    /// A search at a broker that violates the SLO. One that was found full before is off by little: its latency
    /// tells where to begin.
    fn search_at(&self, broker: BrokerIndex) -> Search {
        let at = broker.0 as usize;
        let members = self.places.members(broker);
        let order = shedding_order(&self.places.publishers, members, self.config.policy);
        let aim_us = self.config.slo_us * (1.0 - self.config.band / 2.0);
        let latency_us = self
            .measured
            .judged_us(broker)
            .filter(|_| self.places.full[at]);
        Search::new(
            broker,
            order,
            latency_us.map(|latency| (aim_us / latency).max(0.5)),
        )
    }
}
