//! Numbers of 24 bits: 8 of exponent and 16 of mantissa, those of an `f32` without its sign and its last 7 bits.

/// Bits of an `f32` that do not travel.
const DROPPED: u32 = 7;

/// The greatest number not above `value` that an update carries: 17 significant bits, a relative error below 2^-16. What
/// is negative or no number becomes 0.
pub fn carried(value: f64) -> f32 {
    if value.is_nan() || value <= 0.0 {
        return 0.0;
    }
    let mut nearest = value.min(f64::from(f32::MAX)) as f32;
    if f64::from(nearest) > value {
        nearest = nearest.next_down();
    }
    f32::from_bits(nearest.to_bits() >> DROPPED << DROPPED)
}

/// The three bytes of a number; of one that updates do not carry, those of [`carried`].
pub(super) fn to_bytes(value: f32) -> [u8; 3] {
    let bits = carried(value.into()).to_bits() >> DROPPED;
    let [_, bytes @ ..] = bits.to_be_bytes();
    bytes
}

/// The number of three bytes, unless they are those of an infinity or of no number.
pub(super) fn from_bytes([a, b, c]: [u8; 3]) -> Option<f32> {
    let value = f32::from_bits(u32::from_be_bytes([0, a, b, c]) << DROPPED);
    value.is_finite().then_some(value)
}
