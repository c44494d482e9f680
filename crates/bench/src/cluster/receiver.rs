//! The receiving thread: one subscription at every broker, those that come later included.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use api::Controller;

use super::Plan;
use super::board::Board;
use crate::error::BenchError;
use crate::protocol::Protocol;
use crate::protocol::nsq::{Acknowledgement, Nsq};
use crate::stamp::Stamp;
use crate::subscriber::Subscriber;
use crate::sys::{monotonic_ns, pause_for};

/// Interval at which the list of brokers is asked for.
const LOOK: Duration = Duration::from_millis(100);
/// Rest of a round in which nothing came.
const REST: Duration = Duration::from_micros(200);

/// Starts the thread, and one that looks for brokers.
pub(super) fn spawn(
    plan: Plan,
    board: Arc<Board>,
) -> Result<JoinHandle<Result<(), BenchError>>, BenchError> {
    std::thread::Builder::new()
        .name(String::from("receiver"))
        .spawn(move || receive(&plan, &board))
        .map_err(BenchError::io("start a thread"))
}

fn receive(plan: &Plan, board: &Arc<Board>) -> Result<(), BenchError> {
    let protocol = Protocol::Nsq(Nsq {
        topic: plan.topic.clone(),
        channel: String::from("bench"),
        acknowledgement: Acknowledgement::Each,
        unbuffered: true,
    });
    let found = look_for_brokers(plan.controller.clone(), protocol.clone(), Arc::clone(board));
    let mut subscribers: BTreeMap<SocketAddr, (Subscriber, Arc<AtomicBool>)> = BTreeMap::new();
    let (mut messages, mut came_ns) = (Vec::new(), 0);
    while !board.is_over.load(Ordering::Relaxed) {
        while let Ok((address, subscriber, is_lost)) = found.try_recv() {
            subscribers.insert(address, (subscriber, is_lost));
        }
        let mut came = false;
        subscribers.retain(|_, (subscriber, is_lost)| {
            let read = subscriber.read(&mut |delivery, now_ns| {
                came_ns = now_ns;
                messages.extend(Stamp::read_from(delivery.body));
            });
            let arrived_ns = subscriber.arrived_ns().unwrap_or(came_ns);
            for stamp in messages.drain(..) {
                board.receive(&stamp, came_ns);
                board.latency(&stamp, arrived_ns.min(came_ns), came_ns);
            }
            let answered = subscriber.answer(monotonic_ns());
            came |= matches!(read, Ok(true));
            let lives = read.is_ok() && answered.is_ok();
            if !lives {
                is_lost.store(true, Ordering::Relaxed);
            }
            lives
        });
        if !came {
            pause_for(REST);
        }
    }
    Ok(())
}

type Found = (SocketAddr, Subscriber, Arc<AtomicBool>);

/// A thread that subscribes at every broker that is up and is not subscribed at.
fn look_for_brokers(
    controller: String,
    protocol: Protocol,
    board: Arc<Board>,
) -> mpsc::Receiver<Found> {
    let (tell, found) = mpsc::channel();
    std::thread::spawn(move || {
        let api = Controller::new(&controller);
        let mut known: BTreeMap<SocketAddr, Arc<AtomicBool>> = BTreeMap::new();
        while !board.is_over.load(Ordering::Relaxed) {
            let brokers = api.brokers().unwrap_or_default();
            let addresses = brokers.iter().filter(|broker| broker.state != "dead");
            for address in addresses.filter_map(|broker| broker.tcp_address.parse().ok()) {
                let is_known = known
                    .get(&address)
                    .is_some_and(|lost| !lost.load(Ordering::Relaxed));
                if is_known {
                    continue;
                }
                let connected = Subscriber::connect(address, &protocol, None);
                let Ok(subscriber) = connected.and_then(Subscriber::stamped) else {
                    continue;
                };
                let is_lost = Arc::new(AtomicBool::new(false));
                known.insert(address, Arc::clone(&is_lost));
                if tell.send((address, subscriber, is_lost)).is_err() {
                    return;
                }
            }
            pause_for(LOOK);
        }
    });
    found
}
