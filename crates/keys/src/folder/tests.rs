//! Folders of keys, and what comes of them.

use std::os::unix::fs::PermissionsExt;
use std::time::UNIX_EPOCH;

use credentials::{ClientAuth, Credentials, TlsConfig, TlsVersion, Trust, TrustFiles};

use super::*;

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("srtm-keys-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Place(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

fn init(place: &Place) -> Result<KeyFolder, KeysError> {
    KeyFolder::init(&place.0, [[1; 32], [2; 32], [3; 32]], now())
}

fn order<'a>(name: &'a str, hosts: &'a [String], usage: Usage) -> Order<'a> {
    Order {
        name,
        hosts,
        usage,
        validity: Validity::days(now(), 365),
    }
}

#[test]
fn secrets_are_for_their_owner_alone_and_nothing_is_overwritten() {
    let place = Place::new("made");
    let folder = init(&place).expect("made");
    let hosts = [String::from("127.0.0.1")];
    let node = folder
        .add(&order("b1", &hosts, Usage::Node), false)
        .expect("added");
    let secrets = Secret::ALL.map(|secret| folder.secret(secret));
    for file in secrets.iter().chain([&node.key, &folder.authority_key()]) {
        let mode = std::fs::metadata(file).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
    let before = std::fs::read(folder.authority_key()).expect("there");
    let error = init(&place).expect_err("it is there").to_string();
    assert!(error.contains("never overwritten"), "{error}");
    let again = folder.add(&order("b1", &hosts, Usage::Node), false);
    let error = again.expect_err("it is there").to_string();
    assert!(error.contains("--renew"), "{error}");
    assert_eq!(
        std::fs::read(folder.authority_key()).expect("there"),
        before
    );
    // An unfinished folder is not taken for a whole one, nor overwritten.
    std::fs::remove_file(folder.authority()).expect("there");
    assert!(KeyFolder::open(&place.0).is_err() && init(&place).is_err());
}

#[test]
fn what_was_made_is_of_use_to_daemons_and_clients() {
    let place = Place::new("of-use");
    let folder = init(&place).expect("made");
    let hosts = [String::from("127.0.0.1"), String::from("b1.example")];
    let node = folder
        .add(&order("b1", &hosts, Usage::Node), false)
        .expect("added");
    let client = folder
        .add(&order("ops", &[], Usage::Client), false)
        .expect("added");
    let credentials = Credentials::load(TlsConfig {
        certificate: node.certificate.clone(),
        key: node.key.clone(),
        authorities: Some(node.authorities),
        clients: ClientAuth::Verified,
        least_version: TlsVersion::Tls13,
    });
    assert!(credentials.expect("of use").client().is_some());
    let trust = TrustFiles {
        authorities: client.authorities,
        own: Some((client.certificate, client.key)),
    };
    assert!(Trust::load(&trust).expect("of use").own().is_some());
    let shown = folder.certificates().expect("read");
    let names: Vec<_> = shown.iter().map(|(_, seen)| seen.name.as_str()).collect();
    assert_eq!(names, ["srtm authority", "b1", "ops"]);
    assert_eq!(shown[1].1.hosts, ["b1", "127.0.0.1", "b1.example"]);
    assert_eq!(shown[1].1.until, now() + Duration::from_secs(365 * 86_400));
    assert_eq!(
        folder.read(Secret::Gossip).expect("there"),
        "02".repeat(32) + "\n"
    );
}

#[test]
fn a_certificate_is_renewed_before_it_ends_or_where_hosts_are_missing() {
    let place = Place::new("renewed");
    let folder = init(&place).expect("made");
    let hosts = [String::from("127.0.0.1")];
    let order = order("b1", &hosts, Usage::Node);
    let read = |files: &FilesOf| std::fs::read_to_string(&files.certificate).expect("there");
    let first = read(&folder.ensure(&order, now()).expect("added"));
    let at = |days: u64| now() + Duration::from_secs(days * 86_400);
    assert_eq!(read(&folder.ensure(&order, at(300)).expect("there")), first);
    let later = Order {
        validity: Validity::days(at(340), 365),
        ..order.clone()
    };
    let second = read(&folder.ensure(&later, at(340)).expect("renewed"));
    assert_ne!(second, first);
    let more = [hosts[0].clone(), String::from("10.0.0.7")];
    let wider = Order {
        hosts: &more,
        ..later
    };
    assert_ne!(
        read(&folder.ensure(&wider, at(340)).expect("renewed")),
        second
    );
}

#[test]
fn names_never_become_other_paths() {
    let place = Place::new("names");
    let folder = init(&place).expect("made");
    for name in ["", "../ca", ".hidden", "a/b", "a b", &"x".repeat(65)] {
        let error = folder
            .add(&order(name, &[], Usage::Node), false)
            .expect_err(name);
        assert!(matches!(error, KeysError::Name(_)), "{error}");
    }
}

#[test]
fn a_secret_that_everybody_reads_is_none() {
    let place = Place::new("open");
    let folder = init(&place).expect("made");
    let file = folder.secret(Secret::Link);
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(&file, open).expect("changed");
    let error = folder.read(Secret::Link).expect_err("open").to_string();
    assert!(error.contains("chmod 600"), "{error}");
}
