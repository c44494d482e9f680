//! What holds for whatever a peer sends in a compressed connection.

use broker::codec::Codec;
use wire::identify::Compression;

/// What snappy's streams begin with.
const STREAM: &[u8] = b"\xff\x06\x00\x00sNaPpY";

/// Nothing becomes more than so many times what it was: the most that deflate can do, and more than snappy can.
const GROWTH_MAX: usize = 1040;

/// Memory of a codec for what has not come whole, or was not taken.
const HELD_MAX: usize = 160 * 1024;

/// Bytes of a connection that is compressed. The first says how: by which codec, with how much room, whether a peer of the codec
/// made them from what follows, and whether one of them came wrong, which the second says.
pub fn check_open(input: &[u8]) {
    let Some((&[selector, fault], rest)) = input.split_first_chunk() else {
        return;
    };
    let compression = match selector & 1 {
        0 => Compression::Snappy,
        _ => Compression::Deflate { level: 1 },
    };
    let room = [1, 100, 4096, 64 * 1024][usize::from(selector >> 1 & 3)];
    let (is_sealed, is_faulty) = (selector & 8 != 0, selector & 16 != 0);
    let mut wire = Vec::new();
    match is_sealed {
        true => seal(compression, rest, &mut wire),
        false => {
            let is_begun = selector & 32 != 0;
            wire.extend_from_slice(if is_begun { STREAM } else { b"" });
            wire.extend_from_slice(rest);
        }
    }
    if is_faulty && !wire.is_empty() {
        let at = usize::from(fault) * 251 % wire.len();
        wire[at] ^= fault | 1;
    }
    let (whole, is_whole_right) = open(compression, &wire, wire.len().max(1), room);
    let cut = usize::from(fault) % 40 + 1;
    let (pieces, are_pieces_right) = open(compression, &wire, cut, room);
    assert_eq!(
        is_whole_right, are_pieces_right,
        "it depends on how it was cut"
    );
    match is_whole_right {
        true => assert_eq!(whole, pieces),
        false => assert!(whole.starts_with(&pieces) || pieces.starts_with(&whole)),
    }
    if is_sealed && !is_faulty {
        assert!(
            is_whole_right && whole == rest,
            "what was sealed is not what comes"
        );
    }
}

fn seal(compression: Compression, plain: &[u8], wire: &mut Vec<u8>) {
    let sealed = Codec::new(compression).seal(plain, wire);
    assert!(sealed.is_ok(), "{sealed:?}");
}

/// Opens `wire` in pieces; gives what was made of it, and whether all of it was right.
fn open(compression: Compression, wire: &[u8], cut: usize, room: usize) -> (Vec<u8>, bool) {
    let mut codec = Codec::new(compression);
    let (mut all, mut buffer) = (Vec::new(), vec![0; room]);
    for piece in wire.chunks(cut) {
        let mut piece = piece;
        loop {
            let Ok(opened) = codec.open(piece, &mut buffer) else {
                return (all, false);
            };
            assert!(opened.used <= piece.len() && opened.made <= room);
            all.extend_from_slice(&buffer[..opened.made]);
            assert!(all.len() <= wire.len() * GROWTH_MAX);
            assert!(
                codec.held_bytes() <= HELD_MAX,
                "{} held",
                codec.held_bytes()
            );
            piece = &piece[opened.used..];
            if opened.made < room {
                assert!(piece.is_empty(), "it leaves room and has not read all");
                break;
            }
        }
    }
    (all, true)
}
