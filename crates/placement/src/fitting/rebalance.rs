//! The last resort of the measured way: everything once more, evenly over all brokers.
//!
//! A search fills one broker after the other, and the last one gets what is left over. With a tight
//! limit that can be too little: its sub-bucket is small, and a burst waits for tokens however idle
//! the broker is (SRTM-long, equation 1 and the max-min principle). So before a fit calls for more
//! brokers, one window shows whether an even distribution over those that are there would do.

use super::{Fitting, Step};
use crate::{BrokerIndex, OutOfBrokers};

/// The result of the search, while the even distribution is tried.
#[derive(Clone, Debug)]
pub(super) struct Fitted {
    home: Vec<Option<BrokerIndex>>,
    full: Vec<bool>,
}

impl Fitted {
    /// A broker came meanwhile.
    pub(super) fn add(&mut self, is_available: bool) {
        self.full.push(!is_available);
    }

    /// Nobody goes back to `broker`.
    pub(super) fn lose(&mut self, broker: BrokerIndex) {
        self.full[broker.0 as usize] = true;
        for home in &mut self.home {
            *home = home.filter(|&at| at != broker);
        }
    }
}

impl Fitting {
    /// The search left publishers over: tries the even distribution, once, or ends.
    pub(super) fn rebalance_or_end(&mut self, out: &OutOfBrokers) -> Step {
        let mut full = self.places.full.iter().zip(&self.places.brokers);
        let has_searched = full.any(|(full, broker)| *full && broker.is_available);
        let may_rebalance = has_searched && !self.has_rebalanced;
        match self.places.evenly().filter(|_| may_rebalance) {
            Some(even) => {
                self.has_rebalanced = true;
                self.fitted = Some(Fitted {
                    home: std::mem::replace(&mut self.places.home, even),
                    full: self.places.reopen(),
                });
                self.measure_all(&[])
            }
            None => self.out_of_brokers(out.missing, out.to_string()),
        }
    }

    /// The even distribution violated the SLO as well: back to what the search came to, which ends the fit
    /// unless brokers came meanwhile.
    pub(super) fn end_rebalance(&mut self, fitted: Fitted) -> Step {
        self.places.home = fitted.home;
        self.places.full = fitted.full;
        self.iterate()
    }

    /// The brokers are others than before: what was found out about the whole counts no more.
    pub(super) fn renew(&mut self) {
        self.recording.renew();
        self.iterations = 0;
        self.has_rebalanced = false;
        self.fitted = None;
    }
}
