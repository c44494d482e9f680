//! The kernel under every order of steps that its threads can take, as far as loom finds them: with
//! a bounded number of switches away from a thread that could go on, and with all values that the
//! memory orders allow.
//!
//! `cargo test -p kernel --features loom --test loom`
#![cfg(feature = "loom")]

mod model {
    mod fifo;
    mod rest;
    mod schedule;

    /// Runs `model` in all orders with at most `preemptions` switches, with loads that may see old values and again with
    /// loads that collide with everything.
    pub fn check(preemptions: usize, model: impl Fn() + Clone + Send + Sync + 'static) {
        for collides in [false, true] {
            kernel::internals::let_loads_collide(collides);
            let mut builder = loom::model::Builder::new();
            builder.preemption_bound = Some(preemptions);
            builder.max_branches = 20_000;
            builder.check(model.clone());
        }
    }
}
