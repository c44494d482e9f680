//! The source of arrivals: the spec, or a recording that is repeated for as long as the simulation
//! lasts.

use std::sync::Arc;

use workload::{Arrival, Arrivals};

/// Arrivals to be had again and again.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Those of the scene's spec.
    Spec,
    /// Those of a recording of this length.
    Recorded {
        arrivals: Arc<[Arrival]>,
        length_ns: u64,
    },
}

/// Arrivals in the order of time, without end.
#[derive(Clone, Debug)]
pub(crate) enum Stream {
    Spec(Arrivals),
    Recorded {
        arrivals: Arc<[Arrival]>,
        length_ns: u64,
        next: usize,
        /// When the present repetition began.
        begin_ns: u64,
    },
}

impl Source {
    pub(crate) fn stream(&self, spec: &workload::Spec) -> Stream {
        match self {
            Source::Spec => Stream::Spec(spec.arrivals()),
            Source::Recorded {
                arrivals,
                length_ns,
            } => Stream::Recorded {
                arrivals: Arc::clone(arrivals),
                length_ns: *length_ns,
                next: 0,
                begin_ns: 0,
            },
        }
    }
}

impl Iterator for Stream {
    type Item = Arrival;

    #[inline]
    fn next(&mut self) -> Option<Arrival> {
        match self {
            Stream::Spec(arrivals) => arrivals.next(),
            Stream::Recorded {
                arrivals,
                length_ns,
                next,
                begin_ns,
            } => {
                if *next == arrivals.len() {
                    *next = 0;
                    *begin_ns = begin_ns.saturating_add(*length_ns);
                }
                let arrival = *arrivals.get(*next)?;
                *next += 1;
                Some(Arrival {
                    at_ns: begin_ns.saturating_add(arrival.at_ns),
                    ..arrival
                })
            }
        }
    }
}
