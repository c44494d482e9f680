//! nsqd's folders, taken over at once, after a crash at each step, damaged, and a second time.

use std::collections::BTreeMap;
use std::fs;

use disk::{Folder as SegmentFolder, Shelf, ShelfConfig};

use super::*;

/// A data folder that vanishes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("srtm-takeover-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("folder");
        Folder(path)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.0.join(name), bytes).expect("written");
    }

    fn config(&self) -> BacklogConfig {
        BacklogConfig {
            segment_messages: 4,
            ..BacklogConfig::within(self.0.join("srtm.queues"))
        }
    }

    fn places(&self) -> Places {
        Places {
            data: self.0.clone(),
            segments: self.config().folder,
        }
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("folder");
        let mut names: Vec<String> = entries
            .map(|entry| {
                entry
                    .expect("entry")
                    .file_name()
                    .into_string()
                    .expect("text")
            })
            .collect();
        names.sort();
        names
    }

    /// What a start takes over, and the catalog then.
    fn take_over(&self) -> Result<(Option<TakenOver>, Catalog), BrokerError> {
        let mut file = CatalogFile::open(&self.0)?;
        let taken = take_over(&self.0, &mut file, Some(&self.config()))?;
        Ok((taken, file.catalog().clone()))
    }

    /// By queue, the numbers in the bodies with attempts and times, in order.
    fn messages(&self) -> BTreeMap<String, Vec<(u32, u16, i64)>> {
        let config = ShelfConfig {
            file_bytes_max: 1 << 20,
            bytes_max: u64::MAX,
        };
        let folder = SegmentFolder::open(&self.config().folder).expect("free");
        let (mut shelf, opened) = Shelf::open(folder, config, 1).expect("opens");
        assert_eq!(opened.reports, Vec::new());
        let mut queues = BTreeMap::new();
        for (owner, segments) in opened.owners {
            let messages: &mut Vec<_> = queues.entry(owner.to_string()).or_default();
            for segment in segments {
                let contents = shelf.read(&owner, segment.number).expect("there");
                messages.extend(contents.messages().map(|each| {
                    let number = u32::from_be_bytes(each.body.try_into().expect("4 bytes"));
                    assert_eq!(each.id, u64::from(number) + 1);
                    (number, each.attempts, each.stamps.published_ns)
                }));
            }
        }
        queues
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Messages as nsqd writes them.
fn records(numbers: std::ops::Range<u32>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in numbers {
        bytes.extend_from_slice(&(26_u32 + 4).to_be_bytes());
        bytes.extend_from_slice(&(i64::from(number) + 1_000).to_be_bytes());
        bytes.extend_from_slice(&(number as u16 % 3).to_be_bytes());
        bytes.extend_from_slice(format!("{:016x}", number + 1).as_bytes());
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    bytes
}

const RECORD_BYTES: usize = 4 + 26 + 4;

fn expected(numbers: impl Iterator<Item = u32>) -> Vec<(u32, u16, i64)> {
    let of = |number: u32| (number, number as u16 % 3, i64::from(number) + 1_000);
    numbers.map(of).collect()
}

/// A folder of nsqd's with a topic's queue, and a channel's over two files, of which three messages were read.
fn left_by_nsqd(name: &str) -> Folder {
    let folder = Folder::new(name);
    let channels = r#"[{"name":"c","paused":true},{"name":"idle"}]"#;
    folder.write(
        "nsqd.dat",
        format!(r#"{{"topics":[{{"name":"t","paused":false,"channels":{channels}}},{{"name":"u","paused":true,"channels":null}}],"version":"1.3.0"}}"#),
    );
    folder.write(
        "t.diskqueue.meta.dat",
        format!("5\n0,0\n0,{}\n", 5 * RECORD_BYTES),
    );
    folder.write("t.diskqueue.000000.dat", records(0..5));
    let read = 3 * RECORD_BYTES;
    folder.write(
        "t:c.diskqueue.meta.dat",
        format!("17\n2,{read}\n3,{}\n", 10 * RECORD_BYTES),
    );
    folder.write("t:c.diskqueue.000001.dat", b"read, and left behind");
    folder.write("t:c.diskqueue.000002.dat", records(0..10));
    folder.write("t:c.diskqueue.000003.dat", records(10..20));
    // Its topic is not in `nsqd.dat`.
    folder.write("new.diskqueue.meta.dat", "0\n0,0\n0,0\n");
    folder
}

fn assert_taken(folder: &Folder, catalog: &Catalog) {
    let messages = folder.messages();
    let names: Vec<&String> = messages.keys().collect();
    assert_eq!(names, ["topic t", "topic t, channel c"]);
    assert_eq!(messages["topic t"], expected(0..5));
    assert_eq!(messages["topic t, channel c"], expected(3..20));
    let topics = catalog.topics.iter().map(|topic| {
        let channels = topic.channels.iter();
        let channels = channels.map(|channel| (channel.name.as_str(), channel.paused));
        (topic.name.as_str(), topic.paused, channels.collect())
    });
    let expected = [
        ("new", false, vec![]),
        ("t", false, vec![("c", true), ("idle", false)]),
        ("u", true, vec![]),
    ];
    assert_eq!(topics.collect::<Vec<_>>(), expected);
    assert!(
        !folder
            .names()
            .iter()
            .any(|name| name.contains("diskqueue") || name == "nsqd.dat")
    );
    assert_eq!(
        fs::read_dir(folder.places().aside())
            .expect("folder")
            .count(),
        8
    );
}

#[test]
fn everything_is_taken_over_once() {
    let folder = left_by_nsqd("once");
    let (taken, catalog) = folder.take_over().expect("taken");
    let all = TakenOver {
        messages: 22,
        queues: 2,
        topics: 3,
        damages: 0,
    };
    assert_eq!(taken, Some(all));
    assert_taken(&folder, &catalog);
    let (taken, catalog) = folder.take_over().expect("nothing is left");
    assert_eq!(taken, None);
    assert_taken(&folder, &catalog);
}

#[test]
fn a_crash_at_any_step_neither_loses_nor_doubles() {
    // So many steps are made, then the broker is gone.
    for steps in 0..6 {
        let folder = left_by_nsqd(&format!("crash-{steps}"));
        let (places, found) = (folder.places(), Found::within(&folder.0).expect("listed"));
        if steps > 0 {
            copying::copy(&places, &found, &folder.config(), 1).expect("copied");
        }
        if steps > 1 {
            let mut file = CatalogFile::open(&folder.0).expect("free");
            let topics = found.topics().expect("named");
            let catalog = found::joined(file.catalog(), topics);
            file.save(catalog).expect("saved");
        }
        if steps > 2 {
            moving::commit(&places).expect("renamed");
        }
        if steps > 3 {
            fs::create_dir(places.aside()).expect("made");
            for name in ["nsqd.dat", "t:c.diskqueue.000002.dat"] {
                fs::rename(found.path(name), places.aside().join(name)).expect("moved");
            }
        }
        if steps > 4 {
            for name in &found.names {
                // Some are moved already.
                let _ = fs::rename(found.path(name), places.aside().join(name));
            }
            let entries = fs::read_dir(places.taken()).expect("folder");
            let mut names = entries.map(|entry| entry.expect("entry").file_name());
            let name = names.find(|name| name != "lock").expect("a segment file");
            fs::rename(places.taken().join(&name), places.segments.join(&name)).expect("moved");
        }
        let (_, catalog) = folder.take_over().expect("goes on");
        assert_taken(&folder, &catalog);
        let (taken, _) = folder.take_over().expect("nothing is left");
        assert_eq!(taken, None, "{steps}");
    }
}

#[test]
fn damage_costs_what_cannot_be_read_and_is_counted() {
    let folder = left_by_nsqd("damaged");
    let mut bytes = records(10..20);
    // The second record's id, and the sixth's length.
    bytes[RECORD_BYTES + 20] = b'?';
    bytes[5 * RECORD_BYTES] = 0x80;
    folder.write("t:c.diskqueue.000003.dat", bytes);
    folder.write("t.diskqueue.meta.dat", "5\n0");
    let (taken, _) = folder.take_over().expect("taken");
    let taken = taken.expect("something");
    assert_eq!((taken.messages, taken.damages), (5 + 7 + 4, 3));
    let messages = folder.messages();
    assert_eq!(messages["topic t"], expected(0..5));
    let read = (3..15).filter(|&number| number != 11);
    assert_eq!(messages["topic t, channel c"], expected(read));
}

#[test]
fn what_comes_later_is_put_behind() {
    let folder = left_by_nsqd("again");
    folder.take_over().expect("taken");
    // Somebody went back to nsqd for a while.
    folder.write("t.diskqueue.meta.dat", "3\n0,0\n0,0\n");
    folder.write("t.diskqueue.000000.dat", records(50..53));
    folder.take_over().expect("taken");
    let messages = folder.messages();
    assert_eq!(messages["topic t"], expected((0..5).chain(50..53)));
    let aside = folder.places().aside();
    let name = "t.diskqueue.000000.dat";
    assert_eq!(fs::read(aside.join(name)).expect("kept"), records(0..5));
    let again = aside.join(format!("{name}.1"));
    assert_eq!(fs::read(again).expect("kept"), records(50..53));
}

#[test]
fn messages_of_a_durable_topic_are_refused_and_left() {
    let folder = left_by_nsqd("durable");
    let mut file = CatalogFile::open(&folder.0).expect("free");
    let mut catalog = found::joined(
        file.catalog(),
        Found::within(&folder.0)
            .expect("listed")
            .topics()
            .expect("named"),
    );
    for topic in &mut catalog.topics {
        // Without messages it is as good as any other.
        topic.contract.durability = match topic.name.as_str() {
            "t" => link::Durability::Memory,
            _ => link::Durability::Disk,
        };
    }
    file.save(catalog.clone()).expect("saved");
    drop(file);
    let before = folder.names();
    catalog.topics[1].contract.durability = link::Durability::Fsync;
    let mut file = CatalogFile::open(&folder.0).expect("free");
    file.save(catalog).expect("saved");
    drop(file);
    let refused = folder.take_over().expect_err("it has messages").to_string();
    assert!(
        refused.contains("topic t is durable here") && refused.contains("move t.diskqueue.*"),
        "{refused}"
    );
    assert!(before.iter().all(|name| folder.names().contains(name)));
}

#[test]
fn a_start_that_cannot_take_over_changes_nothing() {
    let folder = left_by_nsqd("refused");
    let before = folder.names();
    let mut file = CatalogFile::open(&folder.0).expect("free");
    let refused = take_over(&folder.0, &mut file, None)
        .expect_err("no place")
        .to_string();
    assert!(refused.contains("allow a --disk-budget"), "{refused}");
    drop(file);
    // nsqd runs.
    let lock = fs::File::open(&folder.0).expect("folder");
    lock.try_lock().expect("free");
    let refused = folder.take_over().expect_err("in use").to_string();
    assert!(
        refused.contains("nsqd uses this data folder; stop it"),
        "{refused}"
    );
    drop(lock);
    folder.write("nsqd.dat", "{\"topics\": [");
    let refused = folder.take_over().expect_err("damaged").to_string();
    assert!(
        refused.contains("nsqd.dat") && refused.contains("move it away"),
        "{refused}"
    );
    let after = folder.names();
    assert!(before.iter().all(|name| after.contains(name)), "{after:?}");
    assert!(!folder.places().aside().exists());
    // Nothing of nsqd's is nothing to do, with a place for messages or without.
    let empty = Folder::new("empty");
    let mut file = CatalogFile::open(&empty.0).expect("free");
    for config in [None, Some(&empty.config())] {
        assert_eq!(
            take_over(&empty.0, &mut file, config).expect("nothing"),
            None
        );
    }
}
