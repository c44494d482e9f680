//! Errors in a trace, and where they are.

use std::io;

use thiserror::Error;

/// Why a trace could not be read or written. Arrivals are counted from 1.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The system failed to read or write.
    #[error("trace: {0}")]
    Io(#[from] io::Error),
    /// Something else than a trace.
    #[error(
        "not a trace: {0}; a trace begins with \"SRTMTRC1\", or as CSV with \"at_ns,publisher,messages\""
    )]
    Foreign(String),
    /// A trace that ends too early, because it was cut or its writer was stopped.
    #[error("the trace ends in the middle of {within}: it was cut, or its writer did not finish")]
    Cut {
        /// The header, an arrival or the end mark.
        within: String,
    },
    /// A trace that says what cannot be.
    #[error("the trace is damaged at {at}: {text}")]
    Damaged {
        /// The header, an arrival, a line or the end mark.
        at: String,
        /// What is wrong there.
        text: String,
    },
    /// An arrival or a header that must not be written.
    #[error("{at}: {text}")]
    Refused {
        /// Which.
        at: String,
        /// Why.
        text: String,
    },
}

impl TraceError {
    pub(super) fn damaged(at: impl Into<String>, text: impl Into<String>) -> Self {
        let (at, text) = (at.into(), text.into());
        TraceError::Damaged { at, text }
    }

    pub(super) fn cut(within: impl Into<String>) -> Self {
        let within = within.into();
        TraceError::Cut { within }
    }
}
