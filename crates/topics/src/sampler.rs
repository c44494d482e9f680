//! Which messages are followed to their subscriber: a random sample, at a set number per second.
//!
//! The gap from one sample to the next is uniform on 1 ..= 2·mean - 1, so that no rhythm of the
//! traffic decides which message is chosen, and the mean follows the rate of the second before. The
//! bound is on the number of samples: a topic ten times faster costs no more. Each sample stands
//! for as many messages as the mean gap it was drawn with; otherwise seconds with few samples would
//! count for less than those with many.

use std::time::Duration;

use clock::{Instant, Xoshiro256PlusPlus};

const SECOND: Duration = Duration::from_secs(1);

/// Draws messages of one topic.
#[derive(Clone, Debug)]
pub struct Sampler {
    per_second: u32,
    /// Messages until the next sample, which is included.
    countdown: u32,
    mean_gap: u32,
    second_began: Instant,
    seen: u32,
    taken: u32,
    random: Xoshiro256PlusPlus,
}

impl Sampler {
    /// Draws about `per_second` messages a second, all of them below that rate.
    #[must_use]
    pub fn new(per_second: u32) -> Sampler {
        Sampler {
            per_second,
            countdown: 1,
            mean_gap: 1,
            second_began: Instant::ZERO,
            seen: 0,
            taken: 0,
            random: clock::stream(0, "sampler"),
        }
    }

    /// Draws this many a second from now on. The traffic of the last second sets the pace at once.
    pub fn set_per_second(&mut self, per_second: u32) {
        let rate = u64::from(self.mean_gap) * u64::from(self.per_second);
        self.per_second = per_second;
        self.set_gap(rate);
    }

    /// Whether the message that is delivered at `now` is one of the sample, and for how many it stands.
    #[inline]
    pub fn draw(&mut self, now: Instant) -> Option<u32> {
        self.seen += 1;
        if now - self.second_began >= SECOND {
            self.begin_second(now);
        }
        self.countdown -= 1;
        if self.countdown > 0 {
            return None;
        }
        let weight = self.mean_gap;
        self.take();
        Some(weight)
    }

    fn begin_second(&mut self, now: Instant) {
        let elapsed_ms = (now - self.second_began).as_millis().max(1);
        let rate = u128::from(self.seen) * 1000 / elapsed_ms;
        (self.second_began, self.seen, self.taken) = (now, 0, 0);
        self.set_gap(rate as u64);
    }

    fn take(&mut self) {
        self.taken += 1;
        if self.taken >= 2 * self.per_second {
            // Far more traffic than a second ago.
            self.taken = self.per_second;
            self.mean_gap = self.mean_gap.saturating_mul(2).min(GAP_MAX);
        }
        self.draw_gap();
    }

    fn set_gap(&mut self, rate: u64) {
        let gap = rate / u64::from(self.per_second.max(1));
        self.mean_gap = gap.clamp(1, u64::from(GAP_MAX)) as u32;
        self.draw_gap();
    }

    fn draw_gap(&mut self) {
        self.countdown = 1 + clock::below(&mut self.random, 2 * self.mean_gap - 1);
    }
}

/// Messages from one sample to the next at most, on average.
const GAP_MAX: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of `seconds` seconds at `rate` messages a second, from `from_s` on.
    fn samples(sampler: &mut Sampler, from_s: u64, seconds: u64, rate: u64) -> u64 {
        let start = Instant::from_nanos(from_s * 1_000_000_000);
        let at = |number: u64| start + Duration::from_nanos(number * 1_000_000_000 / rate);
        (0..seconds * rate)
            .filter(|&number| sampler.draw(at(number)).is_some())
            .count() as u64
    }

    #[test]
    fn slow_topics_are_sampled_whole_and_fast_ones_as_often_as_was_told() {
        for (rate, per_second, at_least, at_most) in [
            (20, 50, 200, 200),
            (49, 50, 490, 490),
            (1000, 50, 400, 900),
            // The first second takes 50 more with each doubling of the gap, of which there are about ten.
            (60_000, 50, 350, 1200),
            (60_000, 2000, 18_000, 34_000),
            (1000, 2000, 10_000, 10_000),
        ] {
            let mut sampler = Sampler::new(per_second);
            let taken = samples(&mut sampler, 1, 10, rate);
            assert!(
                (at_least..=at_most).contains(&taken),
                "{taken} samples in 10 s at {rate} msg/s"
            );
        }
    }

    #[test]
    fn a_change_of_rate_is_followed_within_a_second() {
        let mut sampler = Sampler::new(50);
        samples(&mut sampler, 1, 3, 100_000);
        let slow = samples(&mut sampler, 4, 3, 40);
        assert!(slow >= 70, "{slow} of 120");
        let fast = samples(&mut sampler, 7, 1, 100_000);
        assert!(fast < 700, "{fast} samples in the first second of a storm");
    }

    #[test]
    fn every_place_in_a_burst_is_as_likely_as_any_other() {
        let mut sampler = Sampler::new(100);
        let mut places = [0_u32; 10];
        for burst in 0..20_000_u64 {
            let now = Instant::from_nanos(1_000_000_000 + burst * 10_000_000);
            for place in &mut places {
                *place += u32::from(sampler.draw(now).is_some());
            }
        }
        let (fewest, most) = (places.iter().min(), places.iter().max());
        let (Some(&fewest), Some(&most)) = (fewest, most) else {
            panic!("there are ten places");
        };
        assert!(fewest > 1700 && most < 2400, "{places:?}");
    }

    #[test]
    fn the_weights_add_up_to_the_messages_also_when_the_pace_changes() {
        let mut sampler = Sampler::new(50);
        let mut now = Instant::from_nanos(1_000_000_000);
        for rate in [20_u64, 5000, 300, 40_000] {
            let (messages, mut stood_for) = (10 * rate, 0);
            for _ in 0..messages {
                now += Duration::from_nanos(1_000_000_000 / rate);
                stood_for += u64::from(sampler.draw(now).unwrap_or(0));
            }
            // Some hundred samples of random gaps.
            let error = stood_for.abs_diff(messages);
            assert!(error * 10 <= messages, "{stood_for} for {messages}");
        }
    }
}
