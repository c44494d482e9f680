//! Shares as the controller grants them: handed out many at a time, since there is one for each limited topic.

use limit::Grant;
use wire::TopicName;

use super::orders::{Words, complain, name, persist};
use crate::Handle;

/// Most grants that a reactor takes in at once, while messages wait.
const GRANTS_AT_ONCE: usize = 64;

/// Grants that came one behind the other.
#[derive(Debug, Default)]
pub(super) struct Grants {
    grants: Vec<(TopicName, Grant)>,
    wrong: Vec<String>,
}

impl Grants {
    /// Takes a grant in.
    pub(super) fn gather(&mut self, topic: &str, grant: Grant) {
        match name(topic) {
            Ok(topic) => self.grants.push((topic, grant)),
            Err(text) => self.wrong.push(text),
        }
    }

    /// Hands out what was gathered; what has no limit here is told.
    pub(super) async fn hand_out(&mut self, handle: &Handle, words: &Words) {
        for text in self.wrong.drain(..) {
            complain(text, words).await;
        }
        let mut by_home: Vec<Vec<(TopicName, Grant)>> = Vec::new();
        for (topic, grant) in self.grants.drain(..) {
            let home = handle.home_of(&topic);
            by_home.resize_with(by_home.len().max(home + 1), Vec::new);
            by_home[home].push((topic, grant));
        }
        for (home, grants) in by_home.iter().enumerate() {
            for part in grants.chunks(GRANTS_AT_ONCE) {
                match persist(|| handle.grant(home, part.to_vec())).await {
                    Ok(unknown) => {
                        for topic in unknown {
                            complain(
                                format!("share of {topic}: the topic has no limit here"),
                                words,
                            )
                            .await;
                        }
                    }
                    Err(error) => complain(format!("shares: {error}"), words).await,
                }
            }
        }
    }
}
