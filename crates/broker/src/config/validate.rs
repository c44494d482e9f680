//! Ranges of settings that types cannot hold, and settings that exclude each other.

use std::time::Duration;

use kernel::Scheduler;
use wire::announce::MAX_EXPIRY_MS;

use super::{Config, ProcessingConfig};
use crate::BrokerError;
use crate::agent::CONTROLLERS_MAX;
use crate::auth::AuthTerms;
use crate::lookupd::are_addresses;

/// Longest time between two loop turns that may be asked for.
const TURN_SPACING_MAX: Duration = Duration::from_millis(10);

/// Longest name of a broker, in bytes.
const BROKER_NAME_MAX: usize = 64;

/// Most percentiles of the time until messages are finished.
const PERCENTILES_MAX: usize = 16;

/// The shortest window over which they are told.
const PROCESSING_WINDOW_MIN: Duration = Duration::from_millis(10);

/// The least budget, in largest commands, so that each part holds at least one.
const COMMANDS_IN_BUDGET: u64 = 8;

impl Config {
    /// Checks ranges that types cannot hold.
    ///
    /// # Errors
    /// [`BrokerError::Config`] naming the option, the value and what is allowed.
    pub fn validate(&self) -> Result<(), BrokerError> {
        let bad = |option, reason: String| Err(BrokerError::Config { option, reason });
        if self.threads == 0 || self.threads > 64 {
            return bad(
                "--threads",
                format!("{} is not within 1..=64", self.threads),
            );
        }
        if self.node_id >= 1024 {
            return bad(
                "--node-id",
                format!("{} is not within 0..1024", self.node_id),
            );
        }
        if self.mem_queue_size == 0 {
            return bad(
                "--mem-queue-size",
                "0 would hold no message; use 1 or more".into(),
            );
        }
        if self.max_msg_size == 0 || self.max_msg_size > 1 << 30 {
            return bad(
                "--max-msg-size",
                format!("{} is not within 1..=1073741824 bytes", self.max_msg_size),
            );
        }
        if self.max_body_size < self.max_msg_size || self.max_body_size > 1 << 30 {
            let (body, message) = (self.max_body_size, self.max_msg_size);
            return bad(
                "--max-body-size",
                format!("{body} is not within {message} (--max-msg-size) ..=1073741824 bytes"),
            );
        }
        let least = COMMANDS_IN_BUDGET * u64::from(self.max_body_size);
        if self.memory_budget_bytes < least {
            let budget = self.memory_budget_bytes;
            return bad(
                "--memory-budget",
                format!(
                    "{budget} is less than {least} bytes, eight times --max-body-size; allow more, or smaller bodies"
                ),
            );
        }
        if self.turn_spacing > TURN_SPACING_MAX {
            let (spacing, most) = (self.turn_spacing, TURN_SPACING_MAX);
            return bad(
                "--turn-spacing",
                format!("{spacing:?} is more than {most:?}"),
            );
        }
        if self.service_time.is_some_and(|model| !model.is_sane()) {
            return bad(
                "--emulate-service-time",
                "it is out of range: give at most 1000 s per message".into(),
            );
        }
        if self.max_connections == 0 {
            return bad(
                "--max-connections",
                "0 would accept nobody; use 1 or more".into(),
            );
        }
        self.validate_strangers()?;
        self.processing.validate()?;
        self.statsd.validate()?;
        self.validate_layers()?;
        self.validate_threads()?;
        self.validate_links()
    }

    /// What those may have who have not said who they are.
    fn validate_strangers(&self) -> Result<(), BrokerError> {
        for (option, most) in [
            ("--max-unidentified", self.max_unidentified),
            (
                "--max-unidentified-per-address",
                self.max_unidentified_per_address,
            ),
        ] {
            if most == 0 {
                let reason = String::from("0 would let nobody in; use 1 or more");
                return Err(BrokerError::Config { option, reason });
            }
        }
        Ok(())
    }

    /// TLS and compression; files are read later.
    fn validate_layers(&self) -> Result<(), BrokerError> {
        let bad = |option, reason: String| Err(BrokerError::Config { option, reason });
        let level = self.max_deflate_level;
        if !(1..=9).contains(&level) {
            return bad(
                "--max-deflate-level",
                format!("{level} is not within 1..=9"),
            );
        }
        let required = self.tls_required.is_for_clients();
        if required && self.tls.is_none() {
            let reason =
                "without a certificate nobody could connect; give --tls-cert and --tls-key";
            return bad("--tls-required", reason.into());
        }
        if self.https_address.is_some() && self.tls.is_none() {
            let reason = "HTTPS is served with a certificate; give --tls-cert and --tls-key";
            return bad("--https-address", reason.into());
        }
        let link = self.controller.as_ref();
        let authorities = self.tls.as_ref().and_then(|tls| tls.authorities.as_ref());
        if link.is_some_and(|link| link.is_encrypted) && authorities.is_none() {
            let reason = "both ends of the link need certificates; give --tls-cert, --tls-key and --tls-root-ca-file";
            return bad("--link-tls", reason.into());
        }
        if required && self.announce.is_some() {
            let reason = "Tempo's connections are not encrypted; leave out --announce-address, or --tls-required and --secure";
            return bad("--announce-address", reason.into());
        }
        if self.auth_terms().is_some() && self.announce.is_some() {
            let reason = "nobody says who he is on Tempo's connections; leave out --announce-address, or --access and --auth-http-address";
            return bad("--announce-address", reason.into());
        }
        Ok(())
    }

    /// By what NSQ's clients are let in; `None`: everybody is.
    pub(crate) fn auth_terms(&self) -> Option<AuthTerms> {
        let asks_servers = !self.auth.addresses.is_empty();
        let tokens = self.access.clone();
        (asks_servers || tokens.is_some()).then_some(AuthTerms {
            tokens,
            asks_servers,
        })
    }

    /// How reactors are scheduled, and what they schedule.
    fn validate_threads(&self) -> Result<(), BrokerError> {
        let bad = |option, reason: String| Err(BrokerError::Config { option, reason });
        if let Some(realtime) = &self.realtime {
            let (cpus, threads) = (realtime.cpus().len(), self.threads);
            if cpus > 0 && cpus < threads {
                return bad(
                    "--cpus",
                    format!(
                        "{cpus} CPUs for {threads} reactor threads: name one for each, or set --threads"
                    ),
                );
            }
        }
        match Scheduler::new(self.scheduler()) {
            Ok(_) => Ok(()),
            Err(error) => bad("--share-period", error.to_string()),
        }
    }

    /// Controller and announcements.
    fn validate_links(&self) -> Result<(), BrokerError> {
        let bad = |option, reason: String| Err(BrokerError::Config { option, reason });
        if let Some(link) = &self.controller {
            if link.broker_name.is_empty() || link.broker_name.len() > BROKER_NAME_MAX {
                let name = &link.broker_name;
                return bad(
                    "--broker-name",
                    format!("{name:?} is not 1 to {BROKER_NAME_MAX} characters long"),
                );
            }
            if let Some(wrong) = link.addresses.iter().find(|each| !each.contains(':')) {
                return bad("--controller", format!("{wrong:?} is not HOST:PORT"));
            }
            let count = link.addresses.len();
            if !(1..=CONTROLLERS_MAX).contains(&count) {
                let reason = format!("{count} addresses are named; give 1 to {CONTROLLERS_MAX}");
                return bad("--controller", reason);
            }
        }
        self.validate_lookups()?;
        if let Some(announce) = &self.announce {
            let most = Duration::from_millis(u64::from(MAX_EXPIRY_MS) / 3);
            if announce.interval.is_zero() || announce.interval > most {
                let interval = announce.interval;
                return bad(
                    "--announce-interval",
                    format!(
                        "{interval:?} is out of range: give more than zero and at most {most:?}"
                    ),
                );
            }
        }
        Ok(())
    }

    /// Registration with nsqlookupds.
    fn validate_lookups(&self) -> Result<(), BrokerError> {
        let list = &self.lookupd.tcp_addresses;
        let reason = if list.is_empty() {
            return Ok(());
        } else if !are_addresses(list) {
            format!("{list:?} is not a list of 1 to 64 HOST:PORT")
        } else if self.controller.is_some() {
            String::from(
                "a broker with a controller is found at the controller's lookup; leave out one of the two flags",
            )
        } else if self.http_address.is_none() {
            String::from("nsqlookupd accepts no broker without HTTP; give an --http-address")
        } else {
            return Ok(());
        };
        let option = "--lookupd-tcp-address";
        Err(BrokerError::Config { option, reason })
    }
}

impl ProcessingConfig {
    fn validate(&self) -> Result<(), BrokerError> {
        let bad = |option, reason| Err(BrokerError::Config { option, reason });
        let option = "--e2e-processing-latency-percentile";
        if let Some(wrong) = self.percentiles.iter().find(|p| !(**p > 0.0 && **p <= 1.0)) {
            let reason =
                format!("{wrong} is not above 0 and at most 1; 0.99 is the 99th percentile");
            return bad(option, reason);
        }
        let count = self.percentiles.len();
        if count > PERCENTILES_MAX {
            let reason = format!("{count} are named; give at most {PERCENTILES_MAX}");
            return bad(option, reason);
        }
        if self.window < PROCESSING_WINDOW_MIN {
            let (window, least) = (self.window, PROCESSING_WINDOW_MIN);
            let reason = format!("{window:?} is less than {least:?}");
            return bad("--e2e-processing-latency-window-time", reason);
        }
        Ok(())
    }
}
