//! Why files are of no use.

/// A file that is of no use for TLS, or one that is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option}: {reason}")]
pub struct CredentialsError {
    /// The option that names it, as the user wrote it.
    pub option: &'static str,
    /// What is wrong, and what to do.
    pub reason: String,
}

impl CredentialsError {
    pub(crate) fn new(option: &'static str, reason: impl std::fmt::Display) -> CredentialsError {
        CredentialsError {
            option,
            reason: reason.to_string(),
        }
    }

    pub(crate) fn unread(
        option: &'static str,
        path: &std::path::Path,
        error: impl std::fmt::Display,
    ) -> CredentialsError {
        CredentialsError::new(option, format!("{}: {error}", path.display()))
    }
}
