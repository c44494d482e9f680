//! Errors in a spec, and where they are.

use std::fmt;

use thiserror::Error;

/// A place in the text of a spec, both counted from 1; the column counts characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The character in it.
    pub column: usize,
}

/// What is wrong with a spec.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// Not TOML, or TOML of another form: unknown keys, missing keys, values of the wrong type.
    #[error("{place}: {text}")]
    Syntax {
        /// Where.
        place: Place,
        /// What, in one line.
        text: String,
    },
    /// A value that is out of range or contradicts another.
    #[error("{}{key}: {text}", Located(.place))]
    Value {
        /// Where; `None` for a spec that was built rather than read.
        place: Option<Place>,
        /// The key, as in `publishers[2].rate`; items are counted from 1.
        key: String,
        /// What is wrong with it and what to write instead.
        text: String,
    },
}

struct Located<'a>(&'a Option<Place>);

impl SpecError {
    /// Where in the text; `None` for a spec that was built rather than read.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        match self {
            SpecError::Syntax { place, .. } => Some(*place),
            SpecError::Value { place, .. } => *place,
        }
    }
}

impl Place {
    /// The place of a byte of `text`.
    pub(crate) fn of_byte(text: &str, byte: usize) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        Place {
            line: 1 + before.matches('\n').count(),
            column: 1 + before[line_start..].chars().count(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

impl fmt::Display for Located<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(place) => write!(f, "{place}: "),
            None => Ok(()),
        }
    }
}
