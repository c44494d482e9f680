//! A running broker: its listener, its reactors and the handle to them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread::JoinHandle;

use clock::WallTime;
use realtime::{Realtime, RealtimeError};
use topics::{Bounds, Loss, MessageIds, TopicTable};
use wire::identify::ServerLimits;

use crate::auth::AuthServers;
use crate::backlog::{Backlog, BacklogConfig, Found};
use crate::handle::Reactors;
use crate::losses::Losses;
use crate::reactor::{Inbox, Mail, Reactor, Shared, home_of};
use crate::tls::Handshakes;
use crate::{BrokerError, Config, Handle, sys};

/// Version that `IDENTIFY`, `/info` and `nsqd -version` tell: what NSQ clients are to expect.
pub const NSQD_VERSION: &str = "1.3.0";

/// nsqd's default output buffer, told to clients that ask for none.
const OUTPUT_BUFFER_BYTES: u32 = 16 * 1024;

/// Descriptors beside those of connections: listeners, epoll, wake-ups, files, HTTP.
const DESCRIPTORS_BESIDES: usize = 256;

/// Those who have not said who they are have half of the connections at most, but so many in any case.
const UNIDENTIFIED_LEAST: usize = 64;

/// A broker and its threads. Dropping it without [`Broker::stop`] leaves them running.
#[derive(Debug)]
pub struct Broker {
    tcp_address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Vec<Loss>>>,
    backlog: Option<Backlog>,
}

impl Broker {
    /// Starts a broker that accepts connections at once: [`Broker::prepare`], then [`Broker::open`].
    ///
    /// # Errors
    /// As [`Broker::prepare`].
    pub fn start(config: Config) -> Result<Broker, BrokerError> {
        let broker = Broker::prepare(config)?;
        broker.open();
        Ok(broker)
    }

    /// Binds the TCP listener and starts the reactor threads, yet accepts nobody: limits of a former
    /// life can be put back before the first publisher comes.
    ///
    /// # Errors
    /// [`BrokerError::Config`] for a setting out of its range or one that is not permitted, [`BrokerError::Io`] where the address
    /// cannot be bound or a thread cannot be started.
    pub fn prepare(mut config: Config) -> Result<Broker, BrokerError> {
        config.validate()?;
        if let Some(realtime) = &config.realtime {
            realtime.check().map_err(not_realtime)?;
        }
        let descriptors = usize::try_from(sys::raise_descriptor_limit()).unwrap_or(usize::MAX);
        let connections = descriptors.saturating_sub(DESCRIPTORS_BESIDES).max(1);
        if connections < config.max_connections {
            tracing::info!(
                "{descriptors} open files allowed, so at most {connections} connections"
            );
            config.max_connections = connections;
        }
        let unidentified = (config.max_connections / 2).max(UNIDENTIFIED_LEAST);
        config.max_unidentified = config.max_unidentified.min(unidentified);
        let io = |what: String| move |source| BrokerError::Io { what, source };
        let listening = format!("listening on {}", config.tcp_address);
        let listener = sys::listen(config.tcp_address).map_err(io(listening.clone()))?;
        let tcp_address = listener.local_addr().map_err(io(listening))?;
        let inboxes: Result<Vec<_>, _> = (0..config.threads)
            .map(|_| Inbox::new().map(Arc::new))
            .collect();
        let inboxes = inboxes.map_err(io(String::from("setting up reactors")))?;
        let inboxes: Arc<[Arc<Inbox>]> = inboxes.into();
        let tls = config.tls.as_ref();
        let handshakes = tls.map(|tls| Handshakes::start(tls, &inboxes));
        let handshakes = handshakes.transpose()?;
        let asks = !config.auth.addresses.is_empty();
        let auth = asks.then(|| AuthServers::start(&config.auth, tls, &inboxes));
        let auth = auth.transpose()?;
        let backlog = config.backlog.as_ref();
        let backlog = backlog
            .map(|config| Backlog::start(config, Arc::clone(&inboxes)))
            .transpose()?;
        let shared = Arc::new(Shared {
            handshakes,
            auth,
            backlog: backlog.as_ref().map(Backlog::health),
            ..Shared::new(config, inboxes)
        });
        let mut listener = Some(listener);
        let reactors: Result<Vec<_>, _> = (0..shared.inboxes.len())
            .map(|number| {
                let orders = backlog.as_ref().map(|backlog| backlog.orders(number));
                Reactor::new(number, Arc::clone(&shared), listener.take(), orders)
            })
            .collect();
        let threads = start(reactors?, shared.config.realtime.as_ref())?;
        Ok(Broker {
            tcp_address,
            shared,
            threads,
            backlog,
        })
    }

    /// Accepts connections from now on. What queues had on disk is theirs again before, with the contracts that were put back since
    /// [`Broker::prepare`].
    pub fn open(&self) {
        self.restore();
        self.shared.open.store(true, Ordering::Release);
        self.wake_all();
    }

    /// The way in for everything that is not the data path.
    #[must_use]
    pub fn handle(&self) -> Handle {
        let handshakes = self.shared.handshakes.as_ref();
        Handle {
            config: Arc::clone(&self.shared.config),
            reactors: Reactors::new(Arc::clone(&self.shared.inboxes)),
            changed: Arc::clone(&self.shared.changed),
            report_wanted: Arc::clone(&self.shared.report_wanted),
            kept: self.shared.kept.clone(),
            changes: self.shared.changes.clone(),
            announcements: self.shared.announcements.clone(),
            link: self.shared.link.clone(),
            handing: self.shared.handing.clone(),
            sharing: self.shared.sharing.clone(),
            memory: self.shared.memory.clone(),
            names: self.shared.names.clone(),
            declaring: Arc::clone(&self.shared.declaring),
            lookupds: self.shared.lookupds.clone(),
            credentials: handshakes.map(|handshakes| Arc::clone(handshakes.credentials())),
            backlog: self.shared.backlog.clone(),
        }
    }

    /// The TCP address bound, its port resolved.
    #[must_use]
    pub fn tcp_address(&self) -> SocketAddr {
        self.tcp_address
    }

    /// Stops accepting and reading from publishers, goes on while connected consumers finish messages, until they have all
    /// or none was finished for `drain_timeout`, then ends the threads. Blocks until they have ended. What is lost is
    /// logged and given back.
    pub fn stop(self) -> Losses {
        self.shared.stop.store(true, Ordering::Release);
        self.wake_all();
        let threads = self.threads.into_iter();
        // A reactor that panics ends the process, so there is no error to see here.
        let losses = threads.flat_map(|thread| thread.join().unwrap_or_default());
        let losses = Losses::new(losses.collect());
        if let Some(backlog) = self.backlog
            && !backlog.join()
        {
            tracing::error!(
                "the disk has not confirmed all that was written: a crash of the machine may still lose some of it"
            );
        }
        losses.log();
        losses
    }

    /// Gives each reactor what its queues had on disk, before anybody can publish.
    fn restore(&self) {
        let inboxes = &self.shared.inboxes;
        let found = self.backlog.as_ref().map(Backlog::take_found);
        let mut homes: Vec<Vec<Found>> = inboxes.iter().map(|_| Vec::new()).collect();
        for found in found.into_iter().flatten() {
            homes[home_of(found.0.topic.as_str(), inboxes.len())].push(found);
        }
        for (inbox, found) in inboxes.iter().zip(homes) {
            if self.backlog.is_some() {
                inbox.post(&mut vec![Mail::Restore(found)]);
            }
        }
    }

    fn wake_all(&self) {
        for inbox in self.shared.inboxes.iter() {
            inbox.waker.wake();
        }
    }
}

/// Starts a thread per reactor. None runs before all are scheduled as asked for and the memory is locked; where that
/// fails, all have ended.
fn start(
    reactors: Vec<Reactor>,
    realtime: Option<&Realtime>,
) -> Result<Vec<JoinHandle<Vec<Loss>>>, BrokerError> {
    let (told, hears) = mpsc::channel();
    let (mut threads, mut gates) = (Vec::new(), Vec::new());
    let mut ready = Ok(());
    for (number, reactor) in reactors.into_iter().enumerate() {
        let (open, gate) = mpsc::sync_channel(1);
        let (told, realtime) = (told.clone(), realtime.cloned());
        let thread = std::thread::Builder::new().name(format!("reactor-{number}"));
        let spawned = thread.spawn(move || {
            let applied = realtime.map_or(Ok(()), |each| each.apply_to_this_thread(number));
            // Nobody hears of it where another thread could not be started.
            let _ = told.send(applied);
            drop(told);
            match gate.recv() {
                Ok(()) => run(reactor),
                Err(_) => Vec::new(),
            }
        });
        match spawned {
            Ok(thread) => threads.push(thread),
            Err(source) => {
                let what = format!("starting reactor {number}");
                ready = Err(BrokerError::Io { what, source });
                break;
            }
        }
        gates.push(open);
    }
    drop(told);
    ready = ready.and_then(|()| {
        hears
            .iter()
            .try_for_each(|applied| applied.map_err(not_realtime))
    });
    if let Some(realtime) = realtime {
        ready = ready.and_then(|()| realtime.lock_memory().map_err(not_realtime));
    }
    if let Err(error) = ready {
        // A closed gate ends its thread.
        drop(gates);
        for thread in threads {
            // It has served nobody and has nothing to say.
            let _ = thread.join();
        }
        return Err(error);
    }
    for gate in gates {
        // It waits for this.
        let _ = gate.send(());
    }
    if let Some(realtime) = realtime {
        let (priority, cpus) = (realtime.priority(), realtime.cpus());
        tracing::info!(
            "reactors run under SCHED_FIFO at priority {priority} on CPUs {cpus:?}, memory is locked"
        );
    }
    Ok(threads)
}

fn not_realtime(error: RealtimeError) -> BrokerError {
    BrokerError::Config {
        option: "--realtime",
        reason: error.to_string(),
    }
}

/// Runs a reactor. If it panics, an invariant is broken and its topics are lost to everybody who waits
/// for them: the process ends, so that its supervisor and its clients notice.
fn run(reactor: Reactor) -> Vec<Loss> {
    struct AbortOnPanic;
    impl Drop for AbortOnPanic {
        fn drop(&mut self) {
            if std::thread::panicking() {
                std::process::abort();
            }
        }
    }
    let _guard = AbortOnPanic;
    reactor.run()
}

impl Config {
    pub(crate) fn wire_limits(&self) -> wire::Limits {
        wire::Limits {
            max_msg_size: self.max_msg_size,
            max_body_size: self.max_body_size,
            max_rdy_count: self.max_rdy_count,
            max_req_timeout_ms: self.max_req_timeout.as_millis() as u64,
            ..wire::Limits::default()
        }
    }

    pub(crate) fn server_limits(&self) -> ServerLimits {
        ServerLimits {
            version: String::from(NSQD_VERSION),
            max_rdy_count: self.max_rdy_count,
            msg_timeout_ms: self.msg_timeout.as_millis() as u64,
            max_msg_timeout_ms: self.max_msg_timeout.as_millis() as u64,
            heartbeat_interval_ms: self.heartbeat_interval.as_millis() as u64,
            max_heartbeat_interval_ms: self.max_heartbeat_interval.as_millis() as u64,
            output_buffer_bytes: OUTPUT_BUFFER_BYTES,
            max_output_buffer_bytes: self.max_output_buffer_size,
            output_buffer_timeout_ms: self.output_buffer_timeout.as_millis() as u64,
            min_output_buffer_timeout_ms: self.min_output_buffer_timeout.as_millis() as u64,
            max_output_buffer_timeout_ms: self.max_output_buffer_timeout.as_millis() as u64,
            tls: self.tls.is_some(),
            tls_required: self.tls_required.is_for_clients(),
            auth_required: self.auth_terms().is_some(),
            snappy: self.snappy,
            deflate: self.deflate,
            max_deflate_level: self.max_deflate_level,
        }
    }

    fn topic_bounds(&self) -> Bounds {
        Bounds {
            mem_queue_size: self.mem_queue_size,
            deferred_max: self.max_deferred,
            abandoned_after: self.abandoned_after,
            topics_max: self.max_topics,
            channels_max: self.max_channels,
            backlog: self.backlog.as_ref().map(BacklogConfig::bounds),
            channel_consumers_max: self.max_channel_consumers,
        }
    }

    /// The topics of a reactor that starts.
    /// Its messages have ids above `highest_id`.
    pub(crate) fn topic_table(
        &self,
        reactor: usize,
        (start, highest_id): (WallTime, u64),
    ) -> TopicTable {
        let ids = self.message_ids(reactor, start).above(highest_id);
        let mut table =
            TopicTable::new(self.topic_bounds(), ids).logging_releases(self.release_log_messages);
        if self.controller.is_some() {
            table = table.controlled();
        } else if !self.sharing.join.is_empty() {
            table = table.gathering();
        }
        let processing = &self.processing;
        if !processing.percentiles.is_empty() {
            table = table.measuring_processing(&processing.percentiles, processing.window);
        }
        match &self.service_time {
            Some(model) => table.emulating(model),
            None => table,
        }
    }

    fn message_ids(&self, reactor: usize, start: WallTime) -> MessageIds {
        MessageIds::new(self.node_id, reactor, self.threads, start)
    }
}
