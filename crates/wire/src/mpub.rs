//! The body of MPUB: a count, then as many messages, each behind its length.
//!
//! [`Mpub::parse`] walks the body once and rejects it as a whole, so that an accepted MPUB can be
//! iterated without errors and without allocation. Beyond nsqd, which reads as many messages as the
//! count says and ignores the declared body size, the messages must fill the body exactly: otherwise
//! the next command would be read from the middle of a message.

use crate::{ErrorCode, Limits, ProtocolError};

/// A checked batch of messages, borrowed from the command's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mpub<'a> {
    count: u32,
    /// Lengths and bodies, without the leading count.
    entries: &'a [u8],
}

impl<'a> Mpub<'a> {
    /// Number of messages, at least 1.
    #[allow(
        clippy::len_without_is_empty,
        reason = "never empty: nsqd refuses a count of 0"
    )]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Sum of the messages' sizes, without lengths and count.
    pub fn total_body_bytes(&self) -> usize {
        self.entries.len() - self.len() * LENGTH_BYTES
    }

    /// The messages in order.
    pub fn iter(&self) -> Messages<'a> {
        Messages {
            left: self.len(),
            entries: self.entries,
        }
    }

    /// Checks a whole MPUB body.
    ///
    /// # Errors
    /// nsqd's for the count and for each message's size, in the order of the bytes;
    /// [`ErrorCode::BadBody`] when the messages do not fill the body exactly.
    pub(crate) fn parse(body: &'a [u8], limits: &Limits) -> Result<Mpub<'a>, ProtocolError> {
        let Some((count, entries)) = body.split_first_chunk::<COUNT_BYTES>() else {
            return Err(no_count(body.len()));
        };
        let count = check_count(i32::from_be_bytes(*count), body.len(), limits)?;
        let mut rest = entries;
        for index in 0..count {
            rest = check_message(rest, index, body.len(), limits)?;
        }
        if !rest.is_empty() {
            let text = format!(
                "MPUB body size {} but {count} messages end {} bytes before",
                body.len(),
                rest.len()
            );
            return Err(ProtocolError::new(ErrorCode::BadBody, text));
        }
        Ok(Mpub { count, entries })
    }

    /// Checks the declared size and, once it has arrived, the count: enough to refuse a hopeless
    /// body before waiting for it.
    pub(crate) fn check_head(
        body_bytes: usize,
        head: &[u8],
        limits: &Limits,
    ) -> Result<(), ProtocolError> {
        if body_bytes < COUNT_BYTES {
            return Err(no_count(body_bytes));
        }
        match head.first_chunk::<COUNT_BYTES>() {
            Some(count) => check_count(i32::from_be_bytes(*count), body_bytes, limits).map(|_| ()),
            None => Ok(()),
        }
    }
}

impl<'a> IntoIterator for &Mpub<'a> {
    type Item = &'a [u8];
    type IntoIter = Messages<'a>;

    fn into_iter(self) -> Messages<'a> {
        self.iter()
    }
}

/// Iterator over the messages of an [`Mpub`].
#[derive(Debug, Clone)]
pub struct Messages<'a> {
    left: usize,
    entries: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.entries.split_first_chunk::<LENGTH_BYTES>()?;
        let (message, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        self.entries = rest;
        self.left -= 1;
        Some(message)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Messages<'_> {}

const COUNT_BYTES: usize = 4;
const LENGTH_BYTES: usize = 4;
/// A length and one byte: what the smallest message takes.
const MIN_ENTRY_BYTES: u64 = 5;

fn check_count(count: i32, body_bytes: usize, limits: &Limits) -> Result<u32, ProtocolError> {
    let fits = |bytes: u64| bytes.saturating_sub(COUNT_BYTES as u64) / MIN_ENTRY_BYTES;
    let most = fits(u64::from(limits.max_body_size)).min(fits(body_bytes as u64));
    match u32::try_from(count) {
        Ok(count) if count > 0 && u64::from(count) <= most => Ok(count),
        _ => Err(ProtocolError::new(
            ErrorCode::BadBody,
            format!("MPUB invalid message count {count}"),
        )),
    }
}

/// Checks the message at the head of `rest` and returns what follows it.
fn check_message<'a>(
    rest: &'a [u8],
    index: u32,
    body_bytes: usize,
    limits: &Limits,
) -> Result<&'a [u8], ProtocolError> {
    let overrun = || {
        let text = format!("MPUB message({index}) runs over the body size {body_bytes}");
        ProtocolError::new(ErrorCode::BadBody, text)
    };
    let (length, rest) = rest
        .split_first_chunk::<LENGTH_BYTES>()
        .ok_or_else(overrun)?;
    let size = i32::from_be_bytes(*length);
    if size <= 0 {
        let text = format!("MPUB invalid message({index}) body size {size}");
        return Err(ProtocolError::new(ErrorCode::BadMessage, text));
    }
    if size.unsigned_abs() > limits.max_msg_size {
        let text = format!("MPUB message too big {size} > {}", limits.max_msg_size);
        return Err(ProtocolError::new(ErrorCode::BadMessage, text));
    }
    rest.get(size.unsigned_abs() as usize..).ok_or_else(overrun)
}

fn no_count(body_bytes: usize) -> ProtocolError {
    ProtocolError::new(
        ErrorCode::BadBody,
        format!("MPUB body size {body_bytes} has no room for a message count"),
    )
}
