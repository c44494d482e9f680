//! The traffic of an experiment as its definition has it, and the flows that a simulation makes of
//! it.
//!
//! The parts are those of live results (`workload.traffic`), so that the two can be compared.

use clock::{Streams, uniform};
use serde::{Deserialize, Serialize};

use crate::drl::scenario::{Bottleneck, Flows, Scenario, WebSessions};

/// A part of the traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Part {
    /// Flows that always have something to send.
    Bulk(Bulk),
    /// Requests that arrive at random (Poisson), each for one object over a connection of its own.
    Web(Web),
    /// Clients that fetch one object after the other, each over a connection of its own.
    Sessions(Sessions),
}

/// Flows that always have something to send. Those of the same start begin one by one, in random order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bulk {
    /// Where.
    pub site: Sites,
    /// How many at each site.
    pub flows: Count,
    /// Since when.
    #[serde(default)]
    pub start_s: f64,
    /// Until when; absent for the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_s: Option<f64>,
    /// Round trip time without any queue.
    #[serde(default = "rtt_ms")]
    pub rtt_ms: f64,
    /// A slow link that they share, before the limiter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<Narrow>,
}

/// Requests that arrive at random, for objects whose sizes have a heavy tail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Web {
    /// Where.
    pub site: Sites,
    /// Requests per second and site.
    pub per_second: f64,
    /// Sizes of the objects.
    #[serde(default)]
    pub sizes: Sizes,
    /// Since when.
    #[serde(default)]
    pub start_s: f64,
    /// Until when new requests come; absent for the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_s: Option<f64>,
    /// Round trip time without any queue.
    #[serde(default = "rtt_ms")]
    pub rtt_ms: f64,
}

/// Clients that fetch objects whose sizes have a heavy tail, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sessions {
    /// Where.
    pub site: Sites,
    /// How many at each site.
    pub clients: u32,
    /// Sizes of the objects.
    #[serde(default)]
    pub sizes: Sizes,
    /// Since when.
    #[serde(default)]
    pub start_s: f64,
    /// Until when they begin new transfers; absent for the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_s: Option<f64>,
    /// Round trip time without any queue.
    #[serde(default = "rtt_ms")]
    pub rtt_ms: f64,
}

/// Sizes of web objects: a Pareto distribution, cut off at both ends. They stand for the paper's trace, which is not to be had: a mean of 16 kB, so that 15 requests
/// per second ask for the 1.9 Mbps of DRL's table 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sizes {
    /// The smallest.
    pub least_bytes: f64,
    /// The largest.
    pub most_bytes: f64,
    /// The tail's exponent.
    pub shape: f64,
}

/// A slow link, from some time on; a full queue drops the newest packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Narrow {
    /// Its rate.
    pub mbps: f64,
    /// Since when.
    pub from_s: f64,
    /// What its queue holds.
    #[serde(default = "queue_bytes")]
    pub queue_bytes: f64,
}

/// The sites of a part of the traffic; each has a limiter, unless one central limiter stands for all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Sites {
    /// One, from 0.
    One(u32),
    /// These.
    Several(Vec<u32>),
    /// All that there are: `"all"`.
    All(All),
}

/// The word `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum All {
    /// All of them.
    All,
}

/// A number of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Count {
    /// This one.
    Exactly(u32),
    /// Drawn for each site, each from the first to the last with the same chance.
    Between([u32; 2]),
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes {
            least_bytes: 2_750.0,
            most_bytes: 5_000_000.0,
            shape: 1.1,
        }
    }
}

impl Sites {
    fn list(&self, sites: u32) -> Vec<u32> {
        match self {
            Sites::One(site) => vec![*site],
            Sites::Several(several) => several.clone(),
            Sites::All(All::All) => (0..sites).collect(),
        }
    }
}

impl Part {
    /// Whether a web transfer through `limiter` that began at `began_s` is one of this part.
    pub(super) fn has_transfer(&self, limiter: u32, began_s: f64, sites: u32) -> bool {
        self.transfers().is_some_and(|(site, transfers)| {
            let stop_s = transfers.stop_s.unwrap_or(f64::INFINITY);
            let is_of_site = sites == 1 || site.list(sites).contains(&limiter);
            is_of_site && (transfers.start_s..stop_s).contains(&began_s)
        })
    }

    /// Short transfers, through the limiter that is still to be said.
    fn transfers(&self) -> Option<(&Sites, WebSessions)> {
        match self {
            Part::Bulk(_) => None,
            Part::Web(web) => {
                let sessions = WebSessions {
                    per_s: web.per_second,
                    start_s: web.start_s,
                    stop_s: web.stop_s,
                    rtt_ms: web.rtt_ms,
                    ..web.sizes.sessions()
                };
                Some((&web.site, sessions))
            }
            Part::Sessions(clients) => {
                let sessions = WebSessions {
                    clients: Some(clients.clients),
                    start_s: clients.start_s,
                    stop_s: clients.stop_s,
                    rtt_ms: clients.rtt_ms,
                    ..clients.sizes.sessions()
                };
                Some((&clients.site, sessions))
            }
        }
    }
}

/// Adds the parts' flows to a scenario, as many random ones as its seed says; which part each flow is of. Where the limit
/// is central, everything passes limiter 0.
pub(super) fn add_traffic(
    scenario: &mut Scenario,
    parts: &[Part],
    sites: u32,
    stagger_s: f64,
) -> Vec<usize> {
    let is_central = scenario.limiters == 1;
    let limiter_of = |site: u32| if is_central { 0 } else { site };
    let streams = Streams::new(scenario.seed);
    let mut counts = streams.stream("counts");
    let mut begin: Vec<(usize, Flows)> = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        if let Some((site, transfers)) = part.transfers() {
            let at_sites = site.list(sites).into_iter().map(|site| WebSessions {
                limiter: limiter_of(site),
                ..transfers.clone()
            });
            scenario.web.extend(at_sites);
        }
        let Part::Bulk(bulk) = part else {
            continue;
        };
        let bottleneck = bulk.bottleneck.map(|narrow| {
            scenario.bottlenecks.push(narrow.link());
            scenario.bottlenecks.len() - 1
        });
        for site in bulk.site.list(sites) {
            let flow = Flows {
                limiter: limiter_of(site),
                start_s: bulk.start_s,
                stop_s: bulk.stop_s,
                rtt_ms: bulk.rtt_ms,
                bottleneck,
                ..Flows::default()
            };
            let count = bulk.flows.draw(uniform(&mut counts));
            begin.extend((0..count).map(|_| (number, flow.clone())));
        }
    }
    // All flows of one site first would give them the limit before the others come.
    let mut starts = streams.stream("starts");
    for place in 1..begin.len() {
        let other = (uniform(&mut starts) * (place + 1) as f64) as usize;
        begin.swap(place, other);
    }
    one_by_one(begin, stagger_s, scenario)
}

/// Adds flows in the order of their starts, those of the same start `stagger_s` apart.
fn one_by_one(
    mut begin: Vec<(usize, Flows)>,
    stagger_s: f64,
    scenario: &mut Scenario,
) -> Vec<usize> {
    begin.sort_by(|(_, one), (_, other)| one.start_s.total_cmp(&other.start_s));
    let mut part_of_flow = Vec::with_capacity(begin.len());
    for together in begin.chunk_by(|(_, one), (_, other)| one.start_s == other.start_s) {
        for (order, (part, flow)) in together.iter().enumerate() {
            part_of_flow.push(*part);
            scenario.flows.push(Flows {
                start_s: flow.start_s + order as f64 * stagger_s,
                ..flow.clone()
            });
        }
    }
    part_of_flow
}

impl Count {
    /// `chance` is from 0 to below 1.
    fn draw(self, chance: f64) -> u32 {
        match self {
            Count::Exactly(count) => count,
            Count::Between([least, most]) => {
                let choices = f64::from(most.saturating_sub(least)) + 1.0;
                least + (chance * choices) as u32
            }
        }
    }
}

impl Sizes {
    fn sessions(self) -> WebSessions {
        WebSessions {
            least_bytes: self.least_bytes,
            most_bytes: self.most_bytes,
            shape: self.shape,
            ..WebSessions::default()
        }
    }
}

impl Narrow {
    fn link(&self) -> Bottleneck {
        Bottleneck {
            mbps: self.mbps,
            queue_bytes: self.queue_bytes,
            start_s: self.from_s,
        }
    }
}

fn rtt_ms() -> f64 {
    40.0
}

fn queue_bytes() -> f64 {
    15_000.0
}
