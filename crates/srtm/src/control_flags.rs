//! The flags of a controller's behaviour, shared by `srtm controller` and `srtm up`.

use clap::{Args, ValueEnum};
use control::Settings;

use crate::duration::GoDuration;
use crate::error::Failure;

/// Settings of the Load Distributor and the TB Adaptor.
#[derive(Args, Clone, Debug)]
pub(crate) struct ControlFlags {
    /// Length of a profiling window, over which the latency of a broker is measured.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().profile_window))]
    pub(crate) profile_window: GoDuration,
    /// A fit ends once the latency is below the promise by at most this fraction.
    #[arg(long, value_name = "PART", default_value_t = defaults().band)]
    pub(crate) fit_band: f64,
    /// How long a broker keeps its share of a limit while the controller is away, unless all brokers
    /// hear each other. After that the share falls to a safe floor.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().lease))]
    pub(crate) lease: GoDuration,
    /// Time between two adaptations of the shares by the TB Adaptor.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().adapt_period))]
    pub(crate) adapt_period: GoDuration,
    /// Length of the traffic history that the TB Adaptor uses.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().adapt_window))]
    pub(crate) adapt_window: GoDuration,
    /// Whether shares follow the traffic or stay as placed.
    #[arg(long, value_enum, default_value_t = Adaptor::On)]
    pub(crate) adaptor: Adaptor,
    /// Time between two reports of a broker.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().report_interval))]
    pub(crate) report_interval: GoDuration,
    /// Most publishers to move per second.
    #[arg(long, value_name = "N", default_value_t = defaults().moves_per_s)]
    pub(crate) moves_per_second: f64,
    /// Messages per second that a broker carries under its promise, unless it was calibrated.
    #[arg(long, value_name = "R", default_value_t = defaults().mcap)]
    pub(crate) mcap: f64,
    /// Brokers that each broker tells its demand per interval, for limits shared by gossip; all of
    /// them if there are fewer.
    #[arg(long, value_name = "N", default_value_t = defaults().gossip_branches)]
    pub(crate) gossip_branches: u16,
    /// Length of an estimate interval, for limits shared by gossip.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().gossip_interval))]
    pub(crate) gossip_interval: GoDuration,
}

/// The TB Adaptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Adaptor {
    /// Shares follow the traffic.
    On,
    /// Shares stay in proportion to the placed publishers.
    Off,
}

impl ControlFlags {
    /// The settings that these flags describe.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        if !(0.0..1.0).contains(&self.fit_band) {
            let band = self.fit_band;
            return Err(Failure::Usage(format!(
                "--fit-band {band} is out of range; use a number from 0 to below 1"
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
