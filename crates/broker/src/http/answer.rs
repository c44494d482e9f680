//! The broker's errors over HTTP: NSQ's codes where NSQ clients read them, texts elsewhere.

use axum::http::StatusCode;
use http::Refusal;
use http::nsq::Failure;

use crate::BrokerError;

impl From<BrokerError> for Failure {
    fn from(error: BrokerError) -> Failure {
        let status = status(&error).as_u16();
        match error {
            BrokerError::TopicNotFound(_) => Failure::new(status, "TOPIC_NOT_FOUND"),
            BrokerError::ChannelNotFound(_) => Failure::new(status, "CHANNEL_NOT_FOUND"),
            BrokerError::Refused(reason) => Failure::new(status, reason),
            BrokerError::Busy(_) => Failure::new(status, "BUSY"),
            BrokerError::Exiting => Failure::new(status, "EXITING"),
            BrokerError::NotKept(_) => Failure::new(status, "NOT_KEPT"),
            BrokerError::Io { .. } | BrokerError::Config { .. } | BrokerError::Disk(_) => {
                Failure::new(status, "INTERNAL_ERROR")
            }
        }
    }
}

impl From<BrokerError> for Refusal {
    fn from(error: BrokerError) -> Refusal {
        Refusal::new(status(&error), error.to_string())
    }
}

fn status(error: &BrokerError) -> StatusCode {
    match error {
        BrokerError::TopicNotFound(_) | BrokerError::ChannelNotFound(_) => StatusCode::NOT_FOUND,
        // nsqd has no limits; 429 is HTTP's own word for them.
        BrokerError::Refused(_) => StatusCode::TOO_MANY_REQUESTS,
        BrokerError::Busy(_) | BrokerError::Exiting => StatusCode::SERVICE_UNAVAILABLE,
        BrokerError::NotKept(_) => StatusCode::INSUFFICIENT_STORAGE,
        BrokerError::Io { .. } | BrokerError::Config { .. } | BrokerError::Disk(_) => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}
