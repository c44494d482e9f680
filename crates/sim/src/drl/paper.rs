//! The paper's own scenarios (DRL, section 5).

use clock::{Streams, uniform};

use super::scenario::{Bottleneck, Flows, Reach, Scenario, Updates};

impl Scenario {
    /// 3 flows through one limiter and 7 through the other, begun within half a second in any order: 10 Mbps, 40 ms
    /// (section 5.1).
    pub fn baseline(seed: u64) -> Self {
        let mut random = Streams::new(seed).stream("flows");
        let flow = |limiter| Flows {
            start_s: 0.5 * uniform(&mut random),
            ..Flows::bulk(limiter, 1)
        };
        let limiters = [0, 0, 0, 1, 1, 1, 1, 1, 1, 1];
        Scenario {
            flows: limiters.into_iter().map(flow).collect(),
            seed,
            ..Scenario::default()
        }
    }

    /// The baseline; from second 15 on 7 flows share a slow link of 2 Mbps, and from second 31 on an eighth goes through
    /// their limiter that does not (figure 7).
    pub fn bottlenecked(seed: u64) -> Self {
        let mut scenario = Scenario::baseline(seed);
        scenario.bottlenecks.push(Bottleneck {
            mbps: 2.0,
            queue_bytes: 30_000.0,
            start_s: 15.0,
        });
        let second = scenario.flows.iter_mut().filter(|flows| flows.limiter == 1);
        second.for_each(|flows| flows.bottleneck = Some(0));
        scenario.flows.push(Flows {
            start_s: 31.0,
            ..Flows::bulk(1, 1)
        });
        scenario
    }

    /// Five limiters; every ten seconds a flow begins at one that had none (figure 6).
    pub fn joining(estimate_interval_ms: f64, seed: u64) -> Self {
        let flow = |limiter| Flows {
            start_s: 10.0 * f64::from(limiter),
            ..Flows::bulk(limiter, 1)
        };
        Scenario {
            limiters: 5,
            estimate_interval_ms,
            flows: (0..5).map(flow).collect(),
            seed,
            ..Scenario::default()
        }
    }

    /// `limiters` with 0 to 5 flows each, a limit of 50 Mbps, gossip of branching factor `branches`. Flows begin one every
    /// `spacing_ms` in any order and stay; the paper has one every 100 ms, each for 60 s (section 5.6). The bucket is as
    /// deep in seconds as the baseline's.
    pub fn scaling(limiters: u32, branches: u16, spacing_ms: f64, seed: u64) -> Self {
        let mut random = Streams::new(seed).stream("flows");
        let mut at: Vec<u32> = (0..limiters)
            .flat_map(|limiter| {
                let count = (6.0 * uniform(&mut random)) as usize;
                std::iter::repeat_n(limiter, count)
            })
            .collect();
        for place in 1..at.len() {
            let other = (uniform(&mut random) * (place + 1) as f64) as usize;
            at.swap(place, other);
        }
        let flows = at.into_iter().enumerate().map(|(place, limiter)| Flows {
            start_s: place as f64 * spacing_ms / 1e3,
            ..Flows::bulk(limiter, 1)
        });
        Scenario {
            limiters,
            limit_mbps: 50.0,
            depth_bytes: 375_000.0,
            updates: Updates {
                reach: Reach::Random(branches),
                ..Updates::default()
            },
            flows: flows.collect(),
            seed,
            ..Scenario::default()
        }
    }
}
