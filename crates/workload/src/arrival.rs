//! From a spec to the instants at which publishers are due: endless, in order of time, the same for
//! the same seed.
//!
//! Groups are the unit (a group of one is a publisher on its own). Poisson groups of a class are
//! drawn as one process of the summed rate with the group picked at random, which is the same
//! process as one per group and needs no queue. Periodic groups have random phases within one
//! period. A ramp stretches time: both patterns run at a constant rate in a time of their own, in
//! which a second passes as fast as the ramp's multiple says. Pauses thin Poisson groups out, which
//! leaves them Poisson; for periodic groups they stop the clock, since a group thinned at a period
//! that divides the pauses' cycle would send always or never.
//!
//! Memory is bounded by the spec: a few words per group, and what groups in the middle of their
//! spread have before them. The arrivals of a spec that [`Spec::check`] refuses mean nothing.

mod class;
mod paced;
mod ramp;
#[cfg(test)]
mod tests;
mod turns;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::Spec;
use class::ClassArrivals;

/// One publisher's turn to send a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Nanoseconds since the beginning of the load, the warm-up included.
    pub at_ns: u64,
    /// Index of the publisher.
    pub publisher: u32,
    /// Messages that it sends at once.
    pub messages: u16,
}

/// What is known of one publisher beforehand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublisherProfile {
    /// Position of its class in [`Spec::publishers`].
    pub class: u32,
    /// Messages per second in the mean over time, with pauses counted and ramps at their end.
    pub rate: f64,
    /// Messages that it sends at once.
    pub batch_messages: u16,
    /// Body of a message.
    pub body_bytes: u32,
    /// Its correlation group, numbered over all classes; `None` where groups are of one.
    pub group: Option<u32>,
}

/// The sends of a load in order of time; endless (for a century) unless every class's ramp ends at nothing.
#[derive(Clone, Debug)]
pub struct Arrivals {
    classes: Vec<ClassArrivals>,
    /// The next send of each class that has one, with the class, which decides between equals.
    next: BinaryHeap<Reverse<(u64, usize, u32, u16)>>,
}

impl Spec {
    /// What is sent when, from the beginning.
    #[must_use]
    pub fn arrivals(&self) -> Arrivals {
        let mut first_publisher = 0;
        let mut classes = Vec::with_capacity(self.publishers.len());
        for (number, class) in self.publishers.iter().enumerate() {
            let name = format!("class {number}");
            let random = clock::stream(self.seed, &name);
            classes.push(ClassArrivals::new(class, first_publisher, random));
            first_publisher += class.count;
        }
        let first =
            |(class, arrivals): (usize, &mut ClassArrivals)| Some(due(class, arrivals.next()?));
        let next = classes.iter_mut().enumerate().filter_map(first).collect();
        Arrivals { classes, next }
    }

    /// Everybody who publishes, in the order of their indices.
    #[must_use]
    pub fn profiles(&self) -> Vec<PublisherProfile> {
        let mut profiles = Vec::new();
        let mut first_group = 0;
        for (number, class) in (0u32..).zip(&self.publishers) {
            let group_publishers = class.group_publishers.max(1);
            let profile = |member: u32| PublisherProfile {
                class: number,
                rate: class.mean_rate(),
                batch_messages: class.batch_messages.max(1),
                body_bytes: class.body_bytes,
                group: (group_publishers > 1).then_some(first_group + member / group_publishers),
            };
            profiles.extend((0..class.count).map(profile));
            if group_publishers > 1 {
                first_group += class.groups();
            }
        }
        profiles
    }

    /// Messages per second of all publishers together, in the mean.
    #[must_use]
    pub fn messages_per_second(&self) -> f64 {
        let rate = |class: &crate::Class| f64::from(class.count) * class.mean_rate();
        self.publishers.iter().map(rate).sum()
    }
}

impl Iterator for Arrivals {
    type Item = Arrival;

    #[inline]
    fn next(&mut self) -> Option<Arrival> {
        let mut head = self.next.peek_mut()?;
        let Reverse((at_ns, class, publisher, messages)) = *head;
        match self.classes[class].next() {
            Some(arrival) => *head = due(class, arrival),
            None => drop(PeekMut::pop(head)),
        }
        Some(Arrival {
            at_ns,
            publisher,
            messages,
        })
    }
}

/// What orders the sends of classes.
#[inline]
fn due(class: usize, arrival: Arrival) -> Reverse<(u64, usize, u32, u16)> {
    Reverse((arrival.at_ns, class, arrival.publisher, arrival.messages))
}
