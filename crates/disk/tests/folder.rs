//! A folder of the system: one process at a time, and no file name made of a stranger's words.

mod support;

use std::os::unix::fs::PermissionsExt;

use disk::{DiskError, FileName, Folder, LOCK_NAME, Salt, Shelf, ShelfConfig};
use support::{CONFIG, Sample, TestFolder, are, owner, put};

#[test]
fn a_second_process_is_refused_with_a_remedy() {
    let folder = TestFolder::new("lock");
    let held = Folder::open(folder.path()).expect("it is free");
    let refused = Folder::open(folder.path()).expect_err("it is not");
    assert!(matches!(refused, DiskError::InUse(_)), "{refused}");
    let said = refused.to_string();
    assert!(
        said.contains("in use by another process; stop that process"),
        "{said}"
    );
    drop(held);
    Folder::open(folder.path()).expect("it is free again");
}

#[test]
fn files_are_their_owners_business_and_go_with_their_last_segment() {
    let folder = TestFolder::new("files");
    let open = || {
        let volume = Folder::open(folder.path()).expect("it is free");
        Shelf::open(volume, CONFIG, 9).expect("it opens").0
    };
    let files = || {
        let entries = std::fs::read_dir(folder.path()).expect("a folder");
        let paths = entries.map(|entry| entry.expect("readable").path());
        paths
            .filter(|path| !path.ends_with(LOCK_NAME))
            .collect::<Vec<_>>()
    };
    let mut shelf = open();
    let samples: Vec<Sample> = (1..=4).map(|id| Sample::new(id, 1000)).collect();
    for number in 1..=3 {
        put(&mut shelf, &owner(1), number, &samples).expect("there is room");
    }
    assert_eq!(
        files().len(),
        3,
        "a file is as long as it may be with one segment"
    );
    for file in files() {
        let mode = std::fs::metadata(&file)
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let name = file
            .file_name()
            .and_then(|name| name.to_str())
            .expect("text");
        let parsed: FileName = name.parse().expect("a name of ours");
        assert_eq!(parsed.to_string(), name);
    }
    drop(shelf);
    let mut shelf = open();
    let numbers: Vec<u64> = shelf.segments(&owner(1)).map(|kept| kept.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    for number in 1..=3 {
        let contents = shelf.read(&owner(1), number).expect("there");
        assert!(are(contents.messages(), &samples));
        shelf.forget(&owner(1), number).expect("noted");
    }
    assert_eq!((files().len(), shelf.bytes()), (0, 0));
    put(&mut shelf, &owner(1), 4, &samples).expect("there is room");
    put(&mut shelf, &owner(2), 1, &samples).expect("there is room");
    shelf.forget_all(&owner(1));
    assert_eq!(files().len(), 1);
}

#[test]
fn names_have_one_form_and_others_are_left_alone() {
    let name = FileName {
        number: 1,
        salt: Salt(u64::MAX),
    };
    let text = "0000000000000001-ffffffffffffffff.segments";
    assert_eq!((name.to_string().as_str(), text.parse()), (text, Ok(name)));
    for other in [
        "",
        "lock",
        "1-2.segments",
        "+000000000000001-ffffffffffffffff.segments",
        "0000000000000001-FFFFFFFFFFFFFFFF.segments",
        "0000000000000001-ffffffffffffffff.segments~",
    ] {
        assert_eq!(other.parse::<FileName>(), Err(()), "{other}");
    }
}

#[test]
fn the_budget_is_of_all_files_and_comes_back_with_them() {
    let folder = TestFolder::new("budget");
    let volume = Folder::open(folder.path()).expect("it is free");
    let config = ShelfConfig {
        bytes_max: 8192,
        ..CONFIG
    };
    let (mut shelf, _) = Shelf::open(volume, config, 9).expect("it opens");
    let samples = [Sample::new(1, 3000)];
    put(&mut shelf, &owner(1), 1, &samples).expect("there is room");
    put(&mut shelf, &owner(2), 1, &samples).expect("there is room");
    let refused = put(&mut shelf, &owner(3), 1, &samples).expect_err("there is none");
    assert!(matches!(refused, DiskError::Budget(8192)), "{refused}");
    shelf.forget(&owner(1), 1).expect("noted");
    put(&mut shelf, &owner(3), 1, &samples).expect("there is room again");
    assert_eq!(shelf.files(), 2);
}
