//! Latencies counted in buckets, with memory only for buckets that were ever used.
//!
//! Buckets are 1/128 of their value wide, so each value is known to two significant digits, from a
//! nanosecond to a minute. They come in chunks of 32, allocated when the first latency falls into
//! one: a topic with similar latencies takes a few hundred bytes, one that has seen all latencies
//! 15 KiB. Each chunk is allocated once.

use statistics::nearest_rank;

/// Longer is counted as so long.
pub const LONGEST_NS: u64 = 60_000_000_000;

/// Buckets of an octave, as a power of two.
const OCTAVE_BITS: u32 = 7;
const OCTAVE: usize = 1 << OCTAVE_BITS;
/// Buckets made at once.
const CHUNK: usize = 32;
const CHUNKS: usize = bucket_of(LONGEST_NS) / CHUNK + 1;

/// The latencies of one stage.
#[derive(Clone, Debug)]
pub struct Histogram {
    count: u64,
    sum_ns: u64,
    max_ns: u64,
    /// In the order of buckets: the number of the chunk plus one; 0: no latency fell there.
    places: [u8; CHUNKS],
    chunks: Vec<[u32; CHUNK]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            count: 0,
            sum_ns: 0,
            max_ns: 0,
            places: [0; CHUNKS],
            chunks: Vec::new(),
        }
    }
}

impl Histogram {
    /// Counts `count` latencies of `nanos` nanoseconds each.
    #[inline]
    pub fn record(&mut self, nanos: u64, count: u32) {
        let nanos = nanos.min(LONGEST_NS);
        self.count += u64::from(count);
        self.sum_ns = self
            .sum_ns
            .saturating_add(nanos.saturating_mul(u64::from(count)));
        self.max_ns = self.max_ns.max(nanos);
        let bucket = bucket_of(nanos);
        let chunk = match self.places[bucket / CHUNK] {
            0 => self.make(bucket / CHUNK),
            place => usize::from(place) - 1,
        };
        let counted = &mut self.chunks[chunk][bucket % CHUNK];
        *counted = counted.saturating_add(count);
    }

    /// Counts what `other` has as well.
    pub fn add(&mut self, other: &Histogram) {
        self.count += other.count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        for (number, &place) in other.places.iter().enumerate() {
            let Some(theirs) = usize::from(place).checked_sub(1) else {
                continue;
            };
            let ours = match self.places[number] {
                0 => self.make(number),
                place => usize::from(place) - 1,
            };
            for (count, more) in self.chunks[ours].iter_mut().zip(other.chunks[theirs]) {
                *count = count.saturating_add(more);
            }
        }
    }

    /// Forgets everything, and keeps the memory for what comes.
    pub fn clear(&mut self) {
        (self.count, self.sum_ns, self.max_ns) = (0, 0, 0);
        self.chunks.iter_mut().for_each(|chunk| chunk.fill(0));
    }

    /// Latencies counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum in nanoseconds.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The longest in nanoseconds; 0 where there is none.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// What `quantiles` (ascending, 0 to 1) of the latencies do not exceed, in nanoseconds; zeros where there are none.
    #[must_use]
    pub fn quantiles<const N: usize>(&self, quantiles: [f64; N]) -> [u64; N] {
        let wanted = quantiles.map(|quantile| nearest_rank(self.count, 100.0 * quantile));
        // A bucket that can count no further leaves the last ones unmet: then the longest answers.
        let mut found = [self.max_ns; N];
        let (mut next, mut seen) = (0, 0);
        for (number, &place) in self.places.iter().enumerate() {
            let Some(chunk) = usize::from(place).checked_sub(1).map(|at| &self.chunks[at]) else {
                continue;
            };
            let in_chunk: u64 = chunk.iter().map(|&count| u64::from(count)).sum();
            let mut reached = seen;
            let mut bucket = 0;
            while next < N && wanted[next] <= seen + in_chunk {
                while reached < wanted[next] {
                    reached += u64::from(chunk[bucket]);
                    bucket += 1;
                }
                let last_ns = longest_of(number * CHUNK + bucket - 1);
                found[next] = last_ns.min(self.max_ns);
                next += 1;
            }
            seen += in_chunk;
        }
        found
    }

    #[cold]
    fn make(&mut self, place: usize) -> usize {
        if self.chunks.is_empty() {
            // A vector's first growth would be to four.
            self.chunks.reserve_exact(1);
        }
        self.chunks.push([0; CHUNK]);
        self.places[place] = self.chunks.len() as u8;
        self.chunks.len() - 1
    }
}

/// The bucket of a latency: exact at first, then a fixed number for each doubling.
const fn bucket_of(nanos: u64) -> usize {
    let significant = u64::BITS - (nanos | (2 * OCTAVE as u64 - 1)).leading_zeros();
    let octave = significant - OCTAVE_BITS - 1;
    ((octave as usize) << OCTAVE_BITS) + (nanos >> octave) as usize
}

/// The longest latency of a bucket.
fn longest_of(bucket: usize) -> u64 {
    let octave = (bucket >> OCTAVE_BITS).saturating_sub(1);
    let first = (bucket - (octave << OCTAVE_BITS)) as u64;
    ((first + 1) << octave) - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_latencies(
            latencies in prop::collection::vec((0..100_000_000_000_u64, 1..5_u32), 1..200),
            scale in 0..30_u32,
        ) {
            let mut histogram = Histogram::default();
            let mut all = Vec::new();
            for (nanos, count) in latencies {
                let nanos = nanos >> scale;
                histogram.record(nanos, count);
                all.extend(std::iter::repeat_n(nanos.min(LONGEST_NS), count as usize));
            }
            all.sort_unstable();
            prop_assert_eq!(histogram.count(), all.len() as u64);
            prop_assert_eq!(histogram.sum_ns(), all.iter().sum::<u64>());
            prop_assert_eq!(histogram.max_ns(), all[all.len() - 1]);
            let quantiles = [0.0, 0.5, 0.95, 0.99, 1.0];
            for (quantile, found) in quantiles.into_iter().zip(histogram.quantiles(quantiles)) {
                let rank = ((quantile * all.len() as f64).ceil() as usize).max(1);
                let exact = all[rank - 1];
                let beyond = found.checked_sub(exact);
                prop_assert!(beyond.is_some_and(|beyond| beyond <= exact / 128), "{}: {} for {}", quantile, found, exact);
            }
        }
    }

    #[test]
    fn sums_count_what_both_have_and_cleared_ones_nothing() {
        let (mut low, mut high) = (Histogram::default(), Histogram::default());
        low.record(5, 3);
        high.record(5, 1);
        high.record(7_000_000, 4);
        let mut both = low.clone();
        both.add(&high);
        assert_eq!((both.count(), both.max_ns()), (8, 7_000_000));
        assert_eq!(both.sum_ns(), low.sum_ns() + high.sum_ns());
        assert_eq!(both.quantiles([0.5]), [5]);
        assert_eq!(both.quantiles([1.0]), [7_000_000]);
        both.clear();
        assert_eq!((both.count(), both.quantiles([0.5])), (0, [0]));
        both.record(9, 1);
        assert_eq!(both.quantiles([0.5]), [9]);
    }

    #[test]
    fn each_bucket_begins_where_the_one_before_ends() {
        for bucket in 0..CHUNKS * CHUNK - 1 {
            let longest = longest_of(bucket);
            assert_eq!(
                (bucket_of(longest), bucket_of(longest + 1)),
                (bucket, bucket + 1)
            );
        }
    }

    #[test]
    fn nothing_measured_is_zero_and_takes_no_chunk() {
        let histogram = Histogram::default();
        assert_eq!(histogram.quantiles([0.5, 1.0]), [0, 0]);
        assert_eq!(histogram.chunks.capacity(), 0);
    }
}
