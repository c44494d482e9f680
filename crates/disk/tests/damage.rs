//! Real files with flipped bits, cut or garbled: they always open, all damage is seen, and nothing
//! wrong comes out.

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use clock::below;
use disk::{Damage, Folder, Opened, Owner, Shelf, Simulated, Volume};
use support::{CONFIG, Sample, TestFolder, owner, put, some_of};

const ROUNDS: usize = 5000;

type Files = BTreeMap<String, Vec<u8>>;
type Samples = BTreeMap<(Owner, u64), Vec<Sample>>;

/// Some queues' segments in files of the system that were ended in order.
fn write(path: &Path) -> Samples {
    let folder = Folder::open(path).expect("it is free");
    let (mut shelf, _) = Shelf::open(folder, CONFIG, 5).expect("it opens");
    let mut kept = Samples::new();
    let mut id = 0;
    for segment in 1..=6 {
        for queue in 0..2 {
            let samples: Vec<Sample> = (0..3)
                .map(|index| {
                    id += 1;
                    Sample::new(id, (id as usize * 37 + index) % 300)
                })
                .collect();
            put(&mut shelf, &owner(queue), segment, &samples).expect("there is room");
            kept.insert((owner(queue), segment), samples);
        }
    }
    // One is gone: it stays gone, unless its mark is damaged.
    shelf.forget(&owner(0), 1).expect("marked");
    shelf.end().expect("synced");
    kept
}

fn written(name: &str) -> (Files, Samples) {
    let folder = TestFolder::new(name);
    let kept = write(folder.path());
    let mut volume = Folder::open(folder.path()).expect("it is free");
    let names = volume.list().expect("listed").into_iter();
    let mut files = Files::new();
    for name in names.filter(|name| name.ends_with(".segments")) {
        let bytes = std::fs::read(folder.path().join(&name)).expect("readable");
        files.insert(name, bytes);
    }
    assert!(files.len() > 2);
    (files, kept)
}

/// What was found of files.
struct Found {
    opened: Opened,
    /// Messages that are not there any more.
    lost: usize,
    /// How many files there are.
    files: usize,
}

fn look(files: &Files, kept: &Samples) -> Found {
    let disk = Simulated::with_files(files.clone());
    let (mut shelf, opened) = Shelf::open(disk, CONFIG, 5).expect("it opens");
    let mut found = 0;
    for (owner, segments) in &opened.owners {
        let in_order = |pair: &[disk::Kept]| pair[0].number < pair[1].number;
        assert!(segments.windows(2).all(in_order), "{segments:?}");
        for segment in segments {
            let samples = &kept[&(owner.clone(), segment.number)];
            let contents = shelf.read(owner, segment.number).expect("readable");
            let count = some_of(contents.messages(), samples).expect("as they were written");
            assert_eq!(count, segment.messages);
            found += count;
        }
    }
    let gone = kept[&(owner(0), 1)].len();
    let all: usize = kept.values().map(Vec::len).sum();
    Found {
        opened,
        lost: (all - gone).saturating_sub(found),
        files: shelf.volume_mut().list().expect("listed").len(),
    }
}

impl Found {
    fn is_seen(&self) -> bool {
        self.opened.reports.iter().any(|report| !report.is_clean())
    }
}

/// Has each of many rounds damage a file of its own choice.
fn damage(name: &str, mut round: impl FnMut(&mut dyn FnMut(u32) -> u32, (&Files, &Samples), &str)) {
    let (files, kept) = written(name);
    assert_eq!(look(&files, &kept).lost, 0);
    let names: Vec<&String> = files.keys().collect();
    let mut random = clock::stream(1, name);
    for _ in 0..ROUNDS {
        let mut draw = |bound: u32| below(&mut random, bound);
        let file = names[draw(names.len() as u32) as usize];
        round(&mut draw, (&files, &kept), file);
    }
}

fn with(files: &Files, file: &str, bytes: Vec<u8>) -> Files {
    let mut files = files.clone();
    files.insert(file.to_owned(), bytes);
    files
}

#[test]
fn a_flipped_bit_costs_the_record_that_it_hit() {
    damage("flips", |draw, (files, kept), file| {
        let mut bytes = files[file].clone();
        let bit = draw(bytes.len() as u32 * 8) as usize;
        bytes[bit / 8] ^= 1 << (bit % 8);
        let found = look(&with(files, file, bytes), kept);
        assert!(found.is_seen(), "bit {bit} of {file} went unseen");
        assert!(
            found.lost <= 1,
            "bit {bit} of {file} cost {} messages",
            found.lost
        );
        let at = (bit / 8) as u64;
        let is_there =
            |damage: &Damage| (damage.offset..damage.offset + damage.bytes).contains(&at);
        let mut reports = found.opened.reports.iter();
        let told = reports.any(|report| report.is_unended || report.damages.iter().any(is_there));
        assert!(told, "byte {at} of {file}: {:?}", found.opened.reports);
    });
}

#[test]
fn what_is_cut_costs_what_was_behind_and_is_seen() {
    damage("cuts", |draw, (files, kept), file| {
        let whole = &files[file];
        let length = draw(whole.len() as u32) as usize;
        let found = look(&with(files, file, whole[..length].to_vec()), kept);
        let is_gone = found.files < files.len();
        let unended = found.opened.reports.iter().any(|report| report.is_unended);
        assert!(
            unended || is_gone && length == 0,
            "{length} bytes of {file} went unseen"
        );
        if length + disk::RECORD_HEAD_BYTES >= whole.len() {
            assert_eq!(
                found.lost, 0,
                "{length} bytes of {file} are all but its end"
            );
        }
    });
}

#[test]
fn whatever_is_done_to_a_file_it_opens_and_nothing_wrong_comes_out() {
    damage("garbling", |draw, (files, kept), file| {
        let mut bytes = files[file].clone();
        for _ in 0..=draw(4) {
            garble(&mut bytes, draw);
        }
        if bytes != files[file] {
            let found = look(&with(files, file, bytes), kept);
            let is_gone = found.files < files.len();
            assert!(found.is_seen() || is_gone, "garbled {file} went unseen");
        }
    });
}

/// Fills, moves, takes out or doubles a piece.
fn garble(bytes: &mut Vec<u8>, draw: &mut dyn FnMut(u32) -> u32) {
    let Some(length) = Some(bytes.len() as u32).filter(|&length| length > 0) else {
        return;
    };
    let from = draw(length) as usize;
    let to = (from + draw(600) as usize).min(bytes.len());
    match draw(4) {
        0 => bytes[from..to].fill(draw(2) as u8 * 255),
        1 => bytes.copy_within(from..to, draw(length - (to - from) as u32 + 1) as usize),
        2 => drop(bytes.drain(from..to)),
        _ => {
            let piece = bytes[from..to].to_vec();
            bytes.splice(from..from, piece);
        }
    }
}
