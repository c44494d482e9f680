//! Random draws of a task: when its next event arrives and how long it takes.

use std::time::Duration;

use clock::{Streams, Xoshiro256PlusPlus, uniform};

use super::spec::{Arrivals, Service};
use crate::gap;

/// The events of one task, in the order of time.
pub(super) struct EventSource<'a> {
    arrivals: &'a Arrivals,
    service: &'a Service,
    arrivals_random: Xoshiro256PlusPlus,
    service_random: Xoshiro256PlusPlus,
    phase: f64,
    arrived: u64,
    drawn: usize,
    at_ns: u64,
}

impl<'a> EventSource<'a> {
    /// From the beginning. Arrivals and service times draw from streams of their own, so that what a task is served for does not
    /// move its arrivals.
    pub(super) fn new(arrivals: &'a Arrivals, service: &'a Service, streams: Streams) -> Self {
        let mut arrivals_random = streams.stream("arrivals");
        EventSource {
            phase: uniform(&mut arrivals_random),
            arrivals,
            service,
            arrivals_random,
            service_random: streams.stream("service"),
            arrived: 0,
            drawn: 0,
            at_ns: 0,
        }
    }

    /// When the next event arrives; `None` after the last.
    pub(super) fn next_arrival_ns(&mut self) -> Option<u64> {
        let number = self.arrived;
        self.arrived += 1;
        self.at_ns = match self.arrivals {
            Arrivals::Poisson(rate) => {
                let gap_ns = gap::exponential_ns(&mut self.arrivals_random, 1e9 / rate);
                self.at_ns + gap_ns.round() as u64
            }
            Arrivals::Periodic(rate) => ((number as f64 + self.phase) * (1e9 / rate)) as u64,
            Arrivals::Bursts { every, events } => {
                let burst = number / u64::from(*events);
                ((burst as f64 + self.phase) * nanos(*every) as f64) as u64
            }
            Arrivals::Trace(times) => nanos(*times.get(usize::try_from(number).ok()?)?),
        };
        Some(self.at_ns)
    }

    /// How long the next event takes.
    pub(super) fn service_ns(&mut self) -> u64 {
        match self.service {
            Service::Constant(time) => nanos(*time),
            Service::Exponential(mean) => {
                gap::exponential_ns(&mut self.service_random, nanos(*mean) as f64).round() as u64
            }
            Service::Uniform(from, to) => {
                let width = nanos(*to - *from) as f64;
                nanos(*from) + (uniform(&mut self.service_random) * width).round() as u64
            }
            Service::Measured(times) => {
                let time = times[self.drawn];
                self.drawn = (self.drawn + 1) % times.len();
                nanos(time)
            }
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
