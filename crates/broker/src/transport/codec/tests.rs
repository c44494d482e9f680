//! Codecs against the libraries' own readers and writers, in pieces of every size.

use std::io::{Read, Write};

use proptest::prelude::*;

use super::snappy::BLOCK_MAX;
use super::*;

const KINDS: [Compression; 3] = [
    Compression::Snappy,
    Compression::Deflate { level: 1 },
    Compression::Deflate { level: 9 },
];

/// What somebody else makes of `messages`, each of which can be read at once.
fn foreign_seal(compression: Compression, messages: &[Vec<u8>]) -> Vec<u8> {
    match compression {
        Compression::Snappy => {
            let mut writer = snap::write::FrameEncoder::new(Vec::new());
            for message in messages {
                writer.write_all(message).expect("memory");
                writer.flush().expect("memory");
            }
            writer.into_inner().expect("flushed")
        }
        Compression::Deflate { level } => {
            let level = flate2::Compression::new(level);
            let mut writer = flate2::write::DeflateEncoder::new(Vec::new(), level);
            for message in messages {
                writer.write_all(message).expect("memory");
                writer.flush().expect("memory");
            }
            writer.get_ref().clone()
        }
    }
}

/// What somebody else reads.
fn foreign_open(compression: Compression, wire: &[u8], bytes: usize) -> Vec<u8> {
    let mut plain = vec![0; bytes];
    let read = match compression {
        Compression::Snappy => snap::read::FrameDecoder::new(wire).read_exact(&mut plain),
        Compression::Deflate { .. } => {
            flate2::read::DeflateDecoder::new(wire).read_exact(&mut plain)
        }
    };
    read.expect("as many as were said");
    plain
}

/// Reads `wire` in pieces of `cuts` (in turn) into buffers of `room` bytes.
fn open_in_pieces(
    codec: &mut Codec,
    wire: &[u8],
    cuts: &[usize],
    room: usize,
) -> io::Result<Vec<u8>> {
    let (mut all, mut at, mut pending) = (Vec::new(), 0, Vec::new());
    let mut buffer = vec![0; room];
    for cut in cuts.iter().cycle() {
        let end = (at + cut).min(wire.len());
        pending.extend_from_slice(&wire[at..end]);
        at = end;
        loop {
            let opened = codec.open(&pending, &mut buffer)?;
            all.extend_from_slice(&buffer[..opened.made]);
            pending.drain(..opened.used);
            if opened.made < room {
                assert!(pending.is_empty(), "it left room and did not read all");
                break;
            }
        }
        if at == wire.len() {
            return Ok(all);
        }
    }
    unreachable!("cuts are not empty")
}

fn messages() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let same = (any::<u8>(), 1..200_000usize).prop_map(|(byte, count)| vec![byte; count]);
    let any = prop::collection::vec(any::<u8>(), 1..3000);
    let text = "[ab]{1,2000}".prop_map(String::into_bytes);
    prop::collection::vec(prop_oneof![1 => same, 4 => any, 4 => text], 1..6)
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![1..20usize, 1..70_000usize], 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_the_pieces_the_plain_bytes_are_the_same(
        messages in messages(),
        cuts in cuts(),
        room in prop_oneof![1..50usize, 1000..100_000usize],
    ) {
        let plain = messages.concat();
        for compression in KINDS {
            let wire = foreign_seal(compression, &messages);
            let opened = open_in_pieces(&mut Codec::new(compression), &wire, &cuts, room);
            prop_assert!(opened.expect("it is whole") == plain, "{compression:?}");

            let (mut codec, mut wire) = (Codec::new(compression), Vec::new());
            for message in &messages {
                codec.seal(message, &mut wire).expect("it is whole");
                // All of it can be read at once.
                let so_far = foreign_open(compression, &wire, message.len());
                prop_assert_eq!(so_far.len(), message.len());
            }
            prop_assert!(foreign_open(compression, &wire, plain.len()) == plain, "{compression:?}");
            let opened = open_in_pieces(&mut Codec::new(compression), &wire, &cuts, room);
            prop_assert!(opened.expect("it is whole") == plain, "{compression:?}");
        }
    }

    #[test]
    fn what_is_garbled_is_an_error_or_nothing_and_never_other_bytes(
        messages in messages(),
        cuts in cuts(),
        at in any::<prop::sample::Index>(),
        change in 1..=255u8,
    ) {
        let mut wire = foreign_seal(Compression::Snappy, &messages);
        let index = at.index(wire.len());
        wire[index] ^= change;
        let mut codec = Codec::new(Compression::Snappy);
        if let Ok(opened) = open_in_pieces(&mut codec, &wire, &cuts, 100_000) {
            // A chunk whose type was changed to one that is skipped is left out; the format knows no better.
            let blocks = messages.iter().flat_map(|message| message.chunks(BLOCK_MAX));
            let mut rest = &opened[..];
            for block in blocks {
                rest = rest.strip_prefix(block).unwrap_or(rest);
            }
            prop_assert!(rest.is_empty(), "{} bytes that nobody said", rest.len());
        }
        // Deflate has no checksum: it only has to come to an end.
        let mut wire = foreign_seal(Compression::Deflate { level: 6 }, &messages);
        let index = at.index(wire.len());
        wire[index] ^= change;
        let mut codec = Codec::new(Compression::Deflate { level: 6 });
        let _ = open_in_pieces(&mut codec, &wire, &cuts, 100_000);
    }
}

#[test]
fn snappy_chunks_out_of_the_format_are_refused() {
    const STREAM: &[u8] = b"\xff\x06\x00\x00sNaPpY";
    for (chunks, expected) in [
        (&b"\x00\x04\x00\x00abcd"[..], "does not begin"),
        (b"PUB t\n\0\0\0\x01x", "does not begin"),
        (b"\xff\x06\x00\x00sNaPpX", "another stream"),
        (b"\xff\x07\x00\x00sNaPpYx", "chunk of 7"),
        (&[STREAM, b"\x02\x00\x00\x00"].concat(), "type 0x02"),
        (&[STREAM, b"\x7f\x00\x00\x00"].concat(), "type 0x7f"),
        (
            &[STREAM, b"\x01\x03\x00\x00abc"].concat(),
            "without its checksum",
        ),
        (
            &[STREAM, b"\x01\x05\x00\x00abcde"].concat(),
            "checksum does not",
        ),
        (&[STREAM, b"\x01\x05\x00\x01"].concat(), "chunk of 65541"),
        (&[STREAM, b"\x00\x00\x00\xff"].concat(), "chunk of 16711680"),
        // A block that says of itself that it is 4 GiB, or 70000 bytes.
        (
            &[STREAM, b"\x00\x09\x00\x00abcd\xff\xff\xff\xff\x0f"].concat(),
            "block of",
        ),
        (
            &[STREAM, b"\x00\x07\x00\x00abcd\xf0\xa2\x04"].concat(),
            "block of 70000",
        ),
    ] {
        for piece in [1, 3, 1000] {
            let mut codec = Codec::new(Compression::Snappy);
            let error = open_in_pieces(&mut codec, chunks, &[piece], 10).expect_err(expected);
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
    // What others may have to say to each other is skipped, however long it is, and not kept.
    let skipped = [
        STREAM,
        b"\x80\x00\x00\x10",
        &[7; 0x10_0000],
        b"\xfe\x01\x00\x00x",
    ]
    .concat();
    let mut codec = Codec::new(Compression::Snappy);
    let opened = open_in_pieces(&mut codec, &skipped, &[5000], 10).expect("within the format");
    assert!(opened.is_empty());
    assert!(codec.held_bytes() < 100);
}

#[test]
fn a_bomb_comes_in_pieces_and_is_not_kept() {
    let plain = vec![0; 64 * 1024 * 1024];
    for compression in KINDS {
        let wire = foreign_seal(compression, std::slice::from_ref(&plain));
        assert!(wire.len() < plain.len() / 20);
        let (mut codec, mut rest, mut made) = (Codec::new(compression), &wire[..], 0);
        let mut buffer = [1; 4096];
        while made < plain.len() {
            let opened = codec.open(rest, &mut buffer).expect("it is whole");
            assert!(opened.made > 0 && buffer[..opened.made].iter().all(|&byte| byte == 0));
            assert!(codec.held_bytes() <= 2 * BLOCK_MAX);
            made += opened.made;
            rest = &rest[opened.used..];
        }
    }
}

#[test]
fn a_deflated_stream_may_end() {
    let mut writer = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(b"PUB").expect("memory");
    let mut wire = writer.finish().expect("memory");
    wire.extend_from_slice(b"and more");
    let mut codec = Codec::new(Compression::Deflate { level: 1 });
    let mut buffer = [0; 100];
    let opened = codec.open(&wire, &mut buffer).expect("it is whole");
    assert_eq!(
        (&buffer[..opened.made], opened.used),
        (&b"PUB"[..], wire.len())
    );
    assert!(codec.has_ended());
}
