//! What a limiter that found the others by itself tells them: who takes part, and its limits.
//!
//! ```text
//! member, 28 bytes                        limit, 43 bytes
//!  0  kind: 1           1                  0  kind: 2            1
//!  1  address, IPv6    16                  1  number             2
//! 17  port              2                  3  topic              8
//! 19  life              8                 11  rate, f64          8
//! 27  is gone: 0, 1     1                 19  burst, f64         8
//!                                         27  estimate memory    8
//!                                         35  interval, ms       4
//!                                         39  branches           2
//!                                         41  policy             1
//!                                         42  unit               1
//! ```
//!
//! One after the other, to the end of the payload.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::{LimitId, MAX_MEMBERSHIP_BYTES, MEMBERSHIP_HEADER_BYTES, MEMBERSHIP_TAG_BYTES};

/// What one notice says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notice {
    /// Some or all of those that take part, as far as the sender knows.
    pub members: Vec<NoticedMember>,
    /// Some or all of the sender's limits.
    pub limits: Vec<NoticedLimit>,
}

/// A limiter that takes part, or took part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoticedMember {
    /// Where it is reached; an address of IPv4 as such.
    pub address: SocketAddr,
    /// The life of which this is said; 0: it was only named, and is not known to have lived.
    pub life: u64,
    /// It has left.
    pub is_gone: bool,
}

/// A limit as one limiter was told to keep it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoticedLimit {
    /// What updates call it.
    pub number: LimitId,
    /// A hash of its topic's name, which tells limits of one number apart.
    pub topic: u64,
    /// Units per second.
    pub rate: f64,
    /// Units.
    pub burst: f64,
    /// What is left of an estimate after a second.
    pub ewma_1s: f64,
    /// Length of an estimate interval.
    pub interval_ms: u32,
    /// To how many others updates go.
    pub branches: u16,
    /// The policy, as both ends number them.
    pub policy: u8,
    /// The unit, likewise.
    pub unit: u8,
}

/// A notice that nobody wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {0} of a notice has no known meaning: update the older end")]
pub struct NotANotice(usize);

/// Bytes of a member.
pub const NOTICED_MEMBER_BYTES: usize = 28;

/// Bytes of a limit.
pub const NOTICED_LIMIT_BYTES: usize = 43;

/// Bytes that a notice has room for.
pub const NOTICE_BYTES: usize =
    MAX_MEMBERSHIP_BYTES - MEMBERSHIP_HEADER_BYTES - MEMBERSHIP_TAG_BYTES;

const MEMBER: u8 = 1;
const LIMIT: u8 = 2;

impl Notice {
    /// The bytes of it; that they fit into a datagram is up to who chose what to say.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for member in &self.members {
            let ip = match member.address.ip() {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            out.push(MEMBER);
            out.extend_from_slice(&ip.octets());
            out.extend_from_slice(&member.address.port().to_be_bytes());
            out.extend_from_slice(&member.life.to_be_bytes());
            out.push(u8::from(member.is_gone));
        }
        for limit in &self.limits {
            out.push(LIMIT);
            out.extend_from_slice(&limit.number.0.to_be_bytes());
            out.extend_from_slice(&limit.topic.to_be_bytes());
            for number in [limit.rate, limit.burst, limit.ewma_1s] {
                out.extend_from_slice(&number.to_be_bytes());
            }
            out.extend_from_slice(&limit.interval_ms.to_be_bytes());
            out.extend_from_slice(&limit.branches.to_be_bytes());
            out.extend_from_slice(&[limit.policy, limit.unit]);
        }
        out
    }

    /// What the payload of a notice says. Whether its numbers make sense is for the reader to judge.
    ///
    /// # Errors
    /// [`NotANotice`].
    pub fn decode(payload: &[u8]) -> Result<Notice, NotANotice> {
        let mut notice = Notice::default();
        let mut rest = payload;
        while let Some(&kind) = rest.first() {
            let wrong = NotANotice(payload.len() - rest.len());
            let bytes = match kind {
                MEMBER => NOTICED_MEMBER_BYTES,
                LIMIT => NOTICED_LIMIT_BYTES,
                _ => return Err(wrong),
            };
            let (entry, after) = rest.split_at_checked(bytes).ok_or(wrong)?;
            rest = after;
            let mut fields = Fields(&entry[1..]);
            match kind {
                MEMBER => notice.members.push(fields.member().ok_or(wrong)?),
                _ => notice.limits.push(fields.limit().ok_or(wrong)?),
            }
        }
        Ok(notice)
    }
}

/// Bytes that are read from front to back.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn member(&mut self) -> Option<NoticedMember> {
        let ip = IpAddr::V6(Ipv6Addr::from(self.take::<16>()?)).to_canonical();
        let port = u16::from_be_bytes(self.take()?);
        let life = u64::from_be_bytes(self.take()?);
        let is_gone = match self.take::<1>()? {
            [0] => false,
            [1] => true,
            _ => return None,
        };
        let address = SocketAddr::new(ip, port);
        Some(NoticedMember {
            address,
            life,
            is_gone,
        })
    }

    fn limit(&mut self) -> Option<NoticedLimit> {
        Some(NoticedLimit {
            number: LimitId(u16::from_be_bytes(self.take()?)),
            topic: u64::from_be_bytes(self.take()?),
            rate: f64::from_be_bytes(self.take()?),
            burst: f64::from_be_bytes(self.take()?),
            ewma_1s: f64::from_be_bytes(self.take()?),
            interval_ms: u32::from_be_bytes(self.take()?),
            branches: u16::from_be_bytes(self.take()?),
            policy: self.take::<1>()?[0],
            unit: self.take::<1>()?[0],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice() -> Notice {
        let member = |text: &str, is_gone| NoticedMember {
            address: text.parse().expect("an address"),
            life: 7,
            is_gone,
        };
        Notice {
            members: vec![member("10.0.0.1:4150", false), member("[fe80::1]:9", true)],
            limits: vec![NoticedLimit {
                number: LimitId(513),
                topic: u64::MAX - 1,
                rate: 3000.5,
                burst: 150.0,
                ewma_1s: 0.1,
                interval_ms: 50,
                branches: 3,
                policy: 3,
                unit: 1,
            }],
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let bytes = notice().encode();
        assert_eq!(bytes.len(), 2 * NOTICED_MEMBER_BYTES + NOTICED_LIMIT_BYTES);
        assert_eq!(Notice::decode(&bytes), Ok(notice()));
        assert_eq!(Notice::decode(&[]), Ok(Notice::default()));
    }

    #[test]
    fn what_is_cut_or_unknown_is_refused() {
        let bytes = notice().encode();
        for length in 1..bytes.len() {
            let whole = [28, 56].contains(&length);
            assert_eq!(Notice::decode(&bytes[..length]).is_ok(), whole, "{length}");
        }
        assert_eq!(Notice::decode(&[3]), Err(NotANotice(0)));
        let mut half_gone = bytes;
        half_gone[27] = 2;
        assert_eq!(Notice::decode(&half_gone), Err(NotANotice(0)));
    }
}
