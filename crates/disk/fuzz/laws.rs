//! What must hold for any bytes in a segment file, shared by the fuzz targets and the smoke test on stable Rust.
//!
//! It opens, without a panic; the pieces of a scan cover the bytes without a gap; a segment has as many messages as was said; and of a
//! file that was damaged nothing comes out but what was written, in its order.
#![allow(dead_code, reason = "each fuzz target uses one side")]

use disk::{
    FileName, Message, Owner, PREAMBLE_BYTES, Piece, Salt, Shelf, ShelfConfig, Simulated, Stamps,
    Volume, scan,
};

const CONFIG: ShelfConfig = ShelfConfig {
    file_bytes_max: u64::MAX,
    bytes_max: u64::MAX,
};

const BODIES: [&[u8]; 5] = [b"", b"one", &[0; 40], b"SRecSRecSRec", &[255; 100]];

/// Any bytes as a file.
pub fn check_read(input: &[u8]) {
    let name = FileName {
        number: 1,
        salt: Salt(0),
    };
    check_scan(input, name.salt);
    let disk = Simulated::with_files([(name.to_string(), input.to_vec())]);
    check_open(disk, |_, _| {});
}

/// A good file to which things were done: each three bytes of the input are a place and a byte to be written there; what is left over
/// says how many bytes are cut off.
pub fn check_damaged(input: &[u8]) {
    let (name, mut bytes) = written();
    let edits = input.chunks_exact(3);
    let cut = edits
        .remainder()
        .iter()
        .map(|&byte| usize::from(byte))
        .sum();
    for edit in edits {
        let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % bytes.len();
        bytes[at] = edit[2];
    }
    bytes.truncate(bytes.len().saturating_sub(cut));
    check_scan(&bytes, name.salt);
    let disk = Simulated::with_files([(name.to_string(), bytes)]);
    let mut last = None;
    check_open(disk, |segment, message| {
        let index = BODIES.iter().position(|body| *body == message.body);
        let index = index.expect("a body that was written") as u64;
        assert_eq!(message.id, segment * 100 + index);
        assert!(
            last < Some((segment, index)),
            "in the order in which they were written"
        );
        last = Some((segment, index));
    });
}

fn check_scan(bytes: &[u8], salt: Salt) {
    let begin = PREAMBLE_BYTES.min(bytes.len());
    let mut at = begin as u64;
    for piece in scan(&bytes[begin..], begin as u64, salt) {
        match piece {
            Piece::Record(record) => {
                assert_eq!(record.offset, at);
                at += (disk::RECORD_HEAD_BYTES + record.payload.len()).next_multiple_of(8) as u64;
            }
            // A state that nobody wrote is said of the record that comes next.
            Piece::Damage(damage) if damage.bytes == 4 && damage.offset == at + 28 => {}
            Piece::Damage(damage) => {
                assert_eq!(damage.offset, at);
                at += damage.bytes;
            }
        }
    }
    assert_eq!(at, bytes.len() as u64);
}

fn check_open(disk: Simulated, mut see: impl FnMut(u64, &Message<'_>)) {
    // A later format is refused.
    let Ok((mut shelf, opened)) = Shelf::open(disk, CONFIG, 1) else {
        return;
    };
    for (owner, segments) in opened.owners {
        for kept in segments {
            let contents = shelf.read(&owner, kept.number).expect("it is there");
            let mut count = 0;
            for message in contents.messages() {
                count += 1;
                see(kept.number, &message);
            }
            assert_eq!(count, kept.messages);
        }
    }
}

/// A file with three segments.
fn written() -> (FileName, Vec<u8>) {
    let (mut shelf, _) = Shelf::open(Simulated::default(), CONFIG, 7).expect("it opens");
    let owner = Owner {
        topic: "t".parse().expect("valid"),
        channel: Some("c".parse().expect("valid")),
    };
    for segment in 1..=3 {
        let messages = BODIES.iter().enumerate().map(|(index, body)| Message {
            id: segment * 100 + index as u64,
            attempts: 0,
            has_paid: false,
            has_waited: false,
            half_rtt_us: 0,
            flow: 0,
            stamps: Stamps::default(),
            body,
        });
        shelf.put(&owner, segment, messages).expect("there is room");
    }
    shelf.end().expect("synced");
    let mut disk = shelf.into_volume();
    let name = disk.list().expect("listed").remove(0);
    let bytes = disk.bytes_mut(&name).expect("there").clone();
    (name.parse().expect("a name of ours"), bytes)
}
