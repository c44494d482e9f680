//! Errors of a measurement, as one enum.

use std::io;

/// Why a run gave no result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A system call failed; `what` names the step.
    #[error("{what}: {source}")]
    Io {
        /// The step that failed.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The options contradict each other or lie outside their range.
    #[error("bad option: {0}")]
    Options(String),
    /// A workload is wrong, or more than the load generator can send.
    #[error("{from}: {source}")]
    Workload {
        /// The file, or `load` for one that was built.
        from: String,
        /// What is wrong, and where.
        source: ::workload::SpecError,
    },
    /// The broker answered something that its protocol does not allow, or an error.
    #[error("{peer}: {text}")]
    Protocol {
        /// The protocol that was spoken.
        peer: &'static str,
        /// What was wrong.
        text: String,
    },
    /// A broker did not start, or died during the run.
    #[error("broker {name}: {text}")]
    Broker {
        /// The broker's name in the table.
        name: String,
        /// What happened.
        text: String,
    },
    /// A broker or a controller refused over HTTP, or did not answer.
    #[error(transparent)]
    Api(#[from] api::ApiError),
}

impl BenchError {
    /// A closure for `map_err` on system calls: `connect().map_err(BenchError::io("connect"))`.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// A violation of the protocol named `peer`.
    pub fn protocol(peer: &'static str, text: impl Into<String>) -> Self {
        Self::Protocol {
            peer,
            text: text.into(),
        }
    }
}
