//! One broker's share (r_l, b_l) of a topic's limit.
//!
//! A limit over k brokers is k buckets with Σ r_l ≤ r and Σ b_l ≤ b (SRTM-long, section 2). Nothing
//! here decides how it is divided ([`crate::adaptor`]) or when a share may be used
//! ([`crate::lease`]).

use std::fmt;

use clock::Instant;
use serde::{Deserialize, Serialize};

use crate::{Burst, Limit, Rate, TokenBucket};

/// A part of a limit, in the limit's unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// r_l: tokens per second.
    pub rate: Rate,
    /// b_l: tokens held at most.
    pub burst: Burst,
}

impl Share {
    /// The whole of a limit, for a topic on one broker.
    pub fn whole(limit: &Limit) -> Self {
        Share {
            rate: limit.rate,
            burst: limit.burst,
        }
    }

    /// The bucket that enforces this share, empty at `now` as at every (re)start.
    pub fn bucket(&self, now: Instant) -> TokenBucket {
        TokenBucket::empty(self.rate, self.burst, now)
    }

    /// Whether `other` is no greater, neither in rate nor in burst.
    pub fn covers(&self, other: &Share) -> bool {
        self.rate >= other.rate && self.burst >= other.burst
    }
}

impl fmt::Display for Share {
    /// `12.5/s, burst 4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s, burst {}", self.rate, self.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_json_and_order() {
        let share = |rate, burst| Share {
            rate: Rate::new(rate).expect("in range"),
            burst: Burst::new(burst).expect("in range"),
        };
        assert_eq!(share(12.5, 4.0).to_string(), "12.5/s, burst 4");
        let json = serde_json::to_string(&share(12.5, 4.0)).expect("numbers");
        assert_eq!(json, r#"{"rate":12.5,"burst":4}"#);
        let read: Share = serde_json::from_str(&json).expect("its own text");
        assert_eq!(read, share(12.5, 4.0));
        for wrong in [
            r#"{"rate":0,"burst":4}"#,
            r#"{"rate":1}"#,
            r#"{"rate":1,"burst":1,"x":1}"#,
        ] {
            assert!(serde_json::from_str::<Share>(wrong).is_err(), "{wrong}");
        }
        assert!(share(2.0, 2.0).covers(&share(2.0, 1.0)));
        assert!(!share(2.0, 2.0).covers(&share(1.0, 3.0)));
        let limit = Limit::messages(10.0, 5.0).expect("valid");
        assert_eq!(Share::whole(&limit), share(10.0, 5.0));
        assert_eq!(
            share(10.0, 5.0).bucket(Instant::ZERO),
            limit.bucket(Instant::ZERO)
        );
    }
}
