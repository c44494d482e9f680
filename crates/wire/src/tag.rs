//! Tags of signed bytes: the beginning of a keyed hash, compared in constant time.

/// The first `N` bytes of a hash.
pub(crate) fn tag_of<const N: usize>(hash: &blake3::Hash) -> [u8; N] {
    let mut tag = [0; N];
    tag.copy_from_slice(&hash.as_bytes()[..N]);
    tag
}

/// Whether two tags are equal; takes equally long wherever they differ, as the comparison of the hash type does.
pub(crate) fn are_equal<const N: usize>(one: [u8; N], other: [u8; N]) -> bool {
    widened(one) == widened(other)
}

fn widened<const N: usize>(tag: [u8; N]) -> blake3::Hash {
    let mut bytes = [0; blake3::OUT_LEN];
    bytes[..N].copy_from_slice(&tag);
    blake3::Hash::from_bytes(bytes)
}
