//! Words of contracts about full channels and durability: told to brokers, kept, put right where a broker remembers something else.

use std::time::Duration;

use link::{Durability, OnFull};

use super::cluster::{Cluster, settings};
use super::virtual_broker::ContractWords;
use crate::core::Core;
use crate::view::{Contract, TopicSpec};

const NOTHING: ContractWords = ContractWords {
    on_full: None,
    durability: Durability::Memory,
};
const DROPS: ContractWords = ContractWords {
    on_full: Some(OnFull::DropOldest),
    durability: Durability::Memory,
};
const SYNCED: ContractWords = ContractWords {
    on_full: None,
    durability: Durability::Fsync,
};
const BOTH: ContractWords = ContractWords {
    on_full: Some(OnFull::Block),
    durability: Durability::Disk,
};

fn spec(words: ContractWords) -> TopicSpec {
    TopicSpec::of_contract(Contract {
        on_full: words.on_full,
        durability: words.durability,
        ..Contract::default()
    })
}

impl Cluster {
    fn declare(&mut self, name: &str, words: ContractWords) {
        let put = self.core.put_topic(name, spec(words), self.now);
        put.expect("nothing is wrong with it");
        self.carry_out();
    }
}

#[test]
fn brokers_that_are_here_that_join_and_that_come_back_know_the_words() {
    for words in [DROPS, SYNCED, BOTH] {
        let mut cluster = Cluster::new(1);
        cluster.declare("a", words);
        assert_eq!(cluster.brokers[0].words("a"), words);
        let late = cluster.add_broker();
        assert_eq!(cluster.brokers[late].words("a"), words);
        let restored = Core::restore(settings(), &cluster.kept, cluster.now).expect("kept");
        let view = restored.topic_view("a").expect("kept");
        assert_eq!(view.spec, spec(words));
        cluster.core = restored;
        cluster.start(late);
        assert_eq!(cluster.brokers[late].words("a"), words);
        cluster.declare("a", NOTHING);
        assert_eq!(cluster.brokers[late].words("a"), NOTHING);
    }
}

#[test]
fn a_broker_that_remembers_other_words_is_put_right() {
    let mut cluster = Cluster::new(1);
    cluster.declare("b", BOTH);
    cluster.declare("c", SYNCED);
    cluster.brokers[0].contract_words = [("a", DROPS), ("b", DROPS), ("c", BOTH)]
        .map(|(name, words)| (name.to_owned(), words))
        .into();
    cluster.run(Duration::from_secs(3));
    let has = ["a", "b", "c"].map(|name| cluster.brokers[0].words(name));
    assert_eq!(has, [NOTHING, BOTH, SYNCED]);
}

#[test]
fn only_topics_that_are_kept_are_durable() {
    let mut cluster = Cluster::new(1);
    let put = cluster
        .core
        .put_topic("t#ephemeral", spec(SYNCED), cluster.now);
    let error = put.expect_err("never on disk").to_string();
    assert!(error.contains("take a name without #ephemeral"), "{error}");
    let put = cluster
        .core
        .put_topic("t#ephemeral", spec(DROPS), cluster.now);
    put.expect("nothing is wrong with it");
}

#[test]
fn declarations_from_before_there_were_the_words_are_read() {
    let old = r#"{"policy":"srtm","fit":"replay","infer_groups":false}"#;
    let read: TopicSpec = serde_json::from_str(old).expect("whole");
    assert_eq!(read, spec(NOTHING));
    let again = serde_json::to_string(&read).expect("plain");
    for word in ["on_full", "durability"] {
        assert!(!again.contains(word), "{again}");
    }
}
