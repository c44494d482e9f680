//! A controller that stays away: how long topics that nobody here knows are held for it.

use std::time::Duration;

use tokio::sync::{Mutex, watch};
use topics::Teller;

use super::orders::persist;
use crate::{BrokerError, Handle};

/// Tells the log what is held, and until when.
pub(super) fn log_what_is_held(addresses: &[String], longest: Option<Duration>) {
    let until = match longest {
        Some(longest) => format!(", for at most {longest:?}"),
        None => String::new(),
    };
    let address = addresses.join(" or ");
    tracing::info!(
        "topics unknown to this broker wait until the controller at {address} has told what they have{until}"
    );
}

/// Whether the controller has said everything on the link that stands.
#[derive(Debug)]
pub(super) struct Presence {
    is_there: watch::Sender<bool>,
    /// One word about it at a time: the reactors' last is the latest.
    telling: Mutex<()>,
}

impl Presence {
    /// It has not spoken yet.
    pub(super) fn new() -> Presence {
        Presence {
            is_there: watch::Sender::new(false),
            telling: Mutex::new(()),
        }
    }

    /// The controller has said everything.
    pub(super) async fn begins(&self, handle: &Handle) -> Result<(), BrokerError> {
        let _telling = self.telling.lock().await;
        tracing::info!("the controller has told all contracts and topics");
        handle.link.set_given_up(false);
        self.is_there.send_replace(true);
        persist(|| handle.told().hear(Teller::Answering)).await
    }

    /// The link is gone.
    pub(super) fn ends(&self) {
        self.is_there.send_replace(false);
    }

    /// Lets topics flow that are held for the controller, each time that it has been away for `longest`; never ends.
    pub(super) async fn give_up_after(&self, handle: &Handle, longest: Duration) {
        let mut is_there = self.is_there.subscribe();
        loop {
            let spoken = is_there.wait_for(|&is_there| is_there);
            let is_late = tokio::time::timeout(longest, spoken).await.is_err();
            // A broker that exits is asked for nothing more.
            if is_late && self.give_up(handle, longest).await.is_err() {
                return std::future::pending().await;
            }
            // The sender lives as long as this does.
            let _ = is_there.wait_for(|&is_there| is_there).await;
            let _ = is_there.wait_for(|&is_there| !is_there).await;
        }
    }

    async fn give_up(&self, handle: &Handle, longest: Duration) -> Result<(), BrokerError> {
        let _telling = self.telling.lock().await;
        if *self.is_there.borrow() {
            return Ok(());
        }
        handle.link.set_given_up(true);
        tracing::warn!(
            "no word from the controller for {longest:?}: until it speaks, topics unknown to this broker flow without a limit (--without-controller)"
        );
        persist(|| handle.told().hear(Teller::GivenUp)).await
    }
}
