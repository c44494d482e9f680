//! Sleeping and being woken, by everything that may wake.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};

use kernel::Rest;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

struct Told(Mutex<Sender<Signal>>);

impl Target for Told {
    fn signal(&self, signal: Signal) {
        let told = self.0.lock().expect("nobody panicked");
        told.send(signal).expect("the test listens");
    }
}

fn told() -> (Arc<Told>, Receiver<Signal>) {
    let (told, signals) = channel();
    (Arc::new(Told(Mutex::new(told))), signals)
}

#[test]
fn a_socket_is_told_of_once_until_it_is_looked_at() {
    let poller = Poller::new().expect("an epoll set");
    let (target, signals) = told();
    let (mut near, mut far) = UnixStream::pair().expect("a pair");
    let watching = poller.watch(&near, target, 5).expect("watched");
    // Room to write counts as a change.
    poller.rest(&|| true);
    assert_eq!(signals.try_recv(), Ok(Signal::Socket(5)));
    far.write_all(b"x").expect("written");
    poller.rest(&|| true);
    assert!(signals.try_recv().is_err(), "it has been told");
    assert!(!watching.look());
    far.write_all(b"y").expect("written");
    poller.rest(&|| true);
    assert_eq!(signals.try_recv(), Ok(Signal::Socket(5)));
    near.read_exact(&mut [0; 2]).expect("read");
    watching.look();
    watching.tell_again();
    assert_eq!(signals.try_recv(), Ok(Signal::Socket(5)));
    watching.look();
    drop(far);
    poller.rest(&|| true);
    assert_eq!(signals.try_recv(), Ok(Signal::Socket(5)));
    assert!(watching.look(), "the end is told");
    drop(watching);
    drop(near);
    let (woken, rested) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            poller.rest(&|| true);
            woken.send(()).expect("the test listens");
        });
        // Nothing is watched any more; only the bell wakes.
        while poller.sleepers.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        poller.wake();
        rested.recv_timeout(PATIENCE).expect("it is woken");
    });
    assert!(signals.try_recv().is_err());
}

#[test]
fn nobody_sleeps_while_there_is_work() {
    let poller = Poller::new().expect("an epoll set");
    // Nothing would end this rest.
    poller.rest(&|| false);
    // Nobody sleeps, so nothing is left over of this either.
    poller.wake();
    assert_eq!(poller.sleepers.load(Ordering::SeqCst), 0);
}

#[test]
fn everybody_is_woken_at_the_end() {
    let poller = Poller::new().expect("an epoll set");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    poller.rest(&|| !is_over.load(Ordering::SeqCst));
                }
            });
        }
        is_over.store(true, Ordering::SeqCst);
        poller.wake_all();
    });
}

#[test]
fn alarms_wake_a_sleeper_in_their_order() {
    let poller = Poller::new().expect("an epoll set");
    let (target, signals) = told();
    let soon = now() + Duration::from_millis(5);
    let alarm = |due, key| {
        let target: Arc<Told> = Arc::clone(&target);
        poller.set_alarm(due, target, key)
    };
    alarm(soon + Duration::from_millis(5), 3);
    let off = alarm(soon, 1);
    alarm(soon, 2);
    alarm(Instant::ZERO, 0);
    poller.call_off(off);
    let mut heard = Vec::new();
    while heard.len() < 3 {
        poller.rest(&|| true);
        heard.extend(signals.try_iter());
    }
    assert_eq!(heard, [0, 2, 3].map(Signal::Alarm));
}

#[test]
fn a_busy_thread_glances_at_most_once_an_interval() {
    let poller = Poller::new().expect("an epoll set");
    let (target, signals) = told();
    let (near, _far) = UnixStream::pair().expect("a pair");
    poller.glance();
    let _watching = poller.watch(&near, target, 5).expect("watched");
    poller.next_glance_ns.store(u64::MAX, Ordering::Relaxed);
    poller.glance();
    assert!(signals.try_recv().is_err(), "it is not time");
    poller.next_glance_ns.store(0, Ordering::Relaxed);
    poller.glance();
    assert_eq!(signals.try_recv(), Ok(Signal::Socket(5)));
}
