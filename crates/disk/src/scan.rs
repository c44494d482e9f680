//! Reading: whole records in their order, and the gaps between them.
//!
//! Bytes that are not a record are skipped up to the next record: if the head is whole its length
//! says where that is, otherwise each place where a record may begin is tried.

use crate::record::{self, NoRecord, Record, Salt};

/// Bytes that are no record, or a record that bears a state of nobody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where they begin in their file.
    pub offset: u64,
    /// How many they are.
    pub bytes: u64,
    /// No record is behind them: it may be that they never were more, because their writer was cut off.
    pub is_tail: bool,
}

/// A piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A record.
    Record(Record<'a>),
    /// Bytes that were a record, or were about to be one.
    Damage(Damage),
}

/// The pieces of some bytes, in order.
#[derive(Debug)]
pub struct Scan<'a> {
    bytes: &'a [u8],
    /// Where those begin in their file, and its salt.
    place: (u64, Salt),
    at: usize,
    /// A record that was come upon behind damage.
    ahead: Option<Record<'a>>,
}

/// Reads `bytes` that begin at `base` in a file with such a salt.
#[must_use]
pub fn scan(bytes: &[u8], base: u64, salt: Salt) -> Scan<'_> {
    Scan {
        bytes,
        place: (base, salt),
        at: 0,
        ahead: None,
    }
}

impl<'a> Scan<'a> {
    /// Skips bytes that are not a record, from here to `end`.
    fn damage(&mut self, end: usize, is_tail: bool) -> Piece<'a> {
        let damage = Damage {
            offset: self.place.0 + self.at as u64,
            bytes: (end - self.at) as u64,
            is_tail,
        };
        self.at = end;
        Piece::Damage(damage)
    }

    /// Where the next record begins behind something that is none.
    fn next_record(&self) -> Option<usize> {
        let mut at = record::aligned(self.at + 1);
        while at < self.bytes.len() {
            match record::read(self.bytes, at, self.place) {
                // A head that is whole shows where a record is, in whatever state.
                Ok(_) | Err(NoRecord::Damaged(_) | NoRecord::Cut) => return Some(at),
                Err(NoRecord::NoHead) => at = record::aligned(at + 1),
            }
        }
        None
    }

    fn give(&mut self, record: Record<'a>) -> Piece<'a> {
        if !record.is_state_damaged {
            return Piece::Record(record);
        }
        self.ahead = Some(record);
        Piece::Damage(Damage {
            offset: record::state_at(record.offset),
            bytes: 4,
            is_tail: false,
        })
    }
}

impl<'a> Iterator for Scan<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        if let Some(record) = self.ahead.take() {
            return Some(Piece::Record(record));
        }
        let length = self.bytes.len();
        if self.at >= length {
            return None;
        }
        Some(match record::read(self.bytes, self.at, self.place) {
            Ok((record, taken)) => {
                self.at += taken;
                self.give(record)
            }
            Err(NoRecord::Damaged(bytes)) => {
                let end = self.at + bytes;
                self.damage(end, end == length)
            }
            Err(NoRecord::Cut) => self.damage(length, true),
            Err(NoRecord::NoHead) => match self.next_record() {
                Some(next) => self.damage(next, false),
                None => self.damage(length, true),
            },
        })
    }
}
