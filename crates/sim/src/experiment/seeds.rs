//! Seeds of runs, and the fingerprint of the definition that results belong to.

use clock::Streams;
use rand::Rng;

/// Bits of a seed: as many as every reader of JSON keeps.
const SEED_BITS: u32 = 53;

/// The seed of one repeat of a point. Series share it: they are compared on the same arrivals.
pub(crate) fn seed_of(base: u64, experiment: &str, x: f64, repeat: u32) -> u64 {
    let point = Streams::new(base)
        .family(experiment)
        .family(&format!("x {x}"));
    point.stream(&format!("repeat {repeat}")).next_u64() >> (u64::BITS - SEED_BITS)
}

/// A number that is another for another text, seed, version or kind of run.
pub(crate) fn fingerprint(text: &str, seed: u64, is_quick: bool) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let settings = Streams::new(seed).family(&format!("{version} quick {is_quick}"));
    format!("{:016x}", settings.stream(text).next_u64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_has_a_seed_of_its_own_that_json_keeps() {
        let mut seeds = std::collections::HashSet::new();
        for base in [1, 2] {
            for experiment in ["fig7a", "fig7b"] {
                for x in [1.0, 10.0, 1000.0] {
                    for repeat in 1..=10 {
                        let seed = seed_of(base, experiment, x, repeat);
                        assert!(seed < 1 << 53 && seeds.insert(seed));
                    }
                }
            }
        }
        assert_eq!(seed_of(1, "a", 2.0, 3), seed_of(1, "a", 2.0, 3));
    }

    #[test]
    fn fingerprints_tell_settings_apart() {
        let of = [
            fingerprint("a", 1, false),
            fingerprint("b", 1, false),
            fingerprint("a", 2, false),
            fingerprint("a", 1, true),
        ];
        for (index, one) in of.iter().enumerate() {
            assert!(!of[index + 1..].contains(one));
        }
        assert_eq!(of[0], fingerprint("a", 1, false));
    }
}
