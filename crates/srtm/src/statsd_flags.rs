//! Flags of figures for those who watch a broker as they watch nsqd, named as nsqd's: statsd, and percentiles in /stats.

use broker::ProcessingConfig;
use broker::statsd::StatsdConfig;
use clap::{ArgAction, Args};

use crate::duration::GoDuration;

/// What is sent to statsd, and what is measured of the time until messages are finished.
#[derive(Args, Clone, Debug)]
pub(crate) struct StatsdFlags {
    /// UDP address of a statsd that gets the figures of topics and channels [default: none; nothing is
    /// sent].
    #[arg(long, value_name = "HOST:PORT")]
    statsd_address: Option<String>,
    /// Time between two sendings to statsd.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().interval))]
    statsd_interval: GoDuration,
    /// Sends figures of the memory to statsd as well.
    #[arg(
        long,
        value_name = "true|false",
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true"
    )]
    statsd_mem_stats: bool,
    /// What names begin with at statsd; %s stands for the broadcast address and the HTTP port.
    #[arg(long, value_name = "PREFIX", default_value_t = defaults().prefix)]
    statsd_prefix: String,
    /// Largest UDP packet to statsd.
    #[arg(long, value_name = "BYTES", default_value_t = defaults().packet_bytes)]
    statsd_udp_packet_size: usize,
    /// Leaves ephemeral topics and channels out of what statsd gets.
    #[arg(
        long,
        value_name = "true|false",
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = false,
        default_missing_value = "true"
    )]
    statsd_exclude_ephemeral: bool,
    /// Percentiles of the time from a message's arrival to its FIN, for `e2e_processing_latency` of
    /// /stats and for statsd, such as 1.0,0.99,0.95. Each channel then takes up to 32 KiB more. May be
    /// repeated [default: none; nothing is measured].
    #[arg(long, value_name = "QUANTILE,…", value_delimiter = ',')]
    e2e_processing_latency_percentile: Vec<f64>,
    /// Time over which those percentiles are taken.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(ProcessingConfig::default().window))]
    e2e_processing_latency_window_time: GoDuration,
}

impl StatsdFlags {
    /// Puts what these flags describe into a broker's settings, which judge whether it is in range.
    pub(crate) fn put(self, config: &mut broker::Config) {
        config.statsd = StatsdConfig {
            address: self.statsd_address,
            interval: self.statsd_interval.0,
            prefix: self.statsd_prefix,
            with_memory: self.statsd_mem_stats,
            packet_bytes: self.statsd_udp_packet_size,
            without_ephemeral: self.statsd_exclude_ephemeral,
        };
        let mut percentiles = self.e2e_processing_latency_percentile;
        // As nsqd tells them: the highest first.
        percentiles.sort_by(|a, b| b.total_cmp(a));
        config.processing = ProcessingConfig {
            percentiles,
            window: self.e2e_processing_latency_window_time.0,
        };
    }
}

fn defaults() -> StatsdConfig {
    StatsdConfig::default()
}
