//! An announcement's bytes: where each field is, written and read.
//!
//! All numbers are big-endian. Reading takes the bytes in order and once; bytes missing or left
//! over are an error.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{
    AnnounceError, Announcement, Entry, Held, InstanceId, Key, MAGIC_ANNOUNCEMENT,
    MAX_DATAGRAM_BYTES, MAX_EXPIRY_MS, Role, TAG_BYTES, TopicId,
};
use crate::TopicName;

const VERSION: u8 = 1;

const FLAG_PROXY: u8 = 1;
const FLAG_LEAVING: u8 = 2;
const FLAG_UDP: u8 = 4;
const FLAG_SIGNED: u8 = 8;
const FLAGS: u8 = FLAG_PROXY | FLAG_LEAVING | FLAG_UDP | FLAG_SIGNED;
const FLAGS_OFFSET: usize = 5;

const KIND_SUBSCRIBER: u8 = 1;
const KIND_HELD: u8 = 2;

/// Everything before the IP address.
const FIXED_BYTES: usize = 27;
/// Kind, identifier, length of the name.
const ENTRY_FIXED_BYTES: usize = 6;
const HELD_BYTES: usize = 14;

pub(super) fn header_bytes(data: &SocketAddr) -> usize {
    FIXED_BYTES + if data.is_ipv4() { 4 } else { 16 }
}

pub(super) fn entry_bytes(entry: &Entry) -> usize {
    let held_bytes = if entry.held.is_some() { HELD_BYTES } else { 0 };
    ENTRY_FIXED_BYTES + entry.topic.as_str().len() + held_bytes
}

pub(super) fn put(announcement: &Announcement, is_signed: bool, out: &mut Vec<u8>) {
    let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
    out.extend_from_slice(MAGIC_ANNOUNCEMENT);
    out.push(VERSION);
    out.push(
        flag(announcement.is_proxy, FLAG_PROXY)
            | flag(announcement.is_leaving, FLAG_LEAVING)
            | flag(announcement.udp, FLAG_UDP)
            | flag(is_signed, FLAG_SIGNED),
    );
    out.extend_from_slice(&announcement.instance.0.to_be_bytes());
    out.extend_from_slice(&announcement.sequence.to_be_bytes());
    out.extend_from_slice(&announcement.expiry_ms.to_be_bytes());
    // More would be longer than any datagram.
    let entries = u16::try_from(announcement.entries.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&entries.to_be_bytes());
    out.extend_from_slice(&announcement.data.port().to_be_bytes());
    match announcement.data.ip() {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
        }
    }
    for entry in &announcement.entries {
        put_entry(entry, out);
    }
}

fn put_entry(entry: &Entry, out: &mut Vec<u8>) {
    let role = match entry.role {
        Role::Publisher => 0,
        Role::Subscriber => KIND_SUBSCRIBER,
    };
    let name = entry.topic.as_str().as_bytes();
    out.push(role | if entry.held.is_some() { KIND_HELD } else { 0 });
    out.extend_from_slice(&entry.id.0.to_be_bytes());
    // A name has at most 64 bytes.
    out.push(name.len() as u8);
    out.extend_from_slice(name);
    if let Some(held) = &entry.held {
        out.extend_from_slice(&held.rate.to_be_bytes());
        out.extend_from_slice(&held.burst.to_be_bytes());
        out.extend_from_slice(&held.publishers.to_be_bytes());
        out.extend_from_slice(&held.members.to_be_bytes());
    }
}

pub(super) fn split(announcement: Announcement) -> Vec<Announcement> {
    let room = MAX_DATAGRAM_BYTES - header_bytes(&announcement.data) - TAG_BYTES;
    let mut parts = vec![Announcement {
        entries: Vec::new(),
        ..announcement
    }];
    let mut left = room;
    for entry in announcement.entries {
        let bytes = entry_bytes(&entry);
        if bytes > left {
            let next = Announcement {
                entries: Vec::new(),
                sequence: parts[parts.len() - 1].sequence.wrapping_add(1),
                ..parts[0]
            };
            parts.push(next);
            left = room;
        }
        left -= bytes;
        let last = parts.len() - 1;
        parts[last].entries.push(entry);
    }
    parts
}

pub(super) fn decode(bytes: &[u8], key: Option<&Key>) -> Result<Announcement, AnnounceError> {
    if bytes.len() > MAX_DATAGRAM_BYTES {
        return Err(AnnounceError::TooLong(bytes.len()));
    }
    let mut reader = Reader { bytes, at: 0 };
    if reader.array::<4>()? != *MAGIC_ANNOUNCEMENT {
        return Err(AnnounceError::Magic);
    }
    match reader.byte()? {
        VERSION => {}
        other => return Err(AnnounceError::Version(other)),
    }
    let flags = reader.byte()?;
    debug_assert_eq!(reader.at, FLAGS_OFFSET + 1);
    if flags & !FLAGS != 0 {
        return Err(AnnounceError::Flags(flags));
    }
    // Nothing else of a signed datagram is looked at before its tag.
    reader.bytes = match (key, flags & FLAG_SIGNED != 0) {
        (Some(key), true) => key.verified(bytes).ok_or(AnnounceError::Forged)?,
        (Some(_), false) => return Err(AnnounceError::Unsigned),
        (None, true) => return Err(AnnounceError::Signed),
        (None, false) => bytes,
    };
    let announcement = read(&mut reader, flags)?;
    match reader.bytes.len() - reader.at {
        0 => Ok(announcement),
        more => Err(AnnounceError::Trailing(more)),
    }
}

fn read(reader: &mut Reader<'_>, flags: u8) -> Result<Announcement, AnnounceError> {
    let instance = InstanceId(u64::from_be_bytes(reader.array()?));
    let sequence = u32::from_be_bytes(reader.array()?);
    let expiry_ms = u32::from_be_bytes(reader.array()?);
    if !(1..=MAX_EXPIRY_MS).contains(&expiry_ms) {
        return Err(AnnounceError::Expiry(expiry_ms));
    }
    let entries = u16::from_be_bytes(reader.array()?);
    let port = u16::from_be_bytes(reader.array()?);
    let ip = match reader.byte()? {
        4 => IpAddr::from(Ipv4Addr::from(reader.array::<4>()?)),
        6 => IpAddr::from(Ipv6Addr::from(reader.array::<16>()?)),
        other => return Err(AnnounceError::AddressFamily(other)),
    };
    let entries = (0..usize::from(entries))
        .map(|entry| read_entry(reader, entry, port))
        .collect::<Result<Vec<Entry>, AnnounceError>>()?;
    refuse_duplicates(&entries)?;
    Ok(Announcement {
        instance,
        sequence,
        is_proxy: flags & FLAG_PROXY != 0,
        is_leaving: flags & FLAG_LEAVING != 0,
        expiry_ms,
        data: SocketAddr::new(ip, port),
        udp: flags & FLAG_UDP != 0,
        entries,
    })
}

fn read_entry(reader: &mut Reader<'_>, entry: usize, port: u16) -> Result<Entry, AnnounceError> {
    let kind = reader.byte()?;
    let role = match kind & KIND_SUBSCRIBER {
        0 => Role::Publisher,
        _ => Role::Subscriber,
    };
    let is_known = match role {
        Role::Publisher => kind & !KIND_HELD == 0,
        Role::Subscriber => kind == KIND_SUBSCRIBER,
    };
    if !is_known {
        return Err(AnnounceError::Kind { entry, kind });
    }
    if role == Role::Subscriber && port == 0 {
        return Err(AnnounceError::NoDataPort { entry });
    }
    let id = TopicId(u32::from_be_bytes(reader.array()?));
    let name_bytes = usize::from(reader.byte()?);
    let topic = std::str::from_utf8(reader.take(name_bytes)?)
        .ok()
        .and_then(|name| name.parse::<TopicName>().ok())
        .ok_or(AnnounceError::Topic { entry })?;
    let held = match kind & KIND_HELD {
        0 => None,
        _ => Some(read_held(reader, entry)?),
    };
    Ok(Entry {
        role,
        id,
        topic,
        held,
    })
}

fn read_held(reader: &mut Reader<'_>, entry: usize) -> Result<Held, AnnounceError> {
    let held = Held {
        rate: f32::from_be_bytes(reader.array()?),
        burst: f32::from_be_bytes(reader.array()?),
        publishers: u16::from_be_bytes(reader.array()?),
        members: u32::from_be_bytes(reader.array()?),
    };
    let is_amount = |number: f32| number.is_finite() && number >= 0.0;
    if is_amount(held.rate) && is_amount(held.burst) && held.publishers > 0 {
        Ok(held)
    } else {
        Err(AnnounceError::Held { entry })
    }
}

fn refuse_duplicates(entries: &[Entry]) -> Result<(), AnnounceError> {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by(|&a, &b| {
        let key = |index: usize| (entries[index].role, &entries[index].topic, index);
        key(a).cmp(&key(b))
    });
    let repeats = order.windows(2).find(|pair| {
        let (one, other) = (&entries[pair[0]], &entries[pair[1]]);
        one.role == other.role && one.topic == other.topic
    });
    match repeats {
        Some(pair) => Err(AnnounceError::Duplicate { entry: pair[1] }),
        None => Ok(()),
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], AnnounceError> {
        let end = self.at + count;
        let taken = self
            .bytes
            .get(self.at..end)
            .ok_or(AnnounceError::Truncated(self.bytes.len()))?;
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], AnnounceError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn byte(&mut self) -> Result<u8, AnnounceError> {
        self.array::<1>().map(|[byte]| byte)
    }
}
