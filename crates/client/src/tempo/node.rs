//! An endpoint: its kernel, its threads, and what a program does with it.

use std::cell::Cell;
use std::fmt;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use kernel::{CpuShare, Kernel, SchedulerConfig};
use slab::Slab;
use wire::TopicName;
use wire::announce::InstanceId;

use super::control::{Control, ControlTask};
use super::handles::{Subscription, Timer, TopicPublisher};
use super::identifiers::NameService;
use super::inbox::Inbox;
use super::monotonic::now;
use super::options::{NodeOptions, PublicationOptions, SubscriptionOptions, ThreadStart};
use super::poller::Poller;
use super::stats::NodeStats;
use super::subscription::TempoMessage;
use super::timer::{self, Due, Ticks};
use crate::error::ClientError;

/// How long the end of a publication, or of the endpoint, waits for what was published to be written.
pub(super) const LINGER: Duration = Duration::from_secs(1);

const INTERVAL_MIN: Duration = Duration::from_millis(10);
const INTERVAL_MAX: Duration = Duration::from_secs(1200);

thread_local! {
    static IS_SCHEDULING: Cell<bool> = const { Cell::new(false) };
}

/// An endpoint of Tempo: publications, subscriptions and timers as tasks of one messaging kernel, and the protocol that finds
/// their counterparts.
///
/// Dropping it says good-bye, waits up to a second for what was published to be written, and ends everything that it
/// started. Handles that are left over do nothing any more.
pub struct Node {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What an endpoint's handles work with.
pub(super) struct Shared {
    pub(super) kernel: Arc<Kernel>,
    pub(super) poller: Arc<Poller>,
    pub(super) control: Arc<Control>,
    pub(super) timers: Mutex<Slab<TimerMember>>,
    names: Option<NameService>,
}

/// A timer, as the statistics see it.
pub(super) struct TimerMember {
    pub(super) inbox: Arc<Inbox<Due>>,
    pub(super) tally: Arc<timer::Tally>,
}

impl Node {
    /// Starts an endpoint: opens its sockets and begins to listen to announcements.
    ///
    /// # Errors
    /// [`ClientError::Option`] for what an endpoint cannot be made with; [`ClientError::Io`] and [`ClientError::Kernel`] for
    /// what the system or the kernel refuses. Nothing is left running then.
    pub fn start(options: NodeOptions) -> Result<Node, ClientError> {
        check(&options)?;
        let poller = Poller::new().map_err(ClientError::io("make an epoll set"))?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let config = SchedulerConfig {
            period: options.period,
            ..SchedulerConfig::default()
        };
        let rest: Arc<Poller> = Arc::clone(&poller);
        let kernel = Arc::new(Kernel::new(config, rest)?.with_cores(cores));
        let instance = InstanceId(random());
        let (threads, on_thread_start) = (options.threads, options.on_thread_start.clone());
        let (share, controller) = (options.control_share, options.controller.clone());
        let control = Control::open(instance, options, &kernel, &poller)?;
        let task = kernel.add(Some(share), Box::new(ControlTask(Arc::clone(&control))))?;
        control.inbox.bind(task);
        let names = match controller {
            Some(url) => Some(NameService::start(&url, &control)?),
            None => None,
        };
        let mut node = Node {
            shared: Arc::new(Shared {
                kernel,
                poller,
                control,
                timers: Mutex::new(Slab::new()),
                names,
            }),
            threads: Vec::new(),
        };
        let threads = if threads == 0 { cores } else { threads };
        // Where one does not start, dropping the node ends the others.
        node.start_threads(threads, on_thread_start)?;
        node.shared.control.look();
        Ok(node)
    }

    /// Begins to publish `topic`. Subscribers are found by and by: what is published before the first is heard is lost, see
    /// [`TopicPublisher::wait_for_subscriber`].
    ///
    /// # Errors
    /// [`ClientError::Name`]; [`ClientError::InUse`] where this endpoint publishes the topic already;
    /// [`ClientError::Option`]; [`ClientError::Kernel`] where the share does not fit.
    pub fn publisher(
        &self,
        topic: &str,
        options: PublicationOptions,
    ) -> Result<TopicPublisher, ClientError> {
        let topic = topic_name(topic)?;
        if options.queue_bytes == 0 || options.queue_messages == 0 {
            return Err(ClientError::Option {
                option: "queue_bytes, queue_messages",
                reason: "the queue of a publication must not be 0: give more".to_owned(),
            });
        }
        let mut state = self.shared.control.state();
        let (inbox, outbox) = state.add_publication(&topic, options, now())?;
        drop(state);
        self.announce(&topic);
        Ok(TopicPublisher::new(topic, inbox, outbox, &self.shared))
    }

    /// Begins to subscribe `topic`: `callback` runs on a scheduling thread for each message, one at a time, and what it takes is
    /// charged to the subscription's share. It should not wait for anything.
    ///
    /// # Errors
    /// [`ClientError::Name`]; [`ClientError::InUse`] where this endpoint subscribes the topic already;
    /// [`ClientError::Kernel`] where the share does not fit.
    pub fn subscribe(
        &self,
        topic: &str,
        options: SubscriptionOptions,
        callback: impl FnMut(&TempoMessage<'_>) + Send + 'static,
    ) -> Result<Subscription, ClientError> {
        let topic = topic_name(topic)?;
        let mut state = self.shared.control.state();
        let (inbox, tally) = state.add_subscription(&topic, options, Box::new(callback), now())?;
        drop(state);
        self.announce(&topic);
        Ok(Subscription::new(topic, inbox, tally, &self.shared))
    }

    /// Calls `callback` every `interval` on a scheduling thread, charged to the timer's own share: to read a sensor and
    /// publish what it says, for one. The first call is one interval from now.
    ///
    /// # Errors
    /// [`ClientError::Option`] for an interval of nothing; [`ClientError::Kernel`] where the share does not fit.
    pub fn every(
        &self,
        interval: Duration,
        share: Option<CpuShare>,
        callback: impl FnMut() + Send + 'static,
    ) -> Result<Timer, ClientError> {
        if interval.is_zero() {
            return Err(ClientError::Option {
                option: "interval",
                reason: "the period of a timer must not be 0: give more".to_owned(),
            });
        }
        let inbox = Inbox::new(&self.shared.kernel);
        let tally = Arc::new(timer::Tally::default());
        let ticks = Ticks::new(
            interval,
            now(),
            Box::new(callback),
            Arc::clone(&inbox),
            Arc::clone(&self.shared.poller),
            Arc::clone(&tally),
        );
        let task = self.shared.kernel.add(share, Box::new(ticks))?;
        inbox.bind(task);
        let member = TimerMember {
            inbox: Arc::clone(&inbox),
            tally: Arc::clone(&tally),
        };
        let number = self.shared.timers().insert(member);
        Ok(Timer::new(number, inbox, tally, &self.shared))
    }

    /// The counts of all tasks and of announcements, as of now.
    #[must_use]
    pub fn stats(&self) -> NodeStats {
        NodeStats::of(&self.shared, now())
    }

    /// This life of the endpoint: drawn at random at every start.
    #[must_use]
    pub fn instance(&self) -> InstanceId {
        self.shared.control.state().instance()
    }

    /// Where it takes data, as bound; an unspecified address means all of this machine's.
    #[must_use]
    pub fn data_address(&self) -> std::net::SocketAddr {
        self.shared.control.state().data()
    }

    fn announce(&self, topic: &TopicName) {
        if let Some(names) = &self.shared.names {
            names.ask(topic);
        }
        self.shared.control.look();
    }

    fn start_threads(
        &mut self,
        threads: usize,
        on_start: Option<ThreadStart>,
    ) -> Result<(), ClientError> {
        let (started, outcomes) = channel();
        for number in 0..threads {
            let kernel = Arc::clone(&self.shared.kernel);
            let (started, on_start) = (started.clone(), on_start.clone());
            let thread = std::thread::Builder::new()
                .name(format!("tempo-{number}"))
                .spawn(move || schedule(&kernel, number, on_start, started))
                .map_err(ClientError::io("start a scheduling thread"))?;
            self.threads.push(thread);
        }
        drop(started);
        for outcome in outcomes {
            outcome.map_err(ClientError::io("prepare a scheduling thread"))?;
        }
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let shared = &self.shared;
        shared.control.state().leave();
        let outboxes = shared.control.state().outboxes();
        if !is_scheduling() {
            let deadline = now() + LINGER;
            for outbox in &outboxes {
                outbox.wait_until_written(deadline - now());
            }
        }
        for outbox in &outboxes {
            outbox.close();
        }
        shared.kernel.stop();
        let own = std::thread::current().id();
        for thread in self.threads.drain(..) {
            if thread.thread().id() != own {
                // A handler that panicked was caught by the kernel; the thread itself does not.
                let _ended = thread.join();
            }
        }
    }
}

impl Shared {
    pub(super) fn timers(&self) -> MutexGuard<'_, Slab<TimerMember>> {
        self.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("instance", &self.instance())
            .field("threads", &self.threads.len())
            .finish_non_exhaustive()
    }
}

/// Whether the calling thread is one of an endpoint's own, which must not wait for what only it can do.
pub(super) fn is_scheduling() -> bool {
    IS_SCHEDULING.get()
}

fn schedule(
    kernel: &Kernel,
    number: usize,
    on_start: Option<ThreadStart>,
    started: Sender<std::io::Result<()>>,
) {
    IS_SCHEDULING.set(true);
    let outcome = on_start.map_or(Ok(()), |on_start| on_start.run(number));
    let is_ready = outcome.is_ok();
    // Whoever starts the threads waits until the last of them has said how it went.
    let _heard = started.send(outcome);
    drop(started);
    if is_ready {
        kernel.work(&now);
    }
}

fn check(options: &NodeOptions) -> Result<(), ClientError> {
    let wrong = |option, reason: &str| {
        let reason = reason.to_owned();
        Err(ClientError::Option { option, reason })
    };
    if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&options.announce_interval) {
        return wrong(
            "announce_interval",
            "give 10 ms to 20 min: announcements hold for three intervals, at most an hour",
        );
    }
    if options.threads > 1024 {
        return wrong("threads", "give at most 1024, or 0 for one per core");
    }
    if options.body_bytes_max == 0 || options.body_bytes_max > 1 << 30 {
        return wrong("body_bytes_max", "give 1 byte to 1 GiB");
    }
    Ok(())
}

fn topic_name(topic: &str) -> Result<TopicName, ClientError> {
    topic.parse().map_err(|_| ClientError::Name {
        kind: "topic",
        name: topic.to_owned(),
    })
}

/// A number that no other endpoint has drawn, in all likelihood.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one((std::process::id(), now().as_nanos()))
}
