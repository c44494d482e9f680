//! Sites, one by one and by number.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::check::MOST_SITES;
use crate::address::Prefix;

/// A limiter: the place where a part of the traffic passes.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SiteConfig {
    /// Its name in metrics and in the HTTP API.
    pub name: String,
    /// Its own address for gossip.
    #[serde(default)]
    pub gossip: Option<SocketAddr>,
    /// The sinks whose packets pass it.
    #[serde(default)]
    pub destinations: Vec<Prefix>,
}

/// Sites that differ by a number only: `site-0`, `site-1` and so on.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Fleet {
    /// How many sites there are.
    pub count: u32,
    /// The first one's sinks; the next one has the next prefix of the same length.
    pub first_destination: Prefix,
    /// The first one's address for gossip, IPv4; the next one has the next address and the same port.
    #[serde(default)]
    pub first_gossip: Option<SocketAddr>,
}

impl Fleet {
    /// The sites that it stands for.
    ///
    /// # Errors
    /// [`ConfigError::Field`] if there are more sites than a process may have, or if addresses run out.
    pub fn sites(&self) -> Result<Vec<SiteConfig>, ConfigError> {
        if self.count as usize > MOST_SITES {
            let reason = format!("{}: there may be at most {MOST_SITES}", self.count);
            return Err(ConfigError::field("sites.count", reason));
        }
        let site = |number| {
            let destination = self.first_destination.step(number);
            let destination = destination.ok_or_else(|| {
                ConfigError::field(
                    "sites.first_destination",
                    "there are too few prefixes after it: lower the count",
                )
            })?;
            Ok(SiteConfig {
                name: format!("site-{number}"),
                gossip: self
                    .first_gossip
                    .map(|first| further(first, number))
                    .transpose()?,
                destinations: vec![destination],
            })
        };
        (0..self.count).map(site).collect()
    }
}

/// The address `steps` behind `first`.
fn further(first: SocketAddr, steps: u32) -> Result<SocketAddr, ConfigError> {
    let IpAddr::V4(v4) = first.ip() else {
        return Err(ConfigError::field(
            "sites.first_gossip",
            "it must be an IPv4 address",
        ));
    };
    let number = v4.to_bits().checked_add(steps);
    let number = number.ok_or_else(|| {
        ConfigError::field(
            "sites.first_gossip",
            "there are too few addresses after it: lower the count",
        )
    })?;
    Ok(SocketAddr::new(
        Ipv4Addr::from_bits(number).into(),
        first.port(),
    ))
}
