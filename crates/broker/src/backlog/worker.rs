//! The thread that drives a keeper for all reactors.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use disk::Folder;
use topics::BacklogOutcome;

use super::Work;
use super::keeper::Keeper;
use crate::reactor::{Inbox, Mail};
use crate::sys;

/// Works that are done between two commits of logs.
const WORKS_MAX: usize = 4096;

/// See the module.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) keeper: Keeper<Folder>,
    pub(super) inboxes: Arc<[Arc<Inbox>]>,
}

impl Worker {
    /// Works until nobody can order anything more, then ends the files in order. False where the disk did not take all of that.
    pub(super) fn run(mut self, ordered: &Receiver<Work>) -> bool {
        loop {
            let work = match self.keeper.due() {
                None => ordered.recv().map_err(RecvTimeoutError::from),
                Some(at) => ordered.recv_timeout(at.saturating_since(sys::monotonic_now())),
            };
            match work {
                Ok(work) => {
                    self.work(work);
                    // What has come meanwhile is written and synced together.
                    ordered
                        .try_iter()
                        .take(WORKS_MAX)
                        .for_each(|work| self.work(work));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.commit();
        }
        self.keeper.end()
    }

    /// Has logs written and synced, and those told who wait for it.
    fn commit(&mut self) {
        let answers = self.keeper.commit(sys::monotonic_now());
        let mut mail: Vec<Vec<Mail>> = Vec::new();
        mail.resize_with(self.inboxes.len(), Vec::new);
        for (reactor, answer) in answers {
            if let Some(mail) = mail.get_mut(reactor) {
                mail.push(Mail::Logged(answer));
            }
        }
        for (inbox, mail) in self.inboxes.iter().zip(&mut mail) {
            if !mail.is_empty() {
                inbox.post(mail);
            }
        }
    }

    fn work(&mut self, work: Work) {
        match work {
            Work::Order(reactor, order) => {
                if let Some(answer) = self.keeper.carry_out(order)
                    && let Some(inbox) = self.inboxes.get(reactor)
                {
                    inbox.post(&mut vec![Mail::Backlog(answer)]);
                }
            }
            Work::Log(reactor, order) => self.keeper.log(reactor, order, sys::monotonic_now()),
            Work::Unwritten(reply) => {
                // Who asked waits for it.
                let _ = reply.send(self.keeper.unwritten(sys::monotonic_now()));
            }
            Work::Save(order, reply) => {
                let answer = self.keeper.carry_out(order);
                let is_kept =
                    answer.is_none_or(|answer| matches!(answer.outcome, BacklogOutcome::Written));
                // Who asked waits for it.
                let _ = reply.send(is_kept);
            }
        }
    }
}
