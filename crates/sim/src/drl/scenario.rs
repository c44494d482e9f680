//! A scenario to simulate, as data.

use std::time::Duration;

use limit::sharing::{Policy, Sharing, SharingConfig};
use serde::{Deserialize, Serialize};

use crate::SimError;

/// The most flows of a scenario, web sessions not counted.
const FLOWS_MAX: u64 = 100_000;

/// The longest scenario, seconds.
const DURATION_MAX_S: f64 = 86_400.0;

/// Limiters, their limit and their traffic. The default is the paper's baseline without flows (DRL, section 5.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// How the limit is shared. With `ctb` the traffic of all limiters passes one bucket.
    pub policy: Policy,
    /// N.
    pub limiters: u32,
    /// L: IP bytes, as megabits per second.
    pub limit_mbps: f64,
    /// Depth of the one bucket that the limiters stand for, bytes.
    pub depth_bytes: f64,
    /// Time between two updates of a limiter.
    pub estimate_interval_ms: f64,
    /// The fraction of an old estimate that remains after one second.
    pub ewma_1s: f64,
    /// The most that all `fps` limits together may be, as a multiple of L; `None` for the policy's own.
    pub overbooking: Option<f64>,
    /// Depth of the shallowest local bucket, bytes; `None` for three full packets.
    pub least_depth_bytes: Option<f64>,
    /// What carries updates between limiters.
    pub updates: Updates,
    /// Times at which limiters cannot hear each other.
    pub cuts: Vec<Cut>,
    /// Flows that are there or begin one by one.
    pub flows: Vec<Flows>,
    /// Flows that begin at random and are short.
    pub web: Vec<WebSessions>,
    /// Slow links before the limiters; flows name them by their place in this list.
    pub bottlenecks: Vec<Bottleneck>,
    /// Rate of each limiter's access link.
    pub link_mbps: f64,
    /// How long it lasts.
    pub duration_s: f64,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The shortest time in which forwarded bytes are told apart.
    pub bin_ms: f64,
}

/// What carries updates between limiters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Updates {
    /// Who hears an update.
    pub reach: Reach,
    /// How long a message takes: half a round trip between limiters.
    pub delay_ms: f64,
    /// The part of the messages that is lost.
    pub loss: f64,
    /// The part of the messages that takes longer, by up to two estimate intervals, so that later ones overtake it.
    pub reordered: f64,
}

/// Who hears an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reach {
    /// Everyone, at once and for certain: what no network can do, to hold the others against.
    Oracle,
    /// Everyone, each by a message of its own.
    Mesh,
    /// So many picked at random per interval: the paper's branching factor.
    Random(u16),
}

/// A time in which the first limiters and the others cannot hear each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// Limiters on the one side, from 0 on.
    pub first: u32,
    /// Since when.
    pub at_s: f64,
    /// Until when.
    pub heal_s: f64,
    /// How long the membership takes to notice either.
    pub notice_ms: f64,
}

/// Flows of one kind through one limiter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Flows {
    /// Which limiter, from 0.
    pub limiter: u32,
    /// How many.
    pub count: u32,
    /// When the first begins.
    pub start_s: f64,
    /// How long after each the next one begins.
    pub spacing_ms: f64,
    /// When they end; `None` for with the scenario, or with the transfer.
    pub stop_s: Option<f64>,
    /// Round trip time without any queue.
    pub rtt_ms: f64,
    /// Which of the scenario's bottlenecks they pass.
    pub bottleneck: Option<usize>,
    /// Payload of each; `None` for as much as possible.
    pub transfer_bytes: Option<u64>,
}

/// Transfers that begin at random, with sizes of a heavy tail: a bounded Pareto distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebSessions {
    /// Which limiter, from 0.
    pub limiter: u32,
    /// Mean number of transfers that begin per second; Poisson.
    pub per_s: f64,
    /// Clients in place of random beginnings: each begins its next transfer when its last one has ended, and breaks off
    /// what is not finished at `stop_s`.
    pub clients: Option<u32>,
    /// The smallest transfer, bytes.
    pub least_bytes: f64,
    /// The largest transfer, bytes.
    pub most_bytes: f64,
    /// The tail's exponent; the smaller, the heavier.
    pub shape: f64,
    /// Since when.
    pub start_s: f64,
    /// Until when; `None` for the scenario's end.
    pub stop_s: Option<f64>,
    /// Round trip time.
    pub rtt_ms: f64,
}

/// A slow link with a queue, which drops what does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bottleneck {
    /// Its rate, IP bytes.
    pub mbps: f64,
    /// What its queue holds.
    pub queue_bytes: f64,
    /// Since when; before, it is as good as not there.
    pub start_s: f64,
}

impl Default for Scenario {
    fn default() -> Self {
        Scenario {
            policy: Policy::Fps,
            limiters: 2,
            limit_mbps: 10.0,
            depth_bytes: 75_000.0,
            estimate_interval_ms: 50.0,
            ewma_1s: 0.1,
            overbooking: None,
            least_depth_bytes: None,
            updates: Updates::default(),
            cuts: Vec::new(),
            flows: Vec::new(),
            web: Vec::new(),
            bottlenecks: Vec::new(),
            link_mbps: 100.0,
            duration_s: 60.0,
            seed: 1,
            bin_ms: 10.0,
        }
    }
}

impl Default for Updates {
    fn default() -> Self {
        Updates {
            reach: Reach::Mesh,
            delay_ms: 20.0,
            loss: 0.0,
            reordered: 0.0,
        }
    }
}

impl Default for Flows {
    fn default() -> Self {
        Flows {
            limiter: 0,
            count: 1,
            start_s: 0.0,
            spacing_ms: 0.0,
            stop_s: None,
            rtt_ms: 40.0,
            bottleneck: None,
            transfer_bytes: None,
        }
    }
}

impl Default for WebSessions {
    /// 15 transfers per second of 15 kB in the mean (DRL, section 5.3; the sizes are ours).
    fn default() -> Self {
        WebSessions {
            limiter: 0,
            per_s: 15.0,
            clients: None,
            least_bytes: 2_500.0,
            most_bytes: 5_000_000.0,
            shape: 1.1,
            start_s: 0.0,
            stop_s: None,
            rtt_ms: 40.0,
        }
    }
}

impl Flows {
    /// `count` flows for as long as the scenario lasts, through `limiter`.
    pub fn bulk(limiter: u32, count: u32) -> Self {
        Flows {
            limiter,
            count,
            ..Flows::default()
        }
    }
}

impl Scenario {
    /// The limit as its policy takes it.
    ///
    /// # Errors
    /// [`SimError::Sharing`], with the number that is out of range.
    pub fn sharing(&self) -> Result<Sharing, SimError> {
        let interval = self.estimate_interval()?;
        let rate = self.limit_mbps * 1e6 / 8.0;
        let mut config = SharingConfig::bytes(self.policy, rate, self.depth_bytes, self.limiters)?;
        config.estimate_interval = interval;
        config.ewma_1s = self.ewma_1s;
        config.overbooking = self.overbooking.unwrap_or(config.overbooking);
        if let Some(least) = self.least_depth_bytes {
            config.least_depth = limit::Burst::new(least)?;
        }
        config.seed = self.seed;
        Ok(config.checked()?)
    }

    /// Whether it can be simulated.
    ///
    /// # Errors
    /// [`SimError::Scenario`] or [`SimError::Sharing`], with what cannot be.
    pub fn check(&self) -> Result<(), SimError> {
        self.sharing()?;
        positive("duration_s", self.duration_s, DURATION_MAX_S)?;
        positive("link_mbps", self.link_mbps, 1e6)?;
        positive("bin_ms", self.bin_ms, 60_000.0)?;
        duration("updates.delay_ms", self.updates.delay_ms, 1e-3)?;
        for (what, part) in [
            ("updates.loss", self.updates.loss),
            ("updates.reordered", self.updates.reordered),
        ] {
            if !(0.0..=1.0).contains(&part) {
                return Err(wrong(format!("{what} is {part}: it must be from 0 to 1")));
            }
        }
        let mut count = 0;
        for flows in &self.flows {
            self.check_limiter("flows.limiter", flows.limiter)?;
            self.check_flows(flows)?;
            count += u64::from(flows.count);
        }
        if count > FLOWS_MAX {
            return Err(wrong(format!(
                "{count} flows are too many: at most {FLOWS_MAX} fit"
            )));
        }
        self.web.iter().try_for_each(|web| self.check_web(web))?;
        for bottleneck in &self.bottlenecks {
            positive("bottlenecks.mbps", bottleneck.mbps, 1e6)?;
            positive("bottlenecks.queue_bytes", bottleneck.queue_bytes, 1e9)?;
            duration("bottlenecks.start_s", bottleneck.start_s, 1.0)?;
        }
        self.cuts.iter().try_for_each(|cut| self.check_cut(cut))
    }

    pub(super) fn estimate_interval(&self) -> Result<Duration, SimError> {
        positive("estimate_interval_ms", self.estimate_interval_ms, 60_000.0)?;
        Ok(Duration::from_secs_f64(self.estimate_interval_ms / 1e3))
    }

    fn check_limiter(&self, what: &str, limiter: u32) -> Result<(), SimError> {
        if limiter < self.limiters {
            return Ok(());
        }
        Err(wrong(format!(
            "{what} is {limiter}: there are {} limiters, and they count from 0",
            self.limiters
        )))
    }

    fn check_flows(&self, flows: &Flows) -> Result<(), SimError> {
        duration("flows.start_s", flows.start_s, 1.0)?;
        duration("flows.spacing_ms", flows.spacing_ms, 1e-3)?;
        duration("flows.stop_s", flows.stop_s.unwrap_or(0.0), 1.0)?;
        positive("flows.rtt_ms", flows.rtt_ms, 60_000.0)?;
        match flows.bottleneck {
            Some(at) if at >= self.bottlenecks.len() => Err(wrong(format!(
                "flows.bottleneck is {at}: there are {} bottlenecks, and they count from 0",
                self.bottlenecks.len()
            ))),
            _ => Ok(()),
        }
    }

    fn check_web(&self, web: &WebSessions) -> Result<(), SimError> {
        self.check_limiter("web.limiter", web.limiter)?;
        positive("web.per_s", web.per_s, 1e4)?;
        positive("web.clients", f64::from(web.clients.unwrap_or(1)), 1e4)?;
        positive("web.shape", web.shape, 100.0)?;
        positive("web.rtt_ms", web.rtt_ms, 60_000.0)?;
        positive("web.least_bytes", web.least_bytes, 1e12)?;
        positive("web.most_bytes", web.most_bytes, 1e12)?;
        duration("web.start_s", web.start_s, 1.0)?;
        duration("web.stop_s", web.stop_s.unwrap_or(0.0), 1.0)?;
        if web.least_bytes > web.most_bytes {
            return Err(wrong(format!(
                "web.least_bytes {} exceeds web.most_bytes {}",
                web.least_bytes, web.most_bytes
            )));
        }
        Ok(())
    }

    fn check_cut(&self, cut: &Cut) -> Result<(), SimError> {
        duration("cuts.at_s", cut.at_s, 1.0)?;
        duration("cuts.notice_ms", cut.notice_ms, 1e-3)?;
        duration("cuts.heal_s", cut.heal_s, 1.0)?;
        if self.cuts.len() > 1 {
            return Err(wrong("one cut at a time can be simulated".to_owned()));
        }
        if cut.heal_s < cut.at_s {
            return Err(wrong(format!(
                "a cut at {} s cannot heal at {} s",
                cut.at_s, cut.heal_s
            )));
        }
        if cut.first == 0 || cut.first >= self.limiters {
            return Err(wrong(format!(
                "cuts.first is {}: each side needs one of the {} limiters",
                cut.first, self.limiters
            )));
        }
        Ok(())
    }
}

fn positive(what: &str, value: f64, most: f64) -> Result<(), SimError> {
    if value > 0.0 && value <= most {
        return Ok(());
    }
    Err(wrong(format!(
        "{what} is {value}: it must be above 0 and at most {most}"
    )))
}

fn duration(what: &str, value: f64, seconds: f64) -> Result<(), SimError> {
    if (0.0..=DURATION_MAX_S / seconds).contains(&value) {
        return Ok(());
    }
    Err(wrong(format!(
        "{what} is {value}: it must be at least 0 and at most a day"
    )))
}

fn wrong(text: String) -> SimError {
    SimError::Scenario(text)
}
