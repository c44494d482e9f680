//! A member's identity in SWIM, and the bytes of SWIM's messages.
//!
//! ```text
//! life     index 2 | incarnation 8 | generation 2
//! header   sender's life 12 | its SWIM incarnation 2 | receiver's life 12 | message 1 | [life 12] | [probe number 1]
//! member   life 12 | SWIM incarnation 2 | state 1
//! ```

use bytes::{Buf, BufMut};
use foca::{Codec, Header, Identity, Member, Message, State};

/// One life of a limiter: from when it started, or was taken for dead, to the next time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    /// Its place in the list of peers.
    pub(crate) index: u16,
    /// Grows with every start.
    pub(crate) incarnation: u64,
    /// Grows whenever the others took it for dead while it was not.
    pub(crate) generation: u16,
}

impl Identity for Life {
    type Addr = u16;

    fn renew(&self) -> Option<Self> {
        let generation = self.generation.checked_add(1)?;
        Some(Life {
            generation,
            ..*self
        })
    }

    fn addr(&self) -> u16 {
        self.index
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        (self.incarnation, self.generation) > (adversary.incarnation, adversary.generation)
    }
}

/// Writes and reads the messages of so many limiters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LifeCodec {
    pub(crate) limiters: u32,
}

/// Why bytes are no message of SWIM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CodecError {
    #[error("the datagram ends too early")]
    Short,
    #[error("no room is left in the datagram")]
    Full,
    #[error("limiter {0} is unknown: give all limiters the same list of peers")]
    Index(u16),
    #[error("message {0} is not known")]
    Message(u8),
    #[error("state {0} is not known")]
    State(u8),
}

pub(crate) const LIFE_BYTES: usize = 12;
const MEMBER_BYTES: usize = LIFE_BYTES + 3;
const HEADER_BYTES: usize = 2 * LIFE_BYTES + 3;

/// Index and incarnation of the sender that a message begins with.
pub(crate) fn sender(message: &[u8]) -> Option<(u16, u64)> {
    let (index, rest) = message.split_first_chunk()?;
    let incarnation = rest.first_chunk()?;
    Some((u16::from_be_bytes(*index), u64::from_be_bytes(*incarnation)))
}

impl LifeCodec {
    fn life(self, buf: &mut impl Buf) -> Result<Life, CodecError> {
        needs(buf, LIFE_BYTES)?;
        let life = Life {
            index: buf.get_u16(),
            incarnation: buf.get_u64(),
            generation: buf.get_u16(),
        };
        if u32::from(life.index) >= self.limiters {
            return Err(CodecError::Index(life.index));
        }
        Ok(life)
    }

    fn message(self, buf: &mut impl Buf) -> Result<Message<Life>, CodecError> {
        needs(buf, 1)?;
        let kind = buf.get_u8();
        let about = match kind {
            2..=5 => Some(self.life(buf)?),
            _ => None,
        };
        let probe_number = match kind {
            0..=5 => {
                needs(buf, 1)?;
                buf.get_u8()
            }
            _ => 0,
        };
        Ok(match (kind, about) {
            (0, _) => Message::Ping(probe_number),
            (1, _) => Message::Ack(probe_number),
            (2, Some(target)) => Message::PingReq {
                target,
                probe_number,
            },
            (3, Some(origin)) => Message::IndirectPing {
                origin,
                probe_number,
            },
            (4, Some(target)) => Message::IndirectAck {
                target,
                probe_number,
            },
            (5, Some(origin)) => Message::ForwardedAck {
                origin,
                probe_number,
            },
            (6, _) => Message::Announce,
            (7, _) => Message::Feed,
            (8, _) => Message::Gossip,
            (9, _) => Message::TurnUndead,
            _ => return Err(CodecError::Message(kind)),
        })
    }
}

impl Codec<Life> for LifeCodec {
    type Error = CodecError;

    fn encode_header(
        &mut self,
        header: &Header<Life>,
        mut buf: impl BufMut,
    ) -> Result<(), CodecError> {
        let (kind, about, probe_number) = match &header.message {
            Message::Ping(number) => (0, None, Some(number)),
            Message::Ack(number) => (1, None, Some(number)),
            Message::PingReq {
                target,
                probe_number,
            } => (2, Some(target), Some(probe_number)),
            Message::IndirectPing {
                origin,
                probe_number,
            } => (3, Some(origin), Some(probe_number)),
            Message::IndirectAck {
                target,
                probe_number,
            } => (4, Some(target), Some(probe_number)),
            Message::ForwardedAck {
                origin,
                probe_number,
            } => (5, Some(origin), Some(probe_number)),
            Message::Announce => (6, None, None),
            Message::Feed => (7, None, None),
            Message::Gossip => (8, None, None),
            Message::TurnUndead => (9, None, None),
            // Nothing is broadcast beside the members.
            Message::Broadcast => return Err(CodecError::Message(10)),
        };
        if buf.remaining_mut() < HEADER_BYTES + LIFE_BYTES + 1 {
            return Err(CodecError::Full);
        }
        put_life(&mut buf, &header.src);
        buf.put_u16(header.src_incarnation);
        put_life(&mut buf, &header.dst);
        buf.put_u8(kind);
        if let Some(about) = about {
            put_life(&mut buf, about);
        }
        if let Some(number) = probe_number {
            buf.put_u8(*number);
        }
        Ok(())
    }

    fn decode_header(&mut self, mut buf: impl Buf) -> Result<Header<Life>, CodecError> {
        let src = self.life(&mut buf)?;
        needs(&buf, 2)?;
        Ok(Header {
            src,
            src_incarnation: buf.get_u16(),
            dst: self.life(&mut buf)?,
            message: self.message(&mut buf)?,
        })
    }

    fn encode_member(
        &mut self,
        member: &Member<Life>,
        mut buf: impl BufMut,
    ) -> Result<(), CodecError> {
        if buf.remaining_mut() < MEMBER_BYTES {
            return Err(CodecError::Full);
        }
        put_life(&mut buf, member.id());
        buf.put_u16(member.incarnation());
        buf.put_u8(match member.state() {
            State::Alive => 0,
            State::Suspect => 1,
            State::Down => 2,
        });
        Ok(())
    }

    fn decode_member(&mut self, mut buf: impl Buf) -> Result<Member<Life>, CodecError> {
        let life = self.life(&mut buf)?;
        needs(&buf, 3)?;
        let incarnation = buf.get_u16();
        let state = match buf.get_u8() {
            0 => State::Alive,
            1 => State::Suspect,
            2 => State::Down,
            other => return Err(CodecError::State(other)),
        };
        Ok(Member::new(life, incarnation, state))
    }
}

fn needs(buf: &impl Buf, bytes: usize) -> Result<(), CodecError> {
    match buf.remaining() >= bytes {
        true => Ok(()),
        false => Err(CodecError::Short),
    }
}

fn put_life(buf: &mut impl BufMut, life: &Life) {
    buf.put_u16(life.index);
    buf.put_u64(life.incarnation);
    buf.put_u16(life.generation);
}
