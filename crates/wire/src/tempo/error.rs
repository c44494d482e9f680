//! Errors in bytes on the data path.

/// What is wrong with a connection's or a datagram's bytes. A connection cannot go on after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TempoError {
    /// The connection begins with other bytes: it speaks another protocol.
    #[error("not a Tempo connection: it does not begin with TMP1")]
    Magic,
    /// The hello is of a version that is not known here.
    #[error("hello of version {0}, but only 1 is known: update the older end")]
    Version(u8),
    /// The hello holds flags or reserved bytes that this version does not have.
    #[error("hello with flags {0:#08x}, which are not known")]
    Flags(u32),
    /// The hello carries no tag, but a key is set here.
    #[error("unsigned hello, but a key is set here: set the same key at the sender")]
    Unsigned,
    /// The hello carries a tag, but no key is set here.
    #[error("signed hello, but no key is set here: set the sender's key")]
    Signed,
    /// The hello's tag is not that of the key.
    #[error("the hello's tag is wrong: another key, or it was forged")]
    Forged,
    /// A message is longer than the reader accepts.
    #[error("message of {bytes} bytes is longer than {max_bytes}")]
    TooLong {
        /// Bytes of its body.
        bytes: u32,
        /// The reader's bound.
        max_bytes: u32,
    },
    /// A datagram is too short to carry an identifier.
    #[error("datagram of {0} bytes does not hold an identifier")]
    ShortDatagram(usize),
}
