//! Checks that involve more than one field of a file.

use std::collections::HashSet;

use limit::sharing::SharingError;

use super::{Branching, Config, Device, Intake, Transport};

/// Why a file is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It is no TOML, or a field is not what it should be; the text has line and column.
    #[error("{}", .0.to_string().trim_end())]
    Toml(#[from] toml::de::Error),
    /// A field does not go with the others.
    #[error("{field}: {reason}")]
    Field {
        /// The path of the field from the top of the file.
        field: String,
        /// What is wrong, and what to write instead.
        reason: String,
    },
    /// A limit is out of range, or cannot be divided among so many sites.
    #[error("class {class:?}, limit: {source}")]
    Limit {
        /// The class whose limit it is.
        class: String,
        /// What is wrong.
        source: SharingError,
    },
}

impl ConfigError {
    pub(super) fn field(field: impl Into<String>, reason: impl Into<String>) -> ConfigError {
        ConfigError::Field {
            field: field.into(),
            reason: reason.into(),
        }
    }
}

/// The most sites that one process may have.
pub(super) const MOST_SITES: usize = 4096;

impl Config {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.check_intake()?;
        self.check_sites()?;
        self.check_gossip()?;
        self.check_classes()?;
        self.check_emulation()?;
        if !(1..=3_600_000).contains(&self.record_interval_ms) {
            return Err(out_of_range("record_interval_ms", "1 to 3600000"));
        }
        Ok(())
    }

    fn check_intake(&self) -> Result<(), ConfigError> {
        match self.intake {
            Intake::Tun if self.tun.is_empty() => Err(ConfigError::field(
                "tun",
                "there is no device: add [[tun]] with inner and outer, or set intake = \"nfqueue\"",
            )),
            Intake::Nfqueue if self.nfqueue.is_empty() => Err(ConfigError::field(
                "nfqueue",
                "there is no queue: add [[nfqueue]] with its number, or set intake = \"tun\"",
            )),
            Intake::Nfqueue if self.emulate.is_some() => Err(ConfigError::field(
                "emulate",
                "emulation needs intake = \"tun\", because packets of nfqueue are judged at once",
            )),
            Intake::Tun => self.check_devices(),
            Intake::Nfqueue => self.check_queues(),
        }
    }

    fn check_devices(&self) -> Result<(), ConfigError> {
        let mut seen = HashSet::new();
        for (number, pair) in self.tun.iter().enumerate() {
            for (side, device) in [("inner", &pair.inner), ("outer", &pair.outer)] {
                let field = || format!("tun[{number}].{side}");
                check_device(device).map_err(|reason| ConfigError::field(field(), reason))?;
                if !seen.insert(device) {
                    let reason = format!("{} is named twice", device.name);
                    return Err(ConfigError::field(field(), reason));
                }
            }
            if !(576..=16_384).contains(&pair.mtu_bytes) {
                return Err(out_of_range(
                    &format!("tun[{number}].mtu_bytes"),
                    "576 to 16384",
                ));
            }
            self.check_site_name(&format!("tun[{number}].site"), pair.site.as_deref())?;
        }
        Ok(())
    }

    fn check_queues(&self) -> Result<(), ConfigError> {
        let mut seen = HashSet::new();
        for (number, queue) in self.nfqueue.iter().enumerate() {
            if !seen.insert((queue.number, &queue.netns)) {
                let reason = format!("{} is given twice", queue.number);
                return Err(ConfigError::field(
                    format!("nfqueue[{number}].number"),
                    reason,
                ));
            }
            self.check_site_name(&format!("nfqueue[{number}].site"), queue.site.as_deref())?;
        }
        Ok(())
    }

    fn check_site_name(&self, field: &str, name: Option<&str>) -> Result<(), ConfigError> {
        match name {
            Some(name) if self.site.iter().all(|site| site.name != name) => Err(
                ConfigError::field(field, format!("there is no site {name:?}")),
            ),
            _ => Ok(()),
        }
    }

    fn check_sites(&self) -> Result<(), ConfigError> {
        if self.site.is_empty() || self.site.len() > MOST_SITES {
            let reason = format!("{} sites: there must be 1 to {MOST_SITES}", self.site.len());
            return Err(ConfigError::field("site", reason));
        }
        let mut names = HashSet::new();
        for site in &self.site {
            if !names.insert(site.name.as_str()) {
                return Err(ConfigError::field(
                    "site",
                    format!("{:?} is given twice", site.name),
                ));
            }
        }
        Ok(())
    }

    fn check_gossip(&self) -> Result<(), ConfigError> {
        let gossip = &self.gossip;
        if !(1..=60_000).contains(&gossip.interval_ms) {
            return Err(out_of_range("gossip.interval_ms", "1 to 60000"));
        }
        if gossip.branches == Branching::Random(0) {
            let reason = "with 0 nobody would be told: set 1 or more, or \"mesh\"";
            return Err(ConfigError::field("gossip.branches", reason));
        }
        if gossip.transport == Transport::Memory && !gossip.peers.is_empty() {
            let reason = "peers need transport = \"udp\"";
            return Err(ConfigError::field("gossip.peers", reason));
        }
        // A single site has nobody to talk to.
        let several = self.site.len().max(gossip.peers.len()) > 1;
        if gossip.transport == Transport::Udp && several {
            self.check_addresses()?;
        }
        Ok(())
    }

    fn check_addresses(&self) -> Result<(), ConfigError> {
        let peers = &self.gossip.peers;
        let mut known = HashSet::new();
        if let Some(twice) = peers.iter().find(|peer| !known.insert(**peer)) {
            let reason = format!("{twice} is given twice");
            return Err(ConfigError::field("gossip.peers", reason));
        }
        let mut seen = HashSet::new();
        for site in &self.site {
            let field = || format!("site {:?}, gossip", site.name);
            let Some(address) = site.gossip else {
                let reason =
                    "the address is missing: give each site one, such as \"127.0.1.1:4700\"";
                return Err(ConfigError::field(field(), reason));
            };
            if !seen.insert(address) {
                return Err(ConfigError::field(
                    field(),
                    format!("{address} is given twice"),
                ));
            }
            if !peers.is_empty() && !known.contains(&address) {
                let reason = format!("{address} is not in gossip.peers: list all sites there");
                return Err(ConfigError::field(field(), reason));
            }
        }
        Ok(())
    }

    fn check_classes(&self) -> Result<(), ConfigError> {
        let mut names = HashSet::new();
        for (number, class) in self.class.iter().enumerate() {
            let field = format!("class[{number}].name");
            if class.name.is_empty() || class.name.len() > 64 {
                return Err(ConfigError::field(field, "it must have 1 to 64 bytes"));
            }
            if !names.insert(class.name.as_str()) {
                return Err(ConfigError::field(
                    field,
                    format!("{:?} is given twice", class.name),
                ));
            }
            if let Some(limit) = &class.limit {
                self.sharing(limit, number)
                    .map_err(|source| ConfigError::Limit {
                        class: class.name.clone(),
                        source,
                    })?;
            }
        }
        Ok(())
    }

    fn check_emulation(&self) -> Result<(), ConfigError> {
        let Some(emulate) = &self.emulate else {
            return Ok(());
        };
        if !(0.0..=1.0).contains(&emulate.gossip_loss) {
            return Err(out_of_range("emulate.gossip_loss", "0 to 1"));
        }
        if !(1..=1_000_000).contains(&emulate.held_packets) {
            return Err(out_of_range("emulate.held_packets", "1 to 1000000"));
        }
        let delays = emulate.path.iter().map(|path| path.delay_us);
        let longest_us = delays
            .chain([emulate.delay_us, emulate.gossip_delay_us])
            .max();
        if longest_us > Some(60_000_000) {
            return Err(out_of_range("emulate: a delay", "0 to 60000000 µs"));
        }
        for (number, bottleneck) in emulate.bottleneck.iter().enumerate() {
            let until_s = bottleneck.until_s.unwrap_or(f64::MAX);
            if !(bottleneck.at_s >= 0.0 && bottleneck.at_s < until_s && bottleneck.at_s <= 1e9) {
                let reason = "at_s must be at least 0 and less than until_s";
                return Err(ConfigError::field(
                    format!("emulate.bottleneck[{number}]"),
                    reason,
                ));
            }
        }
        Ok(())
    }
}

fn check_device(device: &Device) -> Result<(), String> {
    let name = &device.name;
    let odd = |c: char| c == '/' || c.is_whitespace() || c.is_control() || c == '%';
    if name.is_empty() || name.len() > 15 || name.contains(odd) || name.starts_with('.') {
        return Err(format!(
            "{name:?} is not a name for a device: use 1 to 15 bytes, without / and spaces"
        ));
    }
    if let Some(netns) = &device.netns
        && (netns.is_empty() || netns.contains('/') || netns.starts_with('.'))
    {
        return Err(format!(
            "{netns:?} is not a network namespace: use a name that `ip netns` shows"
        ));
    }
    Ok(())
}

fn out_of_range(field: &str, range: &str) -> ConfigError {
    ConfigError::field(field, format!("out of range: it must be {range}"))
}
