//! A trace arranged for two questions: when did this one send, and who sent around that time.

use crate::PublisherIndex;

/// Sends that are looked at on either side of an instant; beyond, only the nearest.
const MOST_NEIGHBOURS: usize = 16_384;

/// The sends of a trace, in order of time and by publisher.
pub(super) struct Sends {
    /// When and who.
    in_order: Vec<(u64, u32)>,
    /// Places in `in_order`, publisher by publisher.
    places: Vec<u32>,
    /// Where each publisher's places begin; one more entry than publishers.
    begins: Vec<u32>,
    /// From the first send to the last, at least 1.
    span_ns: u64,
}

impl Sends {
    /// Arrivals of one publisher within `tolerance_ns` of the first of them are one send.
    pub(super) fn new(
        arrivals: &[(u64, PublisherIndex)],
        publishers: usize,
        tolerance_ns: u64,
    ) -> Self {
        let mut in_order: Vec<(u64, u32)> = arrivals
            .iter()
            .map(|&(at_ns, publisher)| (at_ns, publisher.0))
            .filter(|&(_, publisher)| (publisher as usize) < publishers)
            .collect();
        if !in_order.is_sorted() {
            in_order.sort_unstable();
        }
        // Places are kept in 32 bits; what is beyond them is hours of the greatest load.
        in_order.truncate(u32::MAX as usize);
        let mut last_ns: Vec<Option<u64>> = vec![None; publishers];
        in_order.retain(|&(at_ns, publisher)| {
            let last = &mut last_ns[publisher as usize];
            let is_new = last.is_none_or(|last| at_ns - last > tolerance_ns);
            if is_new {
                *last = Some(at_ns);
            }
            is_new
        });
        let (places, begins) = by_publisher(&in_order, publishers);
        let ends = in_order.first().zip(in_order.last());
        Sends {
            span_ns: ends.map_or(1, |(first, last)| (last.0 - first.0).max(1)),
            in_order,
            places,
            begins,
        }
    }

    /// How often a publisher sent.
    pub(super) fn count(&self, publisher: u32) -> usize {
        let at = publisher as usize;
        (self.begins[at + 1] - self.begins[at]) as usize
    }

    /// The place in the order of time of a publisher's `n`th send.
    pub(super) fn nth_of(&self, publisher: u32, n: usize) -> usize {
        self.places[self.begins[publisher as usize] as usize + n] as usize
    }

    /// Who else sent within `tolerance_ns` of a send, before or after, and how much later.
    pub(super) fn around(
        &self,
        place: usize,
        tolerance_ns: u64,
    ) -> impl Iterator<Item = (i64, u32)> {
        let at_ns = self.in_order[place].0;
        let later = move |&(other_ns, publisher): &(u64, u32)| {
            (other_ns.wrapping_sub(at_ns) as i64, publisher)
        };
        let is_near = move |&(later_ns, _): &(i64, u32)| later_ns.unsigned_abs() <= tolerance_ns;
        let before = self.in_order[..place].iter().rev().take(MOST_NEIGHBOURS);
        let after = self.in_order[place + 1..].iter().take(MOST_NEIGHBOURS);
        let before = before.map(later).take_while(is_near);
        before.chain(after.map(later).take_while(is_near))
    }

    /// The probability that a publisher sends within `tolerance_ns` of an instant that has nothing to do with
    /// it: at most the expected number of its sends in that window, whatever the process.
    pub(super) fn chance_within(&self, publisher: u32, tolerance_ns: u64) -> f64 {
        let window = (2.0 * tolerance_ns as f64 + 1.0) / self.span_ns as f64;
        (self.count(publisher) as f64 * window).min(1.0)
    }
}

/// Counting sort by publisher.
fn by_publisher(in_order: &[(u64, u32)], publishers: usize) -> (Vec<u32>, Vec<u32>) {
    let mut begins = vec![0u32; publishers + 1];
    for &(_, publisher) in in_order {
        begins[publisher as usize + 1] += 1;
    }
    for at in 0..publishers {
        begins[at + 1] += begins[at];
    }
    let mut next = begins.clone();
    let mut places = vec![0u32; in_order.len()];
    for (place, &(_, publisher)) in in_order.iter().enumerate() {
        let slot = &mut next[publisher as usize];
        places[*slot as usize] = place as u32;
        *slot += 1;
    }
    (places, begins)
}
