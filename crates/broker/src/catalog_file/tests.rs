//! Round trips over real files: what is kept, what is refused, what a restart finds.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use kernel::CpuShare;

use super::*;
use crate::handle::DeclaredContract;
use crate::stats::CatalogChannel;
use crate::{BacklogConfig, Broker, Config, Operation};

/// A folder that vanishes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("srtm-catalog-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }

    fn write(&self, text: &str) {
        fs::create_dir_all(&self.0).expect("folder");
        fs::write(self.0.join(FILE_NAME), text).expect("file");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn share(value: f64) -> Option<CpuShare> {
    Some(CpuShare::new(value).expect("valid"))
}

fn catalog() -> Catalog {
    let limit = limit::Limit::messages(10.5, 2.0).expect("valid");
    let channels = vec![CatalogChannel {
        name: "c".into(),
        paused: true,
    }];
    Catalog {
        topics: vec![
            CatalogTopic {
                name: "..".into(),
                paused: true,
                channels,
                contract: Contract {
                    limit: Some(limit),
                    cpu_share: share(0.25),
                    on_full: Some(link::OnFull::Block),
                    durability: link::Durability::Disk,
                },
            },
            CatalogTopic {
                name: "free".into(),
                ..CatalogTopic::default()
            },
            CatalogTopic {
                name: "t".into(),
                contract: Contract {
                    cpu_share: share(0.7),
                    ..Contract::default()
                },
                ..CatalogTopic::default()
            },
        ],
    }
}

#[test]
fn what_was_saved_is_read_back() {
    let folder = Folder::new("round-trip");
    let mut file = CatalogFile::open(&folder.0).expect("empty folder");
    assert_eq!(file.catalog(), &Catalog::default());
    file.save(catalog()).expect("saved");
    drop(file);
    let file = CatalogFile::open(&folder.0).expect("readable");
    assert_eq!(file.catalog(), &catalog());
    let text = fs::read_to_string(folder.0.join(FILE_NAME)).expect("file");
    assert_eq!(text.matches("\"cpu_share\": ").count(), 2, "{text}");
    assert!(text.contains("\"cpu_share\": 0.25"), "{text}");
    let mode = fs::metadata(folder.0.join(FILE_NAME))
        .expect("file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600, "nobody else reads it");
    let mut names: Vec<_> = fs::read_dir(&folder.0)
        .expect("folder")
        .map(|entry| entry.expect("entry").file_name())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [FILE_NAME, "srtm.lock"],
        "no temporary file and no file named after a topic"
    );
}

#[test]
fn broken_files_are_refused_with_their_line_and_left_alone() {
    let cases = [
        ("", "line 1: the file is empty"),
        ("\n", "line 1: the file is empty"),
        (
            "{\"version\": 1,\n \"topics\": [{\"name\": \"t\"},\n {\"name\": \"t\"}]}",
            "line 3: topic t is named twice",
        ),
        (
            "{\"version\": 1, \"topics\": [{\"name\": \"t\", \"channels\": [\n{\"name\": \"c\"},\n{\"name\": \"c\"}]}]}",
            "line 3: channel c of topic t is named twice",
        ),
        (
            "{\"version\": 1, \"topics\": [{\"name\": \"t\", \"name\": \"u\"}]}",
            "duplicate field `name`",
        ),
        ("{\n \"version\": 1,\n \"topics\": [\n", "line 4"),
        ("{\"version\": 2, \"topics\": []}", "version 2 is not 1"),
        (
            "{\"version\": 1,\n \"topics\": [\n  {\"name\": \"a b\"}]}",
            "line 3",
        ),
        (
            "{\"version\": 1,\n \"topics\": [{\"name\": \"t\",\n \"channels\": [{\"name\": \"\"}]}]}",
            "line 3",
        ),
        (
            "{\"version\": 1,\n \"topics\": [{\"name\": \"t\",\n \"limit\": {\"rate\": 0, \"burst\": 1}}]}",
            "line 3: topic t: limit.rate: rate 0 is out of range",
        ),
        (
            "{\"version\": 1,\n \"topics\": [{\"name\": \"a\", \"cpu_share\": 0.5}, {\n  \"name\": \"t\",\n  \"cpu_share\": 1.5\n }\n]}",
            "line 4: topic t: cpu_share: a share of 1.5",
        ),
        (
            "{\"version\": 1,\n \"topics\": [\n  {\"cpu_share\": \"0.2\",\n   \"name\": \"t\"}]}",
            "line 3: topic t: cpu_share: invalid type: string \"0.2\"",
        ),
        ("{\"version\": 1, \"topics\": []}\n}", "line 2"),
    ];
    for (index, (text, expected)) in cases.into_iter().enumerate() {
        let folder = Folder::new(&format!("broken-{index}"));
        folder.write(text);
        let error = CatalogFile::open(&folder.0).expect_err(text).to_string();
        assert!(
            error.contains(expected) && error.contains(FILE_NAME),
            "{text:?}: {error}"
        );
        assert!(error.contains("move it away"), "{text:?}: {error}");
        assert_eq!(
            fs::read_to_string(folder.0.join(FILE_NAME)).expect("file"),
            text
        );
    }
}

#[test]
fn a_folder_serves_one_broker_at_a_time() {
    let folder = Folder::new("lock");
    let first = CatalogFile::open(&folder.0).expect("free");
    let error = CatalogFile::open(&folder.0)
        .expect_err("in use")
        .to_string();
    assert!(error.contains("another broker"), "{error}");
    drop(first);
    CatalogFile::open(&folder.0).expect("free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_kept_and_restored_by_the_next_broker() {
    let folder = Folder::new("restart");
    let config = Config {
        tcp_address: ([127, 0, 0, 1], 0).into(),
        threads: 2,
        // One of the topics is durable.
        backlog: Some(BacklogConfig::within(folder.0.join("queues"))),
        ..Config::default()
    };
    let broker = Broker::start(config.clone()).expect("starts");
    let handle = broker.handle();
    let file = CatalogFile::open(&folder.0).expect("free");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    handle.keep_in(file).await;
    let keeper = tokio::spawn(keep(handle.clone(), async {
        let _ = stopped.await;
    }));
    let expected = catalog();
    let limited: wire::TopicName = "..".parse().expect("valid");
    handle
        .set_contract(limited.clone(), expected.topics[0].contract)
        .await
        .expect("set");
    handle
        .topic(limited.clone(), Operation::Pause)
        .await
        .expect("paused");
    for operation in [Operation::Create, Operation::Pause] {
        let channel = "c".parse().expect("valid");
        handle
            .channel(limited.clone(), channel, operation)
            .await
            .expect("done");
    }
    handle
        .topic("free".parse().expect("valid"), Operation::Create)
        .await
        .expect("created");
    handle
        .topic("gone#ephemeral".parse().expect("valid"), Operation::Create)
        .await
        .expect("created");
    for topic in &expected.topics {
        let name = topic.name.parse().expect("valid");
        let set = handle.set_contract(name, topic.contract).await;
        set.expect("set");
    }
    let deleted = "deleted".parse::<wire::TopicName>().expect("valid");
    for operation in [Operation::Create, Operation::Delete] {
        let done = handle.topic(deleted.clone(), operation).await;
        done.expect("done");
        let written = handle.kept.wait_until_written(&handle.changed).await;
        written.expect("written");
        let text = std::fs::read_to_string(folder.0.join("srtm.catalog.json"));
        let is_there = text.expect("there").contains("\"deleted\"");
        assert_eq!(is_there, operation == Operation::Create);
    }
    stop.send(()).expect("still keeping");
    keeper.await.expect("ends");
    let ended = handle.kept.wait_until_written(&handle.changed).await;
    assert!(matches!(ended, Err(BrokerError::Exiting)));
    broker.stop();

    let file = CatalogFile::open(&folder.0).expect("readable");
    assert_eq!(file.catalog(), &expected);
    let broker = Broker::start(config).expect("starts");
    file.restore(&broker.handle()).await.expect("restored");
    let restored = broker.handle().catalog().await;
    assert_eq!(restored.expect("answers"), expected);
    broker.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_that_fits_no_more_does_not_stop_the_start() {
    let folder = Folder::new("fewer-threads");
    let topics = "[{\"name\": \"a\", \"cpu_share\": 0.75}, {\"name\": \"b\", \"cpu_share\": 0.5}]";
    folder.write(&format!("{{\"version\": 1, \"topics\": {topics}}}"));
    let file = CatalogFile::open(&folder.0).expect("each is valid");
    let broker = Broker::start(Config {
        tcp_address: ([127, 0, 0, 1], 0).into(),
        threads: 1,
        ..Config::default()
    });
    let broker = broker.expect("starts");
    file.restore(&broker.handle()).await.expect("restored");
    let mut expected = file.catalog().clone();
    expected.topics[1].contract.cpu_share = None;
    let restored = broker.handle().catalog().await;
    assert_eq!(restored.expect("answers"), expected);
    broker.stop();
}

fn declared(topic: &str, rate: Option<f64>) -> DeclaredContract {
    let limit = rate.map(|rate| limit::Limit::messages(rate, 5.0).expect("valid"));
    DeclaredContract {
        maker: None,
        topic: topic.parse().expect("valid"),
        contract: limit.map(Contract::of_limit).unwrap_or_default(),
        number: None,
    }
}

async fn declare(broker: &Broker, topic: &str, rate: Option<f64>) -> Result<(), BrokerError> {
    let mut outcomes = broker.handle().declare(vec![declared(topic, rate)]).await;
    outcomes.pop().expect("one for each")
}

/// The rate of a topic's limit, as a broker that was killed now would find it in `folder`.
fn rate_in(folder: &Folder, topic: &str) -> Option<f64> {
    let text = fs::read_to_string(folder.0.join(FILE_NAME)).unwrap_or_default();
    let (mut catalog, generation) = document::parse(&text).unwrap_or_default();
    for entry in journal::read(&Unlocked(&folder.0), generation).expect("whole") {
        contracts::put_into(&mut catalog, &entry.name, entry.contract);
    }
    let topic = catalog.topics.iter().find(|each| each.name == topic)?;
    topic.contract.limit.map(|limit| limit.rate.get())
}

async fn rate_in_force(broker: &Broker, topic: &str) -> Option<f64> {
    let catalog = broker.handle().catalog().await.expect("answers");
    let topic = catalog.topics.iter().find(|each| each.name == topic)?;
    topic.contract.limit.map(|limit| limit.rate.get())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contract_is_in_the_file_before_it_is_confirmed() {
    let folder = Folder::new("durable");
    let broker = Broker::start(Config {
        tcp_address: ([127, 0, 0, 1], 0).into(),
        threads: 2,
        ..Config::default()
    });
    let broker = broker.expect("starts");
    let file = CatalogFile::open(&folder.0).expect("free");
    // Nothing writes by and by here, so what the file holds is what a contract waited for.
    broker.handle().keep_in(file).await;
    declare(&broker, "t", Some(10.0)).await.expect("kept");
    assert_eq!(rate_in(&folder, "t"), Some(10.0));
    declare(&broker, "t", Some(20.0)).await.expect("kept");
    declare(&broker, "u", Some(1.0)).await.expect("kept");
    assert_eq!(rate_in(&folder, "t"), Some(20.0));
    // What the reactors refuse is taken out again.
    let mut too_much = declared("t", Some(30.0));
    too_much.contract.cpu_share = share(0.6);
    let mut twice = vec![too_much.clone(), too_much];
    twice[1].topic = (0..)
        .map(|number| format!("v{number}"))
        .find(|name| crate::reactor::home_of(name, 2) == crate::reactor::home_of("t", 2))
        .and_then(|name| name.parse().ok())
        .expect("soon");
    let refused = twice[1].topic.to_string();
    let outcomes = broker.handle().declare(twice).await;
    assert!(
        matches!(&outcomes[..], [Ok(()), Err(BrokerError::Refused(_))]),
        "{outcomes:?}"
    );
    assert_eq!(rate_in(&folder, "t"), Some(30.0));
    assert_eq!(rate_in(&folder, &refused), None);
    // Where nothing can be written, nothing changes: not even for a moment, hence the file goes first.
    let in_the_way = [JOURNAL_NAME.to_owned(), format!("{FILE_NAME}.new")];
    let in_the_way = in_the_way.map(|name| folder.0.join(name));
    in_the_way
        .iter()
        .for_each(|path| fs::create_dir(path).expect("made"));
    for rate in [None, Some(99.0)] {
        let error = declare(&broker, "t", rate).await.expect_err("not kept");
        assert!(matches!(error, BrokerError::NotKept(_)), "{error}");
        let says = ["write the contract into", "create the file"];
        let says = says.map(|step| error.to_string().contains(step));
        assert!(says.contains(&true), "{error}");
        assert_eq!(rate_in_force(&broker, "t").await, Some(30.0));
    }
    declare(&broker, "u", Some(1.0))
        .await
        .expect("nothing is to be written");
    in_the_way
        .iter()
        .for_each(|path| fs::remove_dir(path).expect("removed"));
    assert_eq!(rate_in(&folder, "t"), Some(30.0));
    declare(&broker, "t", None).await.expect("kept");
    assert_eq!(
        (rate_in(&folder, "t"), rate_in_force(&broker, "t").await),
        (None, None)
    );
    broker.stop();
}

fn entry(name: &str, rate: f64) -> CatalogTopic {
    let limit = limit::Limit::messages(rate, 5.0).expect("valid");
    CatalogTopic {
        name: name.to_owned(),
        contract: Contract::of_limit(limit),
        ..CatalogTopic::default()
    }
}

/// A folder that another one holds, as a process that is started now would read it.
#[derive(Debug)]
struct Unlocked<'a>(&'a Path);

impl Volume for Unlocked<'_> {
    type File = fs::File;

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn read(&self, name: &str) -> io::Result<String> {
        fs::read_to_string(self.path(name))
    }

    fn create(&mut self, _: &str) -> io::Result<fs::File> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn rename(&mut self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn remove(&mut self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

#[test]
fn a_journal_cut_anywhere_gives_what_was_whole_in_it() {
    let folder = Folder::new("journal");
    let mut volume = DataFolder::open(&folder.0).expect("made");
    let entries: Vec<CatalogTopic> = (1..=4_u8)
        .map(|n| entry(&format!("t{n}"), n.into()))
        .collect();
    let mut journal = Journal::default();
    let written = journal.append(&mut volume, 7, &entries[..1]);
    written.expect("written");
    let written = journal.append(&mut volume, 7, &entries[1..]);
    written.expect("written");
    let path = folder.0.join(JOURNAL_NAME);
    let whole = fs::read(&path).expect("there");
    for bytes in 0..=whole.len() {
        fs::write(&path, &whole[..bytes]).expect("written");
        let lines = whole[..bytes].iter().filter(|byte| **byte == b'\n').count();
        let read = journal::read(&volume, 7).expect("whole lines");
        assert_eq!(
            read,
            entries[..lines.saturating_sub(1)],
            "cut after {bytes} bytes"
        );
        let other = journal::read(&volume, 8).expect("another's");
        assert_eq!(other, [], "of the generation before");
    }
}

#[test]
fn contracts_of_a_journal_are_taken_in_once_and_broken_lines_stop_the_start() {
    let folder = Folder::new("taken-in");
    let mut file = CatalogFile::open(&folder.0).expect("free");
    file.save(catalog()).expect("written");
    let before = file.generation;
    let written = file
        .journal
        .append(&mut file.volume, before, &[entry("zz", 3.0)]);
    written.expect("written");
    // As after a kill: nothing has been written since.
    drop(file);
    let path = folder.0.join(JOURNAL_NAME);
    let journal = fs::read(&path).expect("there");
    let mut file = CatalogFile::open(&folder.0).expect("free");
    let mut expected = catalog();
    contracts::put_into(&mut expected, "zz", entry("zz", 3.0).contract);
    assert_eq!(*file.catalog(), expected);
    // The first write is of the whole, even of what is equal; a kill before the journal is removed changes nothing.
    file.save(expected.clone()).expect("written");
    assert!(!path.exists(), "its contracts are in the catalog");
    contracts::put_into(&mut expected, "zz", Contract::default());
    file.save(expected.clone()).expect("written");
    drop(file);
    fs::write(&path, &journal).expect("written");
    let file = CatalogFile::open(&folder.0).expect("free");
    assert_eq!(*file.catalog(), expected);
    let generation = file.generation;
    drop(file);
    let garbled = format!("{{\"generation\":{generation}}}\n{{\"name\":\"a b\"}}\n");
    fs::write(&path, garbled).expect("written");
    let error = CatalogFile::open(&folder.0)
        .expect_err("no name")
        .to_string();
    for said in [JOURNAL_NAME, "line 2", "move it away"] {
        assert!(error.contains(said), "{error}");
    }
}
