//! The order of writing and answering.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::*;
use crate::store::{Change, MemoryStore, Table};
use crate::view::NameView;

type Answer = oneshot::Receiver<Result<NameView, ControlError>>;

/// A store that looks, when it is written, whether an answer has gone out before.
struct Watching {
    kept: MemoryStore,
    answer: Arc<Mutex<Option<Answer>>>,
    names: Arc<Mutex<u32>>,
}

impl Store for Watching {
    fn load(&self, table: Table) -> Result<Vec<(String, Value)>, ControlError> {
        self.kept.load(table)
    }

    fn commit(&mut self, changes: Vec<Change>) -> Result<(), ControlError> {
        if changes.iter().any(|change| change.table == Table::Names) {
            *self.names.lock().expect("whole") += 1;
            let mut answer = self.answer.lock().expect("whole");
            let heard = answer.as_mut().expect("somebody asks").try_recv();
            assert!(
                matches!(heard, Err(TryRecvError::Empty)),
                "answered before it was kept"
            );
        }
        self.kept.commit(changes)
    }
}

#[test]
fn an_identifier_is_told_once_it_is_kept() {
    let (answer, names) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(0)));
    let store = Watching {
        kept: MemoryStore::default(),
        answer: Arc::clone(&answer),
        names: Arc::clone(&names),
    };
    let opened = Service::open(crate::Settings::default(), Box::new(store), None);
    let (mut service, ..) = opened.expect("memory");
    for (topic, id, commits) in [("a", 1, 1), ("b", 2, 2), ("a", 1, 2)] {
        let (reply, hears) = oneshot::channel();
        *answer.lock().expect("whole") = Some(hears);
        service.command(Command::PutName(topic.to_owned(), reply));
        let heard = answer
            .lock()
            .expect("whole")
            .take()
            .expect("put there")
            .try_recv();
        let named = heard.expect("answered").expect("a good name");
        assert_eq!(
            (named.id, *names.lock().expect("whole")),
            (id, commits),
            "{topic}"
        );
    }
}
