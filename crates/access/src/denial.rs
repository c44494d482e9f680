//! What a request takes, and why it is refused.

use crate::Role;

/// What is needed for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing.
    Nothing,
    /// Nothing, unless the access file has closed `/metrics`.
    Metrics,
    /// What proves a daemon of the same cluster; who answers asks for it himself.
    Proof,
    /// Any token.
    Token,
    /// This role over the topic that the request is about; where it names none, over all.
    Topic(Role),
    /// This role over all topics.
    Everything(Role),
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// It shows no token.
    #[error(
        "a token is needed; send it as `Authorization: Bearer TOKEN` (`srtm access token` makes one)"
    )]
    NoToken,
    /// It shows one that is not in the access file.
    #[error(
        "this token is not in the access file; put its lines there (`srtm access token` prints them), or use another one"
    )]
    UnknownToken,
    /// The token is not for this.
    #[error(
        "the token of `{holder}` does not permit this; the role {role} over {} is needed", over(.topic.as_deref())
    )]
    Forbidden {
        /// Whose token it is.
        holder: String,
        /// What is needed
        role: Role,
        /// over this topic; `None`: over all.
        topic: Option<String>,
    },
}

impl Denial {
    /// HTTP's status for it.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Denial::NoToken | Denial::UnknownToken => 401,
            Denial::Forbidden { .. } => 403,
        }
    }
}

fn over(topic: Option<&str>) -> String {
    match topic {
        None => "all topics (\"*\")".to_owned(),
        Some(topic) => {
            let told: String = topic.chars().take(80).collect();
            format!("the topic `{told}`")
        }
    }
}
