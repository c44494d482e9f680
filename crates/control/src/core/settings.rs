//! What decisions depend on: the settings, the number of this life, and how much is done in one
//! part.

use std::time::Duration;

use limit::LedgerConfig;
use limit::lease::Mode;
use model::ServiceModel;

use super::parts::Sizes;
use super::{Broker, check};

/// How the control plane behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Length of a profiling window (SRTM-long, section 6.5: 60 s).
    pub profile_window: Duration,
    /// Quiet time between the last move and the window that follows it: longer than the interval of
    /// reports, so that their queues are those after the move, and long enough for buckets to fill.
    pub settle: Duration,
    /// How long the set of publishers must stay as it is before a fit begins.
    pub debounce: Duration,
    /// A fit stops within this part below the promise (SRTM-long, section 6.5: 0.2).
    pub band: f64,
    /// Time between reports of a broker.
    pub report_interval: Duration,
    /// How long a share holds without renewal.
    pub lease: Duration,
    /// Time between two changes of shares by the TB Adaptor.
    pub adapt_period: Duration,
    /// Length of the history that brokers report and shares follow (SRTM-long, section 5.4: 10 s).
    pub adapt_window: Duration,
    /// Whether shares follow traffic; otherwise they stay in proportion to what was placed.
    pub adapts: bool,
    /// A broker that has not reported for this long is silent: it gets no more publishers.
    pub silent_after: Duration,
    /// A broker that has been silent for this long loses its publishers to others.
    pub lost_after: Duration,
    /// Publishers told to move per second, at most.
    pub moves_per_s: f64,
    /// Messages per second that a broker carries which was not calibrated.
    pub mcap: f64,
    /// To how many others a broker tells its numbers per interval, where brokers share a limit by gossip; N − 1 or more: to
    /// all.
    pub gossip_branches: u16,
    /// Length of their estimate intervals (DRL: 50 ms).
    pub gossip_interval: Duration,
    /// The number of this life at least, beside those that were kept: seconds since 1970, so that a life which could not be kept
    /// does not share its number with the next.
    pub least_epoch: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            profile_window: Duration::from_secs(60),
            settle: Duration::from_secs(3),
            debounce: Duration::from_secs(2),
            band: 0.2,
            report_interval: Duration::from_secs(1),
            lease: Duration::from_secs(15),
            adapt_period: Duration::from_secs(1),
            adapt_window: Duration::from_secs(10),
            adapts: true,
            silent_after: Duration::from_secs(3),
            lost_after: Duration::from_secs(15),
            moves_per_s: 1000.0,
            mcap: 40_000.0,
            gossip_branches: 3,
            gossip_interval: Duration::from_millis(50),
            least_epoch: 0,
        }
    }
}

/// What decisions go by; the same for all of this life.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) settings: Settings,
    /// Number of this life.
    pub(super) epoch: u64,
    pub(super) sizes: Sizes,
}

/// A server that works more than this part of the time lets its queue grow long.
pub(super) const UTILISATION_MAX: f64 = 0.9;

impl Rules {
    /// Messages per second that a broker carries: calibrated, or by its emulated service, or the default.
    pub(super) fn mcap_of(&self, broker: &Broker) -> f64 {
        let by_model = |model: &ServiceModel| {
            let served_per_s = 1e9 * f64::from(model.servers) / model.per_message_ns.max(1.0);
            served_per_s * UTILISATION_MAX
        };
        broker
            .mcap
            .or_else(|| broker.model.as_ref().map(by_model))
            .unwrap_or(self.settings.mcap)
    }

    /// How ledgers grant.
    pub(super) fn ledger_config(&self) -> LedgerConfig {
        LedgerConfig {
            ttl: self.settings.lease,
            period: self.settings.adapt_period,
            window: self.settings.adapt_window,
            mode: if self.settings.adapts {
                Mode::Adapting
            } else {
                Mode::Frozen
            },
            ..LedgerConfig::default()
        }
    }
}

/// Settings that the type cannot check.
///
/// # Errors
/// A text that names the setting, its value and what is allowed.
pub fn check_settings(settings: &Settings) -> Result<(), String> {
    check::rate("mcap", settings.mcap)?;
    check::rate("moves per second", settings.moves_per_s)?;
    let spans = [
        ("profile window", settings.profile_window, 0.1, 3600.0),
        ("lease", settings.lease, 0.5, 3600.0),
        ("report interval", settings.report_interval, 0.05, 60.0),
        ("adapt period", settings.adapt_period, 0.1, 3600.0),
        ("adapt window", settings.adapt_window, 1.0, 600.0),
        ("gossip interval", settings.gossip_interval, 0.01, 10.0),
    ];
    for (what, span, least, most) in spans {
        if !(least..=most).contains(&span.as_secs_f64()) {
            return Err(format!(
                "{what} {span:?} is not within {least} s to {most} s"
            ));
        }
    }
    if settings.gossip_branches == 0 {
        return Err(String::from(
            "gossip branches 0 would tell nobody anything; give 1 or more (3 in the paper)",
        ));
    }
    if settings.lease < 2 * settings.report_interval {
        return Err(format!(
            "lease {:?} is shorter than two report intervals of {:?}: every lost report would end it",
            settings.lease, settings.report_interval
        ));
    }
    Ok(())
}
