//! The flags of a controller's behaviour, shared by `srtm controller` and `srtm up`.

use clap::{Args, ValueEnum};
use control::Settings;

use crate::duration::GoDuration;
use crate::error::Failure;

/// Settings of the Load Distributor and the TB Adaptor.
#[derive(Args, Clone, Debug)]
pub(crate) struct ControlFlags {
    /// Length of a profiling window: the time over which a broker's latency is judged.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().profile_window))]
    pub(crate) profile_window: GoDuration,
    /// A fit stops when the latency is within this part below the promise.
    #[arg(long, value_name = "PART", default_value_t = defaults().band)]
    pub(crate) fit_band: f64,
    /// How long a broker's share of a limit holds when the controller is away; then it falls to a safe floor.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().lease))]
    pub(crate) lease: GoDuration,
    /// Time between two changes of shares by the TB Adaptor.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().adapt_period))]
    pub(crate) adapt_period: GoDuration,
    /// Length of the history of traffic that shares follow.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().adapt_window))]
    pub(crate) adapt_window: GoDuration,
    /// Whether shares follow traffic or stay as placed.
    #[arg(long, value_enum, default_value_t = Adaptor::On)]
    pub(crate) adaptor: Adaptor,
    /// Time between reports of a broker.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().report_interval))]
    pub(crate) report_interval: GoDuration,
    /// Publishers told to move per second, at most.
    #[arg(long, value_name = "N", default_value_t = defaults().moves_per_s)]
    pub(crate) moves_per_second: f64,
    /// Messages per second that a broker carries under its promise, where it was not calibrated.
    #[arg(long, value_name = "R", default_value_t = defaults().mcap)]
    pub(crate) mcap: f64,
    /// To how many others a broker tells its numbers per interval, where brokers share a limit by gossip; to all where there
    /// are no more.
    #[arg(long, value_name = "N", default_value_t = defaults().gossip_branches)]
    pub(crate) gossip_branches: u16,
    /// Length of the intervals after which they do.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().gossip_interval))]
    pub(crate) gossip_interval: GoDuration,
}

/// The TB Adaptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Adaptor {
    /// Shares follow traffic.
    On,
    /// Shares stay in proportion to the publishers placed.
    Off,
}

impl ControlFlags {
    /// The settings that these flags describe.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        if !(0.0..1.0).contains(&self.fit_band) {
            let band = self.fit_band;
            return Err(Failure::Usage(format!(
                "--fit-band {band} is not from 0 to below 1"
            )));
        }
        let settings = Settings {
            profile_window: self.profile_window.0,
            band: self.fit_band,
            lease: self.lease.0,
            adapt_period: self.adapt_period.0,
            adapt_window: self.adapt_window.0,
            adapts: self.adaptor == Adaptor::On,
            report_interval: self.report_interval.0,
            silent_after: self.report_interval.0 * 3,
            moves_per_s: self.moves_per_second,
            mcap: self.mcap,
            gossip_branches: self.gossip_branches,
            gossip_interval: self.gossip_interval.0,
            ..Settings::default()
        };
        control::check_settings(&settings).map_err(Failure::Usage)?;
        Ok(settings)
    }
}

fn defaults() -> Settings {
    Settings::default()
}
