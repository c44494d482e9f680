//! Messages about a limit, and whether they can be believed.

use limit::sharing::Update;

/// To how many others a limiter sends at the end of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branches {
    /// All of them, each limiter's own numbers.
    Mesh,
    /// So many picked at random, parts of sums; the paper's branching factor. 0 counts as 1, and as many as there are
    /// others as [`Branches::Mesh`].
    Random(u16),
}

/// A message of one limiter to another about one limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message {
    /// Counts the messages of one limiter to another, modulo 65,536. Where it begins does not matter.
    pub sequence: u16,
    /// Which of the beginnings this belongs to; compared modulo 256. 0 in a mesh.
    pub epoch: u8,
    /// Demand, as in [`Update::demand`]: a part of the sum, or the sender's own.
    pub demand: f32,
    /// What passes, as in [`Update::passed`], likewise.
    pub passed: f32,
    /// The part of the weight; 0 in a mesh.
    pub weight: f32,
}

/// The fate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It counted, for itself and for this many lost ones before it.
    Counted {
        /// Messages of the same limiter that are missing before it, as far as they are made up for.
        lost: u16,
    },
    /// A later one was there first, or its epoch is over.
    Overtaken,
    /// Its numbers cannot be, or it comes from a limiter that gossips the other way, that is not connected or that does
    /// not exist.
    Refused,
}

/// The greatest weight that is believed; all limiters together have N.
pub(super) const WEIGHT_MAX: f32 = 1e9;

/// Serial arithmetic; of two that are equally far from each other both ways, the greater.
pub(super) fn is_newer(epoch: u8, than: u8) -> bool {
    match epoch.wrapping_sub(than) {
        0 => false,
        128 => epoch > than,
        ahead => ahead < 128,
    }
}

/// The numbers of a message, unless they cannot be.
pub(super) fn believed(message: Message, is_mesh: bool) -> Option<Update> {
    let weight_fits = match is_mesh {
        true => message.weight == 0.0,
        false => message.weight > 0.0 && message.weight <= WEIGHT_MAX,
    };
    let update = Update::new(message.demand.into(), message.passed.into());
    update.ok().filter(|_| weight_fits)
}
