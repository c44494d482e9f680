//! The command's errors: one line each, with the remedy where it is known.

use std::io;

use api::Why;
use sim::experiment::ExperimentError;

/// Exit code of a broker that was stopped and lost messages by it.
pub(crate) const LOST: u8 = 3;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line asks for something that is wrong or not offered; exit code 2.
    #[error("{0}")]
    Usage(String),
    /// The broker could not start or refused.
    #[error("{source}{}", advice(source))]
    Broker {
        /// The broker's own words.
        #[from]
        source: broker::BrokerError,
    },
    /// The controller could not start.
    #[error(transparent)]
    Control(#[from] control::ControlError),
    /// A broker was not reachable over the NSQ protocol, or refused.
    #[error("{address}: {source}")]
    Client {
        /// The broker's address.
        address: String,
        /// What happened.
        source: client::ClientError,
    },
    /// A broker's HTTP port could not be asked.
    #[error("{url}: {reason}")]
    Api {
        /// What was asked.
        url: String,
        /// What happened, or the broker's answer.
        reason: String,
    },
    /// The packet limiter could not start or go on.
    #[error(transparent)]
    Limiter(#[from] limiter::LimiterError),
    /// A measurement failed.
    #[error(transparent)]
    Bench(#[from] bench::error::BenchError),
    /// Something could not be simulated.
    #[error(transparent)]
    Sim(#[from] sim::SimError),
    /// A plan could not be drawn.
    #[error(transparent)]
    Picture(#[from] sim::plan::PictureError),
    /// An experiment could not be run.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// Files with messages that are damaged or cannot be read.
    #[error("{files} files are damaged; the lines above say where")]
    Damaged {
        /// How many.
        files: usize,
    },
    /// Messages on disk cannot be looked at.
    #[error(transparent)]
    Disk(#[from] disk::DiskError),
    /// Findings of the paper that results do not show, where that was to be a failure.
    #[error("{failed} findings of the paper do not appear; the lines above say which")]
    Findings {
        /// How many.
        failed: usize,
    },
    /// The testbed of `experiment --live` has said what is wrong.
    #[error("the testbed failed with code {code}; its lines above say why")]
    Testbed {
        /// Its exit code; -1 if a signal ended it.
        code: i32,
    },
    /// A stop lost messages; exit code 3.
    #[error("the stop lost {what}; the log says whose they were")]
    Lost {
        /// How many, or of whom.
        what: String,
    },
    /// A system call failed; `what` names what was tried.
    #[error("{what}: {source}{}", io_advice(source))]
    Io {
        /// What was tried.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
}

impl From<api::ApiError> for Failure {
    fn from(error: api::ApiError) -> Failure {
        let reason = match error.why {
            Why::Unreachable(why) => {
                format!(
                    "{why} (check that an HTTP port of SRTM is there; see --controller and --broker)"
                )
            }
            why => why.to_string(),
        };
        Failure::Api {
            url: error.url,
            reason,
        }
    }
}

impl Failure {
    /// 2 for wrong usage, [`LOST`] for a stop that lost messages, 1 for everything else.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_)
            | Failure::Broker {
                source: broker::BrokerError::Config { .. },
            }
            | Failure::Experiment(
                ExperimentError::Unknown { .. } | ExperimentError::Definition { .. },
            ) => 2,
            Failure::Lost { .. } => LOST,
            _ => 1,
        }
    }

    /// For `map_err`: a system call that was meant to do `what`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Failure {
        move |source| Failure::Io {
            what: what.into(),
            source,
        }
    }

    /// For `map_err`: talking to the broker at `address`.
    pub(crate) fn client(address: &str) -> impl FnOnce(client::ClientError) -> Failure {
        move |source| Failure::Client {
            address: address.to_owned(),
            source,
        }
    }
}

fn advice(error: &broker::BrokerError) -> &'static str {
    match error {
        broker::BrokerError::Io { source, .. } => io_advice(source),
        _ => "",
    }
}

fn io_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            " (another process listens there; stop it, or choose another port with the address flags)"
        }
        io::ErrorKind::AddrNotAvailable => " (this machine has no such address)",
        io::ErrorKind::PermissionDenied => {
            " (this user lacks permission; choose a port above 1023 or another folder)"
        }
        _ => "",
    }
}
