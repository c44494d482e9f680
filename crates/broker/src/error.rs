//! The broker's errors.

/// What can go wrong between a caller outside the data path and the reactors.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// A system call failed; `what` names what was tried.
    #[error("{what}: {source}")]
    Io {
        /// What was tried, with its address or path.
        what: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A configuration value is out of its range.
    #[error("{option}: {reason}")]
    Config {
        /// The option as the user wrote it.
        option: &'static str,
        /// What is wrong and what is allowed.
        reason: String,
    },
    /// Messages cannot be kept in the data folder.
    #[error(transparent)]
    Disk(disk::DiskError),
    /// A contract could not be written to the data folder.
    #[error(
        "the contract stays as it was, because a new one cannot be kept: {0}; repair the data folder and declare it again"
    )]
    NotKept(String),
    /// No such topic.
    #[error("topic {0} does not exist")]
    TopicNotFound(String),
    /// No such channel.
    #[error("channel {0} does not exist")]
    ChannelNotFound(String),
    /// The topic's limit refuses the message (`on_exceed = reject`).
    #[error("{0}")]
    Refused(String),
    /// The reactor's inbox is full; try again.
    #[error("broker is overloaded: {0} requests are waiting already")]
    Busy(usize),
    /// The broker is shutting down.
    #[error("exiting")]
    Exiting,
}

impl From<credentials::CredentialsError> for BrokerError {
    fn from(error: credentials::CredentialsError) -> BrokerError {
        BrokerError::Config {
            option: error.option,
            reason: error.reason,
        }
    }
}
