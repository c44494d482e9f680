//! Watches Σ shares ≤ limit for as long as a check runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use limit::Limit;

use super::TOPIC;
use api::Controller;
use bench::sys::pause_for;

/// Looks at the shares that brokers report, again and again.
#[derive(Debug)]
pub(super) struct ShareWatch {
    is_over: Arc<AtomicBool>,
    looks: Arc<AtomicU64>,
    violations: Arc<AtomicU64>,
}

impl ShareWatch {
    /// Begins to look.
    pub(super) fn start(api: Controller, limit: Limit) -> ShareWatch {
        let watch = ShareWatch {
            is_over: Arc::default(),
            looks: Arc::default(),
            violations: Arc::default(),
        };
        let (is_over, looks) = (Arc::clone(&watch.is_over), Arc::clone(&watch.looks));
        let violations = Arc::clone(&watch.violations);
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                pause_for(Duration::from_millis(20));
                let Ok(view) = api.topic(TOPIC) else {
                    continue;
                };
                let shares = view.brokers.iter().filter_map(|broker| broker.share);
                let (rate, burst) = shares.fold((0.0, 0.0), |(rate, burst), share| {
                    (rate + share.rate.get(), burst + share.burst.get())
                });
                looks.fetch_add(1, Ordering::Relaxed);
                let is_within = |sum: f64, most: f64| sum <= most * (1.0 + 1e-9);
                if !is_within(rate, limit.rate.get()) || !is_within(burst, limit.burst.get()) {
                    violations.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        watch
    }

    /// Times looked, and times that the sum was above the limit.
    pub(super) fn end(self) -> (u64, u64) {
        self.is_over.store(true, Ordering::Relaxed);
        (
            self.looks.load(Ordering::Relaxed),
            self.violations.load(Ordering::Relaxed),
        )
    }
}
