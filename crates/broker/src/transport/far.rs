//! The other end of a connection, for tests: plain bytes to bytes on the wire, and back.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::{ClientConnection, ServerConfig};
use topics::{MemoryBudget, Part};
use wire::identify::Compression;

use super::codec::Codec;
use super::{RECORD_MAX, Records, Transport, Upgrade, open, seal};
use crate::reactor::Inbox;
use crate::sys::{self, Stream};
use crate::tls::tests::Papers;
use crate::tls::{ByHand, Credentials, Handshakes};

/// The transport of a connection's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    Records,
    Layers {
        tls: bool,
        compression: Option<Compression>,
    },
}

const SNAPPY: Option<Compression> = Some(Compression::Snappy);
const DEFLATE: Option<Compression> = Some(Compression::Deflate { level: 6 });

/// All of them.
pub const KINDS: [Kind; 7] = [
    Kind::Plain,
    Kind::Records,
    layers(false, SNAPPY),
    layers(false, DEFLATE),
    layers(true, None),
    layers(true, SNAPPY),
    layers(true, DEFLATE),
];

const fn layers(tls: bool, compression: Option<Compression>) -> Kind {
    Kind::Layers { tls, compression }
}

/// What ends of TLS are made of.
pub struct Authority {
    papers: Papers,
    credentials: Arc<Credentials>,
    pub config: Arc<ServerConfig>,
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let papers = Papers::new(name);
        let credentials = Arc::new(Credentials::load(papers.config()).expect("of use"));
        Authority {
            config: credentials.server(),
            papers,
            credentials,
        }
    }

    /// Handshakes that go on when the test says so.
    pub fn handshakes(&self, inboxes: &[Arc<Inbox>]) -> (Handshakes, ByHand) {
        Handshakes::by_hand(Arc::clone(&self.credentials), inboxes)
    }
}

/// The far end.
pub struct Far {
    is_in_records: bool,
    tls: Option<Box<ClientConnection>>,
    codec: Option<Codec>,
    /// Plain bytes that are still heard without compression.
    before_codec: usize,
    wire: Vec<u8>,
}

impl Far {
    pub fn new(kind: Kind, authority: &Authority) -> Far {
        let mut far = Far {
            is_in_records: kind == Kind::Records,
            tls: None,
            codec: None,
            before_codec: 0,
            wire: Vec::new(),
        };
        if let Kind::Layers { tls, compression } = kind {
            far.upgrade(tls, compression, 0, authority);
        }
        far
    }

    /// Hears compression after `plain` bytes more, and speaks in it at once.
    pub fn upgrade(
        &mut self,
        tls: bool,
        compression: Option<Compression>,
        plain: usize,
        authority: &Authority,
    ) {
        self.before_codec = plain;
        if tls {
            self.tls = Some(Box::new(authority.papers.client()));
        }
        if let Some(compression) = compression {
            self.codec = Some(Codec::new(compression));
        }
    }

    /// Speaks without compression where it was agreed on.
    pub fn forget_compression(&mut self) {
        self.codec = None;
    }

    /// Whether TLS has something to say itself.
    pub fn has_to_say(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Whether it may say something.
    pub fn is_shaken(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking())
    }

    /// Bytes on the wire of `plain`, and of what TLS has to say itself.
    pub fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) {
        let mut packed = Vec::new();
        let mut plain = plain;
        if let Some(codec) = self.codec.as_mut().filter(|_| !plain.is_empty()) {
            codec.seal(plain, &mut packed).expect("it is whole");
            plain = &packed;
        }
        if self.is_in_records {
            plain
                .chunks(RECORD_MAX)
                .for_each(|record| seal(wire, record));
        } else if let Some(tls) = &mut self.tls {
            tls.set_buffer_limit(None);
            tls.writer().write_all(plain).expect("memory");
            while tls.wants_write() {
                tls.write_tls(wire).expect("memory");
            }
        } else {
            wire.extend_from_slice(plain);
        }
    }

    /// The plain bytes of `came`, as far as it is complete.
    pub fn open(&mut self, came: &[u8], plain: &mut Vec<u8>) {
        self.wire.extend_from_slice(came);
        let mut within = Vec::new();
        if self.is_in_records {
            open(&mut self.wire, &mut within);
        } else if let Some(tls) = &mut self.tls {
            let wire = std::mem::take(&mut self.wire);
            let mut rest = &wire[..];
            while !rest.is_empty() {
                tls.read_tls(&mut rest).expect("memory");
                tls.process_new_packets().expect("the broker speaks TLS");
                let mut piece = [0; 20_000];
                while let Ok(count) = tls.reader().read(&mut piece)
                    && count > 0
                {
                    within.extend_from_slice(&piece[..count]);
                }
            }
        } else {
            within = std::mem::take(&mut self.wire);
        }
        let Some(codec) = &mut self.codec else {
            return plain.append(&mut within);
        };
        let first = self.before_codec.min(within.len());
        plain.extend(within.drain(..first));
        self.before_codec -= first;
        let mut rest = &within[..];
        loop {
            let mut piece = [0; 10_000];
            let opened = codec.open(rest, &mut piece).expect("the broker compresses");
            plain.extend_from_slice(&piece[..opened.made]);
            rest = &rest[opened.used..];
            if opened.made < piece.len() && rest.is_empty() {
                return;
            }
        }
    }
}

/// The near end, which has its layers from the first byte on.
pub fn near(kind: Kind, stream: Stream, authority: &Authority) -> Transport {
    let mut transport = Transport::plain(stream);
    match kind {
        Kind::Plain => return transport,
        Kind::Records => {
            let Transport::Plain(plain) = transport else {
                unreachable!("made so");
            };
            return Transport::Records(Box::new(Records::new(plain.into_stream())));
        }
        Kind::Layers { tls, compression } => {
            let charge = MemoryBudget::new(1 << 30).charge(Part::Output, 1);
            let upgrade = Upgrade {
                tls: tls.then(|| (Arc::clone(&authority.config), 0)),
                compression: compression.map(|compression| (compression, 0)),
                charge: charge.expect("all is free"),
            };
            let upgraded = transport.upgrade(upgrade, &[], sys::wall_now());
            upgraded.expect("the config is of use");
        }
    }
    transport
}
