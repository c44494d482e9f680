//! The topic's own queue is emptied by naming what it had.
//!
//! "Emptied" would end more than that where a crash keeps it and loses that messages had been passed on before.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::sheet::Put;
use super::state::{Standing, State};
use super::step::{OWN_QUEUE, Step};

/// What the topic's own queue has while an entry is put together.
#[derive(Debug)]
pub(super) struct Own {
    /// None where nothing empties the queue.
    ids: Option<BTreeSet<u64>>,
}

impl Own {
    /// As it is before `steps`.
    pub(super) fn of<'a>(state: &State, mut steps: impl Iterator<Item = &'a Step>) -> Own {
        let is_emptied = steps.any(|step| *step == Step::Emptied(OWN_QUEUE));
        Own {
            ids: is_emptied.then(|| {
                let messages = state.messages.iter();
                let own = messages.filter(|(_, live)| has(&live.standings));
                own.map(|(&id, _)| id).collect()
            }),
        }
    }

    /// Messages were put.
    pub(super) fn extend(&mut self, puts: &[Put]) {
        let Some(ids) = &mut self.ids else { return };
        let own = puts.iter().filter(|put| has(&put.standings));
        ids.extend(own.map(|put| put.id));
    }

    /// The steps, where the queue is emptied with the messages that it has then.
    pub(super) fn named<'a>(&mut self, steps: &'a [Step]) -> Cow<'a, [Step]> {
        let Some(ids) = &mut self.ids else {
            return Cow::Borrowed(steps);
        };
        let mut named = Vec::with_capacity(steps.len());
        for step in steps {
            if *step == Step::Emptied(OWN_QUEUE) {
                named.extend(std::mem::take(ids).into_iter().map(Step::Discarded));
                continue;
            }
            // Whatever becomes of a message, it is not in that queue any more.
            if let Some(id) = step.message() {
                ids.remove(&id);
            }
            named.push(step.clone());
        }
        Cow::Owned(named)
    }
}

fn has(standings: &[Standing]) -> bool {
    standings.iter().any(|each| each.queue == OWN_QUEUE)
}
