//! Capacities are absolute: what exceeds one is taken away and put where there is room.
//!
//! This pass is blind to groups; it acts only where indivisible publishers meet capacities that are nearly
//! used up. As a last resort all are packed first-fit decreasing, without regard to targets.

use super::spread::TOLERANCE;
use super::{Choice, Draft, Tournament, Work};

/// Makes every sum respect its room; publishers that fit nowhere end without a broker.
pub(super) fn settle(choice: &Choice<'_>, draft: &mut Draft, work: &mut Work) {
    evict(choice, draft, work);
    refit(choice, draft, work);
    let left_out = left_out(choice, draft);
    if left_out > 0.0 && !choice.is_exact {
        let packed = pack(choice, work);
        if self::left_out(choice, &packed) < left_out {
            *draft = packed;
        }
    }
}

/// The rate of publishers without a broker.
fn left_out(choice: &Choice<'_>, draft: &Draft) -> f64 {
    let rates = choice.rates.iter().zip(&draft.broker_of);
    rates
        .filter(|(_, broker)| broker.is_none())
        .map(|(rate, _)| rate)
        .sum()
}

fn fits(rate: f64, sum: f64, room: f64) -> bool {
    sum + rate <= room * (1.0 + TOLERANCE)
}

/// Takes publishers from brokers with more than their room: the smallest that suffices, else the largest
/// and another.
fn evict(choice: &Choice<'_>, draft: &mut Draft, work: &mut Work) {
    let is_over = |draft: &Draft, at: usize| !fits(0.0, draft.sums[at], choice.rooms[at]);
    if !(0..choice.rooms.len()).any(|at| is_over(draft, at)) {
        return;
    }
    for (broker, mut members) in draft.members().into_iter().enumerate() {
        if !is_over(draft, broker) {
            continue;
        }
        sort_by_rate(choice, &mut members, work);
        members.reverse();
        while is_over(draft, broker) {
            let excess = draft.sums[broker] - choice.rooms[broker];
            let rate_of = |&publisher: &u32| choice.rates[publisher as usize];
            let enough = members.partition_point(|publisher| rate_of(publisher) < excess);
            if members.is_empty() {
                break;
            }
            let publisher = members.remove(enough.min(members.len() - 1));
            draft.take(choice, publisher);
        }
    }
}

/// Puts those without a broker where most is missing of the target, else where most room is.
fn refit(choice: &Choice<'_>, draft: &mut Draft, work: &mut Work) {
    let mut waiting = without_broker(draft);
    if waiting.is_empty() {
        return;
    }
    sort_by_rate(choice, &mut waiting, work);
    let left_of = |draft: &Draft, limits: &[f64], at: usize| limits[at] - draft.sums[at];
    let tournament = |draft: &Draft, limits: &[f64]| {
        Tournament::new(
            (0..limits.len())
                .map(|at| left_of(draft, limits, at))
                .collect(),
        )
    };
    let mut missing = tournament(draft, choice.targets);
    let mut roomiest = tournament(draft, choice.rooms);
    for publisher in waiting {
        let rate = choice.rates[publisher as usize];
        let fits = |&(at, _): &(usize, f64)| fits(rate, draft.sums[at], choice.rooms[at]);
        let place = missing
            .best()
            .filter(fits)
            .or_else(|| roomiest.best().filter(fits));
        let Some((broker, _)) = place else { continue };
        draft.put(choice, publisher, broker);
        missing.set(broker, left_of(draft, choice.targets, broker), work);
        roomiest.set(broker, left_of(draft, choice.rooms, broker), work);
    }
}

/// All from the beginning: the largest first, each into the first broker with room.
fn pack(choice: &Choice<'_>, work: &mut Work) -> Draft {
    let mut draft = Draft::new(choice);
    let mut rooms = Tournament::new(choice.rooms.to_vec());
    let mut all = without_broker(&draft);
    sort_by_rate(choice, &mut all, work);
    for publisher in all {
        let rate = choice.rates[publisher as usize];
        if let Some(broker) = rooms.first_of_at_least(rate * (1.0 - TOLERANCE), work) {
            draft.put(choice, publisher, broker);
            rooms.set(broker, choice.rooms[broker] - draft.sums[broker], work);
        }
    }
    draft
}

fn without_broker(draft: &Draft) -> Vec<u32> {
    let is_without = |&at: &u32| draft.broker_of[at as usize].is_none();
    (0..draft.broker_of.len() as u32)
        .filter(is_without)
        .collect()
}

/// The largest first.
fn sort_by_rate(choice: &Choice<'_>, publishers: &mut [u32], work: &mut Work) {
    publishers.sort_by(|&a, &b| {
        work.steps += 1;
        let larger_first = choice.rates[b as usize].total_cmp(&choice.rates[a as usize]);
        larger_first.then(a.cmp(&b))
    });
}
