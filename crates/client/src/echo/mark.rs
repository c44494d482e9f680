//! A mark: the last bytes of a message that wants an echo, and the whole of the echo.
//!
//! 32 bytes, numbers in network order:
//!
//! | bytes | what |
//! |---|---|
//! | 0-15 | address that the echo goes to; IPv4 as `::ffff:a.b.c.d` |
//! | 16-17 | its UDP port |
//! | 18-25 | the publisher's own time of sending, nanoseconds; means nothing to others |
//! | 26-27 | CRC-16/CCITT-FALSE of bytes 0-25 |
//! | 28-31 | `E7 'M' 'R' 'K'` |
//!
//! An ordinary body ends like a mark by accident once in 2^48 times.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Length of a mark in bytes.
pub const MARK_BYTES: usize = 32;

const MAGIC: [u8; 4] = [0xe7, b'M', b'R', b'K'];
const CHECKED_BYTES: usize = 26;

/// Where the echo goes, and when the message was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Where the echo goes to.
    pub reply_to: SocketAddr,
    /// The publisher's time of sending, by its own clock, in nanoseconds.
    pub sent_ns: u64,
}

impl Mark {
    /// Puts the mark behind `body`.
    pub fn append_to(&self, body: &mut Vec<u8>) {
        let start = body.len();
        let address = match self.reply_to.ip() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        body.extend_from_slice(&address.octets());
        body.extend_from_slice(&self.reply_to.port().to_be_bytes());
        body.extend_from_slice(&self.sent_ns.to_be_bytes());
        let check = check(&body[start..]);
        body.extend_from_slice(&check.to_be_bytes());
        body.extend_from_slice(&MAGIC);
    }

    /// The body without its mark, and the mark; `None` when it has none.
    #[must_use]
    pub fn split(body: &[u8]) -> Option<(&[u8], Mark)> {
        let (rest, mark) = body.split_last_chunk::<MARK_BYTES>()?;
        let (address, numbers) = mark.split_first_chunk::<16>()?;
        let (port, numbers) = numbers.split_first_chunk::<2>()?;
        let (sent_ns, numbers) = numbers.split_first_chunk::<8>()?;
        let (told, magic) = numbers.split_first_chunk::<2>()?;
        let checked = check(&mark[..CHECKED_BYTES]);
        if magic != MAGIC || u16::from_be_bytes(*told) != checked {
            return None;
        }
        let address = Ipv6Addr::from(*address).to_canonical();
        let mark = Mark {
            reply_to: SocketAddr::new(address, u16::from_be_bytes(*port)),
            sent_ns: u64::from_be_bytes(*sent_ns),
        };
        Some((rest, mark))
    }
}

/// CRC-16 with the polynomial 0x1021 and all ones to begin with: no damage within two bytes goes unseen.
pub(super) fn check(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xffff, |crc, &byte| {
        let with_byte = crc ^ (u16::from(byte) << 8);
        (0..8).fold(with_byte, |crc, _| {
            let divides = crc & 0x8000 != 0;
            (crc << 1) ^ if divides { 0x1021 } else { 0 }
        })
    })
}
