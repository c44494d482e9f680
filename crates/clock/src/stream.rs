//! Random streams told apart by name.
//!
//! One run has one seed; each consumer of randomness asks for its stream by name. A stream's draws
//! depend on the seed and the name alone, so a consumer that is added, or one that draws more than
//! before, disturbs no other stream, and a run stays comparable with earlier ones.
//!
//! The generator is xoshiro256++ seeded through SplitMix64, as its authors advise (Blackman and
//! Vigna, "Scrambled linear pseudorandom number generators", 2021). It is not for secrets.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The named streams of one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    seed: u64,
}

impl Streams {
    /// The streams of `seed`.
    pub const fn new(seed: u64) -> Self {
        Streams { seed }
    }

    /// The stream called `name`, from its beginning.
    pub fn stream(&self, name: &str) -> Xoshiro256PlusPlus {
        stream(self.seed, name)
    }

    /// A family of streams of its own below `name`: one per broker, per publisher, per repetition.
    pub fn family(&self, name: &str) -> Streams {
        Streams {
            seed: key(self.seed, name),
        }
    }
}

/// The stream called `name` of `seed`, from its beginning.
///
/// Equal arguments give equal draws, on every machine and in every release: experiments record
/// their seed and count on it.
pub fn stream(seed: u64, name: &str) -> Xoshiro256PlusPlus {
    let mut state = key(seed, name);
    let mut words = [0u8; 32];
    for word in words.chunks_exact_mut(8) {
        word.copy_from_slice(&split_mix(&mut state).to_le_bytes());
    }
    Xoshiro256PlusPlus::from_seed(words)
}

/// A number in [0, 1): 53 random bits, as many as a float has room for.
#[inline]
pub fn uniform(random: &mut impl Rng) -> f64 {
    (random.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// A whole number below `bound`, which is at least 1. Uneven by at most `bound` parts in 2^32.
#[inline]
pub fn below(random: &mut impl Rng, bound: u32) -> u32 {
    ((random.next_u64() >> 32) % u64::from(bound.max(1))) as u32
}

/// One number for the pair: FNV-1a over the name, begun at a state that depends on the seed.
fn key(seed: u64, name: &str) -> u64 {
    const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut state = seed;
    let mut hash = split_mix(&mut state);
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
    }
    // FNV mixes its last bytes poorly into the high bits; "a1" and "a2" must end far apart.
    split_mix(&mut hash)
}

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;
    use std::collections::HashSet;

    fn draws(seed: u64, name: &str, count: usize) -> Vec<u64> {
        let mut random = stream(seed, name);
        (0..count).map(|_| random.next_u64()).collect()
    }

    #[test]
    fn a_stream_is_its_seed_and_name_and_nothing_else() {
        assert_eq!(draws(7, "arrivals", 100), draws(7, "arrivals", 100));
        assert_ne!(draws(7, "arrivals", 4), draws(8, "arrivals", 4));
        assert_ne!(draws(7, "arrivals", 4), draws(7, "service", 4));
        // Drawing more from one stream leaves the other where it was.
        let streams = Streams::new(7);
        let mut arrivals = streams.stream("arrivals");
        for _ in 0..1000 {
            arrivals.next_u64();
        }
        assert_eq!(
            streams.stream("service").next_u64(),
            draws(7, "service", 1)[0]
        );
    }

    #[test]
    fn whole_numbers_are_below_their_bound_and_all_come() {
        let mut random = stream(7, "below");
        let drawn: HashSet<u32> = (0..1000).map(|_| below(&mut random, 10)).collect();
        assert_eq!(drawn, (0..10).collect());
        assert_eq!((below(&mut random, 1), below(&mut random, 0)), (0, 0));
    }

    /// Recorded seeds must mean the same run in every release: these draws may never change.
    #[test]
    fn draws_are_pinned() {
        assert_eq!(
            draws(7, "arrivals", 3),
            [
                6_627_329_640_438_000_491,
                17_768_163_886_169_913_832,
                10_894_524_604_168_800_829
            ]
        );
        assert_eq!(draws(0, "", 1), [4_526_510_421_850_589_242]);
    }

    #[test]
    fn uniform_numbers_are_draws_over_their_range() {
        let mut random = stream(7, "arrivals");
        let first = 6_627_329_640_438_000_491_u64 as f64 / 2_f64.powi(64);
        assert!((uniform(&mut random) - first).abs() < 2_f64.powi(-52));
        let numbers = (0..10_000).map(|_| uniform(&mut random));
        assert!(
            numbers
                .into_iter()
                .all(|number| (0.0..1.0).contains(&number))
        );
    }

    #[test]
    fn a_family_has_streams_of_its_own() {
        let streams = Streams::new(7);
        let first = streams.family("broker-1").stream("service").next_u64();
        let second = streams.family("broker-2").stream("service").next_u64();
        assert_ne!(first, second);
        assert_ne!(first, streams.stream("service").next_u64());
        assert_eq!(
            first,
            Streams::new(7)
                .family("broker-1")
                .stream("service")
                .next_u64()
        );
    }

    #[test]
    fn near_seeds_and_names_do_not_meet() {
        let mut firsts = HashSet::new();
        for seed in 0..100 {
            for name in ["", "a", "b", "a1", "a2", "1a", "aa", "arrivals", "arrivalt"] {
                assert!(
                    firsts.insert(draws(seed, name, 1)[0]),
                    "seed {seed} name {name:?}"
                );
            }
        }
    }

    #[test]
    fn bits_of_two_streams_agree_half_of_the_time() {
        let pairs = draws(1, "left", 10_000)
            .into_iter()
            .zip(draws(1, "right", 10_000));
        let agreeing: u32 = pairs.map(|(l, r)| (!(l ^ r)).count_ones()).sum();
        // 640,000 fair coins: standard deviation 400, six of them either side.
        assert!(agreeing.abs_diff(320_000) < 2_400, "{agreeing} bits agree");
    }
}
