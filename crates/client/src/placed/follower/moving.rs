//! Links that come and go: make before break, and what happens when one breaks.

use std::time::Duration;

use clock::Instant;

use super::links::{MAX_LEAVING, Making};
use super::{Action, Follower};
use crate::placed::link::{Link, LinkId, Phase};

/// A link that held so long was no accident: the next try after it begins with short waits.
const LASTING: Duration = Duration::from_secs(1);

impl Follower {
    /// Begins a link to `address`, in place of one that is in the making.
    pub(super) fn make(&mut self, now: Instant, address: String, is_fallback: bool) {
        if self.links.leaving.len() >= MAX_LEAVING {
            self.links.postponed = Some(address);
            return;
        }
        self.links.postponed = None;
        if let Some(making) = self.links.making.take() {
            self.actions.push_back(Action::Close(making.link.id));
        }
        let id = self.links.next_id();
        self.actions.push_back(Action::Connect {
            link: id,
            address: address.clone(),
        });
        self.links.making = Some(Making {
            link: Link::new(id, address, now),
            is_fallback,
        });
    }

    /// The broker has greeted: what comes next goes there, and the former active link leaves.
    pub(super) fn switch(&mut self, now: Instant, answer: &[u8]) {
        let Some(Making {
            mut link,
            is_fallback,
        }) = self.links.making.take()
        else {
            return;
        };
        link.greeted(answer, now);
        self.last_address = Some(link.address.clone());
        self.enquiring.arrived(&link.address, is_fallback);
        if let Some(mut former) = self.links.active.replace(link) {
            self.traffic.moves += 1;
            let mut unbegun = former.take_unbegun();
            unbegun.append(&mut self.waiting);
            self.waiting = unbegun;
            self.links.leaving.push(former);
            self.close_drained(now);
        }
        self.throttled = None;
        self.send_waiting();
    }

    /// Closes the leaving links that have nothing outstanding any more.
    pub(super) fn close_drained(&mut self, now: Instant) {
        let actions = &mut self.actions;
        self.links.leaving.retain(|link| {
            let stays = !link.is_drained();
            if !stays {
                actions.push_back(Action::Close(link.id));
            }
            stays
        });
        if self.links.leaving.len() < MAX_LEAVING
            && let Some(address) = self.links.postponed.take()
        {
            self.make(now, address, false);
        }
    }

    /// Gives up a link: what it has not acknowledged waits again, and the controller is asked where to go.
    pub(super) fn lose(&mut self, now: Instant, link: LinkId, reason: &str, avoid: bool) {
        let Some((mut lost, was_leaving)) = self.links.remove(link) else {
            return;
        };
        self.actions.push_back(Action::Close(link));
        self.trouble = format!("{}: {reason}", lost.address);
        let mut again = lost.take_outstanding();
        again.append(&mut self.waiting);
        self.waiting = again;
        self.send_waiting();
        if was_leaving {
            self.close_drained(now);
        } else {
            let has_lasted = lost.phase == Phase::Ready && now >= lost.since + LASTING;
            self.enquiring
                .lost(avoid.then_some(lost.address), has_lasted);
            self.ask_again(now);
        }
    }
}
