//! A store across restarts, crashes, other processes and damage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::StorageBackend;
use serde_json::json;

use super::*;

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("srtm-store-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    folder
}

fn change(key: &str, value: Option<Value>) -> Change {
    Change {
        table: Table::Topics,
        key: key.to_owned(),
        value,
    }
}

#[test]
fn what_was_committed_is_there_after_reopening() {
    let folder = folder("reopen");
    let path = folder.join("controller.redb");
    let mut store = RedbStore::open(&path).expect("a new store");
    assert_eq!(store.load(Table::Topics), Ok(Vec::new()));
    let about = std::fs::metadata(&path).expect("there");
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
    let first = vec![
        change("b", Some(json!({"x": 1}))),
        change("a", Some(json!([2]))),
        change("c", Some(json!(3))),
    ];
    store.commit(&first).expect("room");
    store.commit(&[change("c", None)]).expect("room");
    let busy = RedbStore::open(&path).expect_err("open already");
    assert!(busy.to_string().contains("another process"), "{busy}");
    drop(store);
    let store = RedbStore::open(&path).expect("an old store");
    let expected = vec![
        (String::from("a"), json!([2])),
        (String::from("b"), json!({"x": 1})),
    ];
    assert_eq!(store.load(Table::Topics), Ok(expected));
    assert_eq!(store.load(Table::Brokers), Ok(Vec::new()));
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn a_foreign_file_is_refused_and_kept() {
    let folder = folder("foreign");
    let path = folder.join("controller.redb");
    let foreign = b"these are not the records that you are looking for".repeat(100);
    std::fs::write(&path, &foreign).expect("ours");
    let error = RedbStore::open(&path).expect_err("no store");
    assert!(
        error
            .to_string()
            .contains("controller.redb cannot be opened"),
        "{error}"
    );
    assert_eq!(std::fs::read(&path).expect("still there"), foreign);
    let below = RedbStore::open(&path.join("below/it.redb")).expect_err("no folder");
    assert!(
        below
            .to_string()
            .contains("controller.redb/below cannot be made"),
        "{below}"
    );
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn folders_are_made() {
    let folder = folder("folders");
    let path = folder.join("not/there/yet/controller.redb");
    let mut store = RedbStore::open(&path).expect("a new store");
    let changes = vec![change("a", Some(json!(1)))];
    store.commit(&changes).expect("room");
    assert!(path.is_file());
    std::fs::remove_dir_all(folder).expect("ours");
}

/// What a crash leaves is what is in the file at that moment: commits are in it before they return.
#[test]
fn a_crash_loses_no_commit() {
    let folder = folder("crash");
    let path = folder.join("controller.redb");
    let mut store = RedbStore::open(&path).expect("a new store");
    for number in 0..20 {
        let key = format!("t{number}");
        store
            .commit(&[change(&key, Some(json!(number)))])
            .expect("room");
        let image = folder.join(format!("image{number}.redb"));
        std::fs::copy(&path, &image).expect("room");
        let found = RedbStore::open(&image)
            .expect("a store")
            .load(Table::Topics);
        assert_eq!(found, store.load(Table::Topics), "after commit {number}");
    }
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn a_commit_that_fails_half_way_changes_nothing() {
    let folder = folder("whole");
    let path = folder.join("controller.redb");
    let spoilt: TableDefinition<u64, u64> = TableDefinition::new("brokers");
    let database = Database::create(&path).expect("a new file");
    let write = database.begin_write().expect("ours");
    write
        .open_table(spoilt)
        .expect("a table")
        .insert(1, 1)
        .expect("room");
    write.commit().expect("room");
    drop(database);

    let mut store = RedbStore::open(&path).expect("a store");
    store.commit(&[change("a", Some(json!(1)))]).expect("room");
    let broker = Change {
        table: Table::Brokers,
        key: String::from("b1"),
        value: Some(json!({})),
    };
    let changes = vec![change("a", None), change("b", Some(json!(2))), broker];
    let error = store.commit(&changes).expect_err("not that table's type");
    assert!(
        error.to_string().contains("writing") && error.to_string().contains("controller.redb"),
        "{error}"
    );
    assert_eq!(
        store.load(Table::Topics),
        Ok(vec![(String::from("a"), json!(1))])
    );
    store
        .commit(&[change("a", Some(json!(3)))])
        .expect("goes on");
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn only_its_owner_may_read_it_and_an_empty_one_is_not_begun_anew() {
    let folder = folder("empty");
    let path = folder.join("controller.redb");
    let mode = || fs::metadata(&path).expect("there").permissions().mode() & 0o777;
    drop(RedbStore::open(&path).expect("a new store"));
    assert_eq!(mode(), 0o600);
    let beside: Vec<_> = fs::read_dir(&folder).expect("ours").collect();
    assert_eq!(beside.len(), 1, "{beside:?}");
    fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("ours");
    drop(RedbStore::open(&path).expect("an old store"));
    assert_eq!(mode(), 0o600);
    fs::write(&path, b"").expect("ours");
    let error = RedbStore::open(&path).expect_err("it is lost").to_string();
    for said in [
        "controller.redb",
        "it is empty",
        "from a copy",
        "move it away",
    ] {
        assert!(error.contains(said), "{said}: {error}");
    }
    assert_eq!(fs::read(&path).expect("still there"), b"");
    std::fs::remove_dir_all(folder).expect("ours");
}

/// A file on a medium that may be full.
#[derive(Debug)]
struct Medium {
    file: FileBackend,
    is_full: Arc<AtomicBool>,
}

impl Medium {
    fn room(&self) -> io::Result<()> {
        match self.is_full.load(Ordering::Relaxed) {
            true => Err(io::Error::from(io::ErrorKind::StorageFull)),
            false => Ok(()),
        }
    }
}

impl StorageBackend for Medium {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.room()?;
        self.file.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.room()?;
        self.file.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.room()?;
        self.file.write(offset, data)
    }
    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

/// Opens files on such a medium.
fn opener(is_full: &Arc<AtomicBool>) -> Opener {
    let shared = Arc::clone(is_full);
    Box::new(move |path: &Path| {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let (file, is_full) = (FileBackend::new(file)?, Arc::clone(&shared));
        builder().create_with_backend(Medium { file, is_full })
    })
}

/// Another controller is told so.
fn is_open_elsewhere(path: &Path) {
    let refused = RedbStore::open(path).expect_err("it is held");
    assert!(
        refused.to_string().contains("is open in another process"),
        "{refused}"
    );
}

/// Commits fail while there is no room, and succeed again afterwards; what was kept stays.
#[test]
fn a_full_medium_loses_nothing_and_is_written_again_once_there_is_room() {
    let folder = folder("full");
    let path = folder.join("controller.redb");
    make(&path).expect("room");
    let is_full = Arc::new(AtomicBool::new(false));
    let mut store = RedbStore::open_with(&path, opener(&is_full)).expect("a store");
    let mut expected = Vec::new();
    for round in 0..3 {
        let (key, lost) = (format!("kept{round}"), change("lost", Some(json!(round))));
        store
            .commit(&[change(&key, Some(json!(round)))])
            .expect("room");
        expected.push((key, json!(round)));
        is_full.store(true, Ordering::Relaxed);
        for _ in 0..2 {
            let error = store.commit(std::slice::from_ref(&lost)).expect_err("full");
            assert!(error.to_string().contains("controller.redb"), "{error}");
            is_open_elsewhere(&path);
        }
        is_full.store(false, Ordering::Relaxed);
    }
    store.commit(&[]).expect("room");
    assert_eq!(store.load(Table::Topics), Ok(expected));
    std::fs::remove_dir_all(folder).expect("ours");
}

/// A store that cannot be opened for want of room is read all the same, and written once there is room.
#[test]
fn on_a_full_medium_what_was_kept_is_read() {
    let folder = folder("begins-full");
    let path = folder.join("controller.redb");
    let mut store = RedbStore::open(&path).expect("a new store");
    store.commit(&[change("a", Some(json!(1)))]).expect("room");
    drop(store);
    let before = fs::read(&path).expect("ours");
    let is_full = Arc::new(AtomicBool::new(true));
    let mut store = RedbStore::open_with(&path, opener(&is_full)).expect("readable");
    let first = (String::from("a"), json!(1));
    for _ in 0..2 {
        assert_eq!(store.load(Table::Topics), Ok(vec![first.clone()]));
        let error = store
            .commit(&[change("b", Some(json!(2)))])
            .expect_err("full");
        assert!(error.to_string().contains("make room"), "{error}");
        is_open_elsewhere(&path);
    }
    assert!(
        before == fs::read(&path).expect("ours"),
        "the file was changed"
    );
    is_full.store(false, Ordering::Relaxed);
    store.commit(&[change("c", Some(json!(3)))]).expect("room");
    let both = vec![first, (String::from("c"), json!(3))];
    assert_eq!(store.load(Table::Topics), Ok(both.clone()));
    drop(store);
    let store = RedbStore::open(&path).expect("an old store");
    assert_eq!(store.load(Table::Topics), Ok(both));
    std::fs::remove_dir_all(folder).expect("ours");
}

/// Damaged anywhere, a file is opened and right, or refused by name and left as it is.
#[test]
fn damage_is_told_and_not_made_worse() {
    let folder = folder("damage");
    let path = folder.join("controller.redb");
    let mut store = RedbStore::open(&path).expect("a new store");
    for number in 0..50 {
        let key = format!("t{number:02}");
        store
            .commit(&[change(&key, Some(json!({"rate": number})))])
            .expect("room");
    }
    let records = store.load(Table::Topics).expect("readable");
    drop(store);
    let whole = std::fs::read(&path).expect("ours");
    let (mut told, mut right) = (0, 0);
    let mut check = |what: &str, damaged: &[u8]| {
        std::fs::write(&path, damaged).expect("ours");
        let outcome = RedbStore::open(&path).and_then(|store| store.load(Table::Topics));
        match outcome {
            Ok(found) => {
                right += 1;
                assert_eq!(found, records, "{what}");
            }
            Err(error) => {
                told += 1;
                assert!(
                    error.to_string().contains("controller.redb"),
                    "{what}: {error}"
                );
                let left = std::fs::read(&path).expect("still there");
                assert!(left == damaged, "{what}: {error}, and the file was changed");
            }
        }
    };
    for cut in [0, 1, 9, 100, 4096, whole.len() / 2, whole.len() - 1] {
        check(&format!("cut at {cut}"), &whole[..cut]);
    }
    for at in (0..whole.len()).step_by(whole.len() / 200) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        check(&format!("flipped at {at}"), &damaged);
    }
    assert!(told > 0 && right > 0, "{told} told, {right} right");
    std::fs::remove_dir_all(folder).expect("ours");
}
