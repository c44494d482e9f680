//! What becomes of full channels: told to brokers, kept, put right where a broker remembers something else.

use std::time::Duration;

use link::OnFull;

use super::cluster::{Cluster, settings};
use crate::core::Core;
use crate::view::{Contract, TopicSpec};

fn spec(on_full: Option<OnFull>) -> TopicSpec {
    TopicSpec {
        contract: Contract {
            on_full,
            ..Contract::default()
        },
        ..TopicSpec::default()
    }
}

impl Cluster {
    fn declare(&mut self, name: &str, on_full: Option<OnFull>) {
        let put = self.core.put_topic(name, spec(on_full), self.now);
        put.expect("nothing is wrong with it");
        self.carry_out();
    }

    fn word(&self, index: usize, name: &str) -> Option<OnFull> {
        self.brokers[index].on_full.get(name).copied()
    }
}

#[test]
fn brokers_that_are_here_that_join_and_that_come_back_know_the_word() {
    let mut cluster = Cluster::new(1);
    cluster.declare("a", Some(OnFull::DropOldest));
    assert_eq!(cluster.word(0, "a"), Some(OnFull::DropOldest));
    let late = cluster.add_broker();
    assert_eq!(cluster.word(late, "a"), Some(OnFull::DropOldest));
    let restored = Core::restore(settings(), &cluster.kept, cluster.now).expect("kept");
    let view = restored.topic_view("a").expect("kept");
    assert_eq!(view.spec, spec(Some(OnFull::DropOldest)));
    cluster.core = restored;
    cluster.start(late);
    assert_eq!(cluster.word(late, "a"), Some(OnFull::DropOldest));
    cluster.declare("a", None);
    assert_eq!(cluster.word(late, "a"), None);
}

#[test]
fn a_broker_that_remembers_another_word_is_put_right() {
    let mut cluster = Cluster::new(1);
    cluster.declare("b", Some(OnFull::Block));
    cluster.brokers[0].on_full = [
        (String::from("a"), OnFull::DropOldest),
        (String::from("b"), OnFull::DropOldest),
    ]
    .into();
    cluster.run(Duration::from_secs(3));
    let has = ["a", "b"].map(|name| cluster.word(0, name));
    assert_eq!(has, [None, Some(OnFull::Block)]);
}

#[test]
fn declarations_from_before_there_was_the_word_are_read() {
    let old = r#"{"policy":"srtm","fit":"replay","infer_groups":false}"#;
    let read: TopicSpec = serde_json::from_str(old).expect("whole");
    assert_eq!(read, spec(None));
    let again = serde_json::to_string(&read).expect("plain");
    assert!(!again.contains("on_full"), "{again}");
}
