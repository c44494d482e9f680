//! What an operator may configure about leases.

use std::time::Duration;

use clock::Instant;

/// How a topic's shares are leased and adapted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LedgerConfig {
    /// How long a grant holds from the report that it answers. Several report intervals, so that
    /// one lost report costs nothing; the time for which a silent broker's share stays idle.
    pub ttl: Duration,
    /// By how much a broker's clock may fall behind the controller's in one ttl.
    pub drift: Duration,
    /// Part of a share that stays in force when its lease has ended, from 0 (nothing) to 1.
    pub floor_fraction: f64,
    /// The least burst of a share, in tokens.
    pub batch_tokens: f64,
    /// Time between looks at the traffic.
    pub period: Duration,
    /// Length of the brokers' histories; a broker that is known for less is judged by its weight.
    pub window: Duration,
    /// Whether shares follow the traffic.
    pub mode: Mode,
}

/// The measure by which a limit is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// By the traffic (the TB Adaptor); by weights until there is any.
    #[default]
    Adapting,
    /// By weights, whatever the traffic.
    Frozen,
}

impl Default for LedgerConfig {
    fn default() -> Self {
        LedgerConfig {
            ttl: Duration::from_secs(5),
            drift: Duration::from_millis(10),
            floor_fraction: 0.5,
            batch_tokens: 1.0,
            period: Duration::from_secs(1),
            window: Duration::from_secs(10),
            mode: Mode::Adapting,
        }
    }
}

impl LedgerConfig {
    /// The instant by which a lease from a report that was received at `received_at` has ended at
    /// its holder.
    pub(crate) fn lease_end(&self, received_at: Instant) -> Instant {
        received_at + self.ttl + self.drift
    }

    /// `ttl` as sent.
    pub(crate) fn ttl_ms(&self) -> u64 {
        u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX)
    }
}
