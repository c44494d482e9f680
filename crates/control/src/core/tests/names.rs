//! Identifiers of names: one each, for good, also across restarts.

use serde_json::json;

use super::cluster::{Cluster, settings};
use crate::ControlError;
use crate::core::Core;
use crate::store::{Change, MemoryStore, Store, Table};

impl Cluster {
    fn name(&mut self, topic: &str) -> u32 {
        let named = self.core.put_name(topic).expect("a good name");
        assert_eq!(named.topic, topic);
        self.carry_out();
        named.id
    }
}

#[test]
fn a_name_keeps_its_identifier_over_restarts() {
    let mut cluster = Cluster::new(0);
    assert_eq!(cluster.name("a"), 1);
    assert_eq!(cluster.name("b"), 2);
    assert_eq!(cluster.name("a"), 1, "it has one");
    cluster.core = Core::restore(settings(), &cluster.kept, cluster.now).expect("kept");
    assert_eq!(cluster.core.name_view("b").expect("kept").id, 2);
    assert_eq!(cluster.name("c"), 3, "none is given out twice");
    assert_eq!(cluster.core.names(), 3);
    assert!(
        matches!(cluster.core.name_view("d"), Err(ControlError::NotFound(text)) if text.contains("PUT /v1/names/d"))
    );
    for bad in ["", "a b", "a/b", &"x".repeat(65)] {
        assert!(
            matches!(cluster.core.put_name(bad), Err(ControlError::Invalid(_))),
            "{bad:?}"
        );
    }
    assert!(cluster.core.take_changes().is_empty(), "nothing came of it");
}

#[test]
fn a_topic_and_its_name_are_two_things() {
    let mut cluster = Cluster::new(0);
    let id = cluster.name("t");
    assert!(
        cluster.core.topic_view("t").is_err(),
        "no topic was declared"
    );
    cluster
        .core
        .put_topic("t", crate::view::TopicSpec::default(), cluster.now)
        .expect("good");
    cluster.core.delete_topic("t", cluster.now).expect("there");
    assert_eq!(
        cluster.name("t"),
        id,
        "who still uses it goes on to mean this topic"
    );
}

#[test]
fn lists_come_in_pages() {
    let mut cluster = Cluster::new(0);
    for number in 0..10_001 {
        cluster
            .core
            .put_name(&format!("t{number:05}"))
            .expect("good");
    }
    let first = cluster.core.name_views(None);
    assert_eq!((first.names.len(), first.has_more), (10_000, true));
    let last = &first.names[9_999].topic;
    let second = cluster.core.name_views(Some(last));
    assert_eq!((second.names.len(), second.has_more), (1, false));
    assert_eq!(
        (second.names[0].topic.as_str(), second.names[0].id),
        ("t10000", 10_001)
    );
    assert!(cluster.core.name_views(Some("zzz")).names.is_empty());
}

#[test]
fn the_last_identifier_has_its_top_bit_clear() {
    let restored = |id: u64| {
        let mut store = MemoryStore::default();
        let change = |topic: &str, id: u64| Change {
            table: Table::Names,
            key: topic.to_owned(),
            value: Some(json!(id)),
        };
        store
            .commit(&[change("a", 7), change("b", id)])
            .expect("memory");
        Core::restore(settings(), &store, clock::Instant::ZERO)
    };
    let mut core = restored((1 << 31) - 2).expect("in range");
    assert_eq!(core.put_name("c").expect("the last").id, (1 << 31) - 1);
    let error = core.put_name("d").expect_err("none is left");
    assert!(
        matches!(&error, ControlError::Unavailable(text) if text.contains("the most")),
        "{error}"
    );
    assert_eq!(core.put_name("a").expect("it has one").id, 7);
    for bad in [0, 7, 1 << 31, 1 << 32] {
        let error = restored(bad)
            .expect_err("not an identifier of its own")
            .to_string();
        assert!(
            error.contains("\"b\"") && error.contains(&bad.to_string()),
            "{error}"
        );
    }
}
