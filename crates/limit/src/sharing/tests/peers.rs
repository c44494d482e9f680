//! What the other limiters said last, where each is heard by name.

use super::super::{Remote, Update};

/// The latest update of every limiter that is not gone. One that was never heard counts as connected.
#[derive(Clone, Debug)]
pub struct Peers {
    latest: Vec<Update>,
    gone: Vec<bool>,
}

impl Peers {
    pub fn new(limiters: u32) -> Self {
        Peers {
            latest: vec![Update::default(); limiters as usize],
            gone: vec![false; limiters as usize],
        }
    }

    pub fn heard(&mut self, from: usize, update: Update) {
        self.latest[from] = update;
        self.gone[from] = false;
    }

    pub fn lost(&mut self, gone: usize) {
        self.latest[gone] = Update::default();
        self.gone[gone] = true;
    }

    pub fn remote(&self) -> Remote {
        let sum = |of: fn(Update) -> f64| -> f64 { self.latest.iter().copied().map(of).sum() };
        Remote {
            others: Update::measured(sum(Update::demand), sum(Update::passed)),
            connected: self.gone.iter().filter(|gone| !**gone).count() as u32,
        }
    }
}
