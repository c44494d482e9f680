//! What queues have outside of memory: one thread of the broker keeps it for all reactors, who never wait for it.
//!
//! A reactor's [orders](topics::BacklogOrder) come in their order and are carried out in it; answers go into its inbox. No more than
//! [`topics::ORDERS_MAX`] of a reactor wait for answers, so that bounds what is on its way. Without a [`BacklogConfig`], as by default,
//! there is no such thread, and queues hold what they hold in memory.

mod shelf;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use topics::{BacklogAnswer, BacklogBounds, BacklogOrder, BacklogOutcome};

use crate::BrokerError;
use crate::reactor::{Inbox, Mail};
use shelf::Shelf;

/// What queues may have outside of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BacklogConfig {
    /// Messages of a queue that go out together; of short queues a quarter.
    pub segment_messages: usize,
    /// Messages of one queue outside; at the bound its publishers wait, as without a backlog.
    pub messages_max: usize,
    /// Bytes of all queues outside; what is beyond stays in memory, and its publishers wait.
    pub bytes_max: u64,
}

/// A reactor's way to the thread.
#[derive(Clone, Debug)]
pub struct Orders {
    reactor: usize,
    orders: Sender<(usize, BacklogOrder)>,
}

/// The thread, and what it is given to do.
#[derive(Debug)]
pub struct Backlog {
    orders: Sender<(usize, BacklogOrder)>,
    thread: JoinHandle<()>,
}

impl BacklogConfig {
    /// As the topics need to know it.
    #[must_use]
    pub fn bounds(&self) -> BacklogBounds {
        BacklogBounds {
            segment_messages: self.segment_messages,
            outside_max: self.messages_max,
        }
    }
}

impl Orders {
    /// Has an order carried out, after those before it.
    pub fn give(&self, order: BacklogOrder) {
        // The thread ends after its last reactor.
        let _ = self.orders.send((self.reactor, order));
    }
}

impl Backlog {
    /// Starts the thread; it answers into `inboxes`, by the reactors' numbers.
    ///
    /// # Errors
    /// [`BrokerError::Io`] where the system gives no thread.
    pub fn start(
        config: &BacklogConfig,
        inboxes: Arc<[Arc<Inbox>]>,
    ) -> Result<Backlog, BrokerError> {
        let (orders, ordered) = channel();
        let shelf = Shelf::new(config.bytes_max);
        let thread = std::thread::Builder::new()
            .name(String::from("backlog"))
            .spawn(move || serve(&ordered, shelf, &inboxes))
            .map_err(|source| BrokerError::Io {
                what: String::from("starting the thread for backlogs"),
                source,
            })?;
        Ok(Backlog { orders, thread })
    }

    /// The way to it of reactor `reactor`.
    #[must_use]
    pub fn orders(&self, reactor: usize) -> Orders {
        Orders {
            reactor,
            orders: self.orders.clone(),
        }
    }

    /// Ends with the last reactor; what is outside then is lost.
    pub fn join(self) {
        drop(self.orders);
        // It has nothing to say.
        let _ = self.thread.join();
    }
}

fn serve(ordered: &Receiver<(usize, BacklogOrder)>, mut shelf: Shelf, inboxes: &[Arc<Inbox>]) {
    while let Ok((reactor, order)) = ordered.recv() {
        if let Some(answer) = carry_out(&mut shelf, reactor, order)
            && let Some(inbox) = inboxes.get(reactor)
        {
            inbox.post(&mut vec![Mail::Backlog(answer)]);
        }
    }
}

fn carry_out(shelf: &mut Shelf, reactor: usize, order: BacklogOrder) -> Option<BacklogAnswer> {
    let (queue, number, outcome) = match order {
        BacklogOrder::Write(queue, number, segment) => {
            let outcome = match shelf.put((reactor, queue), number, segment) {
                true => BacklogOutcome::Written,
                false => BacklogOutcome::NotWritten,
            };
            (queue, number, outcome)
        }
        BacklogOrder::Read(queue, number) => {
            let segment = shelf.take((reactor, queue), number);
            (
                queue,
                number,
                BacklogOutcome::Read(segment.unwrap_or_default()),
            )
        }
        BacklogOrder::Forget(queue, number) => {
            let _ = shelf.take((reactor, queue), number);
            return None;
        }
        BacklogOrder::ForgetAll(queue) => {
            shelf.clear((reactor, queue));
            return None;
        }
    };
    Some(BacklogAnswer {
        queue,
        number,
        outcome,
    })
}
