//! Laws for any bytes in a segment file, shared by the fuzz targets and the smoke test on stable
//! Rust.
//!
//! It opens without a panic; the pieces of a scan cover the bytes without a gap; a segment has as
//! many messages as it says; and from a damaged file nothing comes out but what was written, in its
//! order.
#![allow(dead_code, reason = "each fuzz target uses one side")]

use disk::{
    FileName, Message, Owner, PREAMBLE_BYTES, Piece, Progress, QueuePiece, QueueRecords, Salt,
    Shelf, ShelfConfig, Simulated, Stamps, Step, Steps, Volume, scan,
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

/// Any bytes as what a log says of its messages: once as they are, once with small numbers and letters in them, so that more of
/// them are steps.
pub fn check_steps(input: &[u8]) {
    let likely: Vec<u8> = input
        .iter()
        .map(|&byte| if byte < 128 { byte % 12 } else { b'a' })
        .collect();
    for payload in [input, &likely] {
        let steps: Vec<Step> = Steps::of_payload(payload).collect();
        let mut written = Vec::new();
        for step in &steps {
            step.push_to(&mut written);
        }
        // Nothing is understood but what was written so, from the beginning on.
        assert_eq!(written, payload[..written.len()]);
        let cut = &payload[..payload.len() / 2];
        assert!(steps.starts_with(&Steps::of_payload(cut).collect::<Vec<_>>()));
    }
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

/// A file of a queue of nsqd whose records are short, and to which things were done as above: what is read of it covers it without a gap,
/// and bodies are bytes of it. The same bytes as a meta file and as a name are read or refused.
pub fn check_diskqueue(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let _ = (Progress::of_text(&text), disk::QueueFile::of_name(&text));
    let mut bytes = Vec::new();
    for body in BODIES {
        bytes.extend_from_slice(&(26 + body.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&[0; 10]);
        bytes.extend_from_slice(b"0123456789abcdef");
        bytes.extend_from_slice(body);
    }
    let edits = input.chunks_exact(2);
    let cut = edits
        .remainder()
        .iter()
        .map(|&byte| usize::from(byte))
        .sum();
    for edit in edits {
        let at = usize::from(edit[0]) % bytes.len();
        bytes[at] = edit[1];
    }
    bytes.truncate(bytes.len().saturating_sub(cut));
    for from in [0, bytes.len() / 3] {
        let mut records = QueueRecords::new(&bytes[from..], from as u64, bytes.len() as u64);
        let mut at = from;
        while let Some(piece) = records.read_next().expect("in memory") {
            match piece {
                QueuePiece::Message(message) => {
                    let end = at + 30 + message.body.len();
                    assert_eq!(bytes.get(at + 30..end), Some(message.body));
                    at = end;
                }
                QueuePiece::Damage { offset, bytes } => {
                    assert_eq!(offset, at as u64);
                    at += bytes as usize;
                }
            }
        }
        assert_eq!(at, bytes.len(), "it was read to its end");
    }
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
