//! Compares what brokers without a common controller were told of a limit.
//!
//! A limit is one limit where topic, policy, unit and gossip are the same. The least of its rates
//! and the least of its bursts are in force, so the brokers together never have more than any of
//! them was told. Limits that differ otherwise are not shared: each broker keeps its N-th part. The
//! same holds for two topics of this broker whose names give one number, and for one whose number
//! is that of a topic elsewhere with a smaller identity. Every disagreement is reported in words,
//! for an operator to put right.
//!
//! If other brokers have a limit that this one lacks, nothing arrives for it here. This broker
//! takes part in it all the same, because it is one of the N.

use std::net::SocketAddr;
use std::time::Duration;

use gossip::{LimitId, NoticedLimit};
use limit::{Burst, Limit, Rate, Share, SharePolicy, Unit};
use rustc_hash::{FxHashMap, FxHashSet};
use topics::{Group, IntervalEnd, LimitNumber, identity, interval_of};

/// To how many others a broker tells its numbers, where nothing else is said.
pub(super) const BRANCHES: u16 = 3;

/// The conclusion from what all were told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agreement {
    /// The least rate and burst of limits that others were told of, too.
    pub(super) least: FxHashMap<LimitNumber, Share>,
    /// Limits of this broker that are not told to anybody.
    pub(super) apart: FxHashSet<LimitNumber>,
    /// Limits that only others have.
    pub(super) elsewhere: Vec<(LimitNumber, Cadence)>,
    /// What an operator has to put right.
    pub(super) disagreements: Vec<String>,
}

/// How a limit is gossiped about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cadence {
    /// To how many others.
    pub(super) branches: u16,
    /// How often.
    pub(super) interval: Duration,
}

impl Cadence {
    /// Of a limit of this broker.
    pub(super) fn of(limit: &Limit, group: Group, branches: u16) -> Cadence {
        Cadence {
            branches: limit.gossip.branches.unwrap_or(branches),
            interval: interval_of(limit, group),
        }
    }

    fn noticed(limit: &NoticedLimit) -> Cadence {
        let ms = *limit::Gossip::INTERVALS_MS.start()..=*limit::Gossip::INTERVALS_MS.end();
        let interval_ms = limit.interval_ms.clamp(*ms.start(), *ms.end());
        Cadence {
            branches: limit.branches.max(1),
            interval: Duration::from_millis(interval_ms.into()),
        }
    }
}

/// What this broker says of its limits.
pub(super) fn declared(ends: &[IntervalEnd]) -> Vec<NoticedLimit> {
    let numbered = ends.iter().filter_map(|end| Some((end.number?, end)));
    let limits = numbered.map(|(number, IntervalEnd { topic, limit, .. })| {
        let cadence = Cadence::of(limit, Group::ALONE, BRANCHES);
        NoticedLimit {
            number: LimitId(number),
            topic: identity(topic),
            rate: limit.rate.get(),
            burst: limit.burst.get(),
            ewma_1s: limit.gossip.ewma.unwrap_or(EWMA_1S),
            interval_ms: cadence.interval.as_millis() as u32,
            branches: cadence.branches,
            policy: policy_number(limit.sharing),
            unit: unit_number(limit.unit),
        }
    });
    limits.collect()
}

/// Compares what this broker was told with what `others` said.
pub(super) fn agree<'a>(
    ends: &[IntervalEnd],
    others: impl Iterator<Item = (SocketAddr, &'a NoticedLimit)>,
) -> Agreement {
    let mut agreement = Agreement::default();
    let own: Vec<NoticedLimit> = declared(ends);
    let mut by_number: FxHashMap<LimitNumber, usize> = FxHashMap::default();
    for (place, limit) in own.iter().enumerate() {
        if let Some(other) = by_number.insert(limit.number.0, place) {
            let (keeps, loses) = match own[other].topic < limit.topic {
                true => (other, place),
                false => (place, other),
            };
            by_number.insert(limit.number.0, keeps);
            agreement.disagreements.push(format!(
                "topics `{}` and `{}` have names that hash to the same number, so neither is shared with other brokers: rename one",
                ends[loses].topic, ends[keeps].topic
            ));
            agreement.apart.insert(limit.number.0);
        }
    }
    let mut elsewhere: FxHashMap<LimitNumber, NoticedLimit> = FxHashMap::default();
    for (address, theirs) in others {
        let Some(&place) = by_number.get(&theirs.number.0) else {
            let first = elsewhere.entry(theirs.number.0).or_insert(*theirs);
            if theirs.topic < first.topic {
                *first = *theirs;
            }
            continue;
        };
        agreement.compare(&own[place], &ends[place], address, theirs);
    }
    let mut elsewhere: Vec<(LimitNumber, Cadence)> = elsewhere
        .into_iter()
        .map(|(number, limit)| (number, Cadence::noticed(&limit)))
        .collect();
    elsewhere.sort_unstable_by_key(|(number, _)| *number);
    agreement.elsewhere = elsewhere;
    agreement
}

impl Agreement {
    fn compare(
        &mut self,
        own: &NoticedLimit,
        end: &IntervalEnd,
        address: SocketAddr,
        theirs: &NoticedLimit,
    ) {
        let (topic, number) = (&end.topic, own.number.0);
        if own.topic != theirs.topic {
            if theirs.topic < own.topic {
                self.apart.insert(number);
                self.disagreements.push(format!(
                    "topic `{topic}` and another one of the broker at {address} have names that hash to the same number, so `{topic}` is not shared: rename one"
                ));
            }
            return;
        }
        let way = |limit: &NoticedLimit| {
            let numbers = (limit.policy, limit.unit, limit.interval_ms, limit.branches);
            (numbers, limit.ewma_1s.to_bits())
        };
        if way(own) != way(theirs) {
            self.apart.insert(number);
            self.disagreements.push(format!(
                "topic `{topic}` has another policy, unit, interval, branches or ewma at {address} than here, so it is not shared: \
                 declare it alike at all brokers"
            ));
            return;
        }
        let (Ok(rate), Ok(burst)) = (Rate::new(theirs.rate), Burst::new(theirs.burst)) else {
            return;
        };
        let ours = Share::whole(&end.limit);
        let least = self.least.entry(number).or_insert(ours);
        if (rate, burst) != (ours.rate, ours.burst) {
            self.disagreements.push(format!(
                "topic `{topic}` has the limit ({rate}, {burst}) at {address} and ({}, {}) here: the smaller of each is in force; \
                 declare one limit at all brokers",
                ours.rate, ours.burst
            ));
        }
        if rate < least.rate {
            least.rate = rate;
        }
        if burst < least.burst {
            least.burst = burst;
        }
    }
}

/// The paper's, as `limit::sharing` has it.
const EWMA_1S: f64 = 0.1;

fn policy_number(policy: SharePolicy) -> u8 {
    match policy {
        SharePolicy::Lease => 0,
        SharePolicy::Gtb => 1,
        SharePolicy::Grd => 2,
        SharePolicy::Fps => 3,
    }
}

fn unit_number(unit: Unit) -> u8 {
    match unit {
        Unit::Messages => 0,
        Unit::Bytes => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(topic: &str, rate: f64, burst: f64) -> IntervalEnd {
        let topic: wire::TopicName = topic.parse().expect("valid");
        IntervalEnd {
            number: Some(identity(&topic) as u16),
            topic,
            limit: Limit {
                sharing: SharePolicy::Fps,
                ..Limit::messages(rate, burst).expect("in range")
            },
            update: None,
        }
    }

    fn there() -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 2], 4150))
    }

    fn compared(ours: &[IntervalEnd], theirs: &[NoticedLimit]) -> Agreement {
        agree(ours, theirs.iter().map(|limit| (there(), limit)))
    }

    #[test]
    fn the_least_of_each_is_in_force_and_what_differs_is_said() {
        let ours = [end("t", 1000.0, 50.0)];
        let alike = compared(&ours, &declared(&ours));
        assert!(alike.disagreements.is_empty() && alike.apart.is_empty());
        let theirs = declared(&[end("t", 500.0, 80.0)]);
        let found = compared(&ours, &theirs);
        let least = Limit::messages(500.0, 50.0).map(|limit| Share::whole(&limit));
        assert_eq!(found.least.values().next().copied(), least.ok());
        assert!(found.apart.is_empty());
        assert!(
            found.disagreements[0].contains("(500, 80) at 10.0.0.2:4150 and (1000, 50) here"),
            "{found:?}"
        );
    }

    #[test]
    fn what_is_shared_in_another_way_is_kept_apart() {
        let ours = [end("t", 1000.0, 50.0)];
        for change in [
            |limit: &mut NoticedLimit| limit.policy = 1,
            |limit: &mut NoticedLimit| limit.unit = 1,
            |limit: &mut NoticedLimit| limit.branches = 7,
            |limit: &mut NoticedLimit| limit.interval_ms = 20,
            |limit: &mut NoticedLimit| limit.ewma_1s = 0.5,
        ] {
            let mut theirs = declared(&ours);
            change(&mut theirs[0]);
            let found = compared(&ours, &theirs);
            assert!(found.apart.contains(&theirs[0].number.0) && found.least.is_empty());
            assert!(found.disagreements[0].contains("declare it alike"));
        }
    }

    #[test]
    fn one_of_two_topics_keeps_their_number() {
        let ours = [end("t", 1000.0, 50.0)];
        let mut theirs = declared(&ours);
        for (topic, is_apart) in [(0, true), (u64::MAX, false)] {
            theirs[0].topic = topic;
            let found = compared(&ours, &theirs);
            assert_eq!(found.apart.len(), usize::from(is_apart));
            assert_eq!(found.disagreements.len(), usize::from(is_apart));
        }
        let mut both = [end("a", 1.0, 5.0), end("b", 1.0, 5.0)];
        both[1].number = both[0].number;
        let found = compared(&both, &[]);
        assert_eq!(found.apart.len(), 1);
        assert!(found.disagreements[0].contains("rename one"));
    }

    #[test]
    fn limits_of_others_are_taken_part_in() {
        let theirs = declared(&[end("t", 1000.0, 50.0)]);
        let found = compared(&[], &theirs);
        let cadence = Cadence {
            branches: 3,
            interval: Duration::from_millis(50),
        };
        assert_eq!(found.elsewhere, [(theirs[0].number.0, cadence)]);
    }
}
