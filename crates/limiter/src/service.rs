//! The thread that moves packets: one epoll instance, one reading of the clock per turn.
//!
//! A turn waits until a device or queue has packets, something held back is due, or an interval
//! ends; then it takes at most [`PACKETS_PER_TURN`] packets from each, so that none keeps the
//! others or the timers waiting. What goes out waits in [`Devices`] for the next system call, at
//! the latest until the end of the turn. Packets that a device does not take are lost and counted,
//! as on a full network card.

mod answers;
mod batch_size;
mod devices;
mod gossip_transport;
mod nodes;
mod queues;
mod ticks;

pub(crate) use devices::DeviceCounters;
pub(crate) use nodes::Unsent;
pub(crate) use queues::QueueCounters;

use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use clock::Instant;
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};

use crate::config::{Config, Intake};
use crate::error::LimiterError;
use crate::http::HttpPort;
use crate::record::Recorder;
use crate::router::{Route, Router};
use crate::sys;
use answers::Survey;
use devices::Devices;
use gossip_transport::GossipTransport;
use queues::Queues;
use ticks::Ticks;

/// Packets that a turn takes from one device at most.
const PACKETS_PER_TURN: usize = 64;

/// The longest time between two turns: what HTTP asks for is looked for this often. All numbers are told of in slices.
const TURN_MAX: Duration = Duration::from_millis(20);

/// Events that one wait gives at most.
const EVENTS_MAX: usize = 256;

/// Ends a [`Service`], from any thread.
#[derive(Clone, Debug)]
pub struct Stop(Arc<OwnedFd>);

/// A limiter with its devices open, ready to run.
#[derive(Debug)]
pub struct Service {
    config: Config,
    router: Router,
    devices: Devices,
    queues: Queues,
    gossip: GossipTransport,
    http: Option<HttpPort>,
    survey: Survey,
    ticks: Ticks,
    recorder: Option<Recorder>,
    epoll: OwnedFd,
    start: Instant,
    /// Keeps the descriptor that is watched.
    _stop: Stop,
}

impl Stop {
    /// One that nobody has used.
    ///
    /// # Errors
    /// [`LimiterError::Io`] for want of descriptors.
    pub fn new() -> Result<Stop, LimiterError> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let event = event.map_err(|error| LimiterError::io("making an eventfd")(error.into()))?;
        Ok(Stop(Arc::new(event)))
    }

    /// Ends the service after its present turn.
    pub fn stop(&self) {
        // It fails only if it was called 2^64 − 2 times before.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

/// Tokens of epoll: this one, devices from 1, queues from [`QUEUES`], and sites' sockets from [`SITES`].
const STOP: u64 = 0;

const QUEUES: u64 = 1 << 32;

const SITES: u64 = 1 << 33;

impl Service {
    /// Opens everything that `config` names.
    ///
    /// # Errors
    /// [`LimiterError`], with what could not be opened and what to do.
    pub fn open(config: &Config, stop: &Stop) -> Result<Service, LimiterError> {
        let (devices, queues) = match config.intake {
            Intake::Tun => (Devices::open(config)?, Queues::default()),
            Intake::Nfqueue => (Devices::default(), Queues::open(config)?),
        };
        Service::with(config, stop, devices, queues)
    }

    fn with(
        config: &Config,
        stop: &Stop,
        devices: Devices,
        queues: Queues,
    ) -> Result<Service, LimiterError> {
        let start = sys::now();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC);
        let epoll =
            epoll.map_err(|error| LimiterError::io("making an epoll instance")(error.into()))?;
        watch(&epoll, &*stop.0, STOP)?;
        for (token, device) in devices.each() {
            watch(&epoll, device, token)?;
        }
        for (number, queue) in queues.each().enumerate() {
            watch(&epoll, queue, QUEUES + number as u64)?;
        }
        let gossip = GossipTransport::open(config, start)?;
        for (site, socket) in gossip.each().enumerate() {
            watch(&epoll, socket, SITES + site as u64)?;
        }
        let recorder = Recorder::open(config, start)?;
        Ok(Service {
            config: config.clone(),
            router: Router::new(config, start, recorder.is_some())?,
            devices,
            queues,
            gossip,
            http: HttpPort::open(config)?,
            survey: Survey::default(),
            ticks: Ticks::new(start, config.gossip.interval(), config.site.len()),
            recorder,
            epoll,
            start,
            _stop: stop.clone(),
        })
    }

    /// Moves packets until [`Stop::stop`], in the calling thread.
    ///
    /// # Errors
    /// [`LimiterError::AllGone`] when no device is left, [`LimiterError::Io`] when the system refuses to wait.
    pub fn run(mut self) -> Result<(), LimiterError> {
        sys::wake_in_time();
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let ended = loop {
            match self.turn(&mut events) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.devices.flush();
        self.gossip.leave();
        if let Some(recorder) = self.recorder.take() {
            let refused = self.devices.counters().refused + self.queues.counters().refused;
            recorder.end(sys::now(), &self.router, refused)?;
        }
        ended
    }

    /// One turn; breaks where it was told to stop.
    fn turn(&mut self, events: &mut Vec<epoll::Event>) -> Result<ControlFlow<()>, LimiterError> {
        events.clear();
        let waited = self.wait(events);
        waited.map_err(LimiterError::io("waiting for packets"))?;
        let now = sys::now();
        self.deliver(now);
        if events.iter().any(|event| event.data.u64() == STOP) {
            return Ok(ControlFlow::Break(()));
        }
        for event in events.iter() {
            self.take(now, event.data.u64());
        }
        self.devices.flush();
        self.end_intervals(now);
        self.answer(now, !events.is_empty());
        match self.config.intake == Intake::Tun && self.devices.all_gone() {
            true => Err(LimiterError::AllGone),
            false => Ok(ControlFlow::Continue(())),
        }
    }

    fn wait(&self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        let now = sys::now();
        let dues = [
            self.router.due(),
            Some(self.ticks.due()),
            self.gossip.due(),
            self.recorder.as_ref().map(Recorder::due),
            self.survey.due(),
            Some(now + TURN_MAX),
        ];
        let due = dues.into_iter().flatten().min().unwrap_or(now);
        let timeout = due.saturating_since(now);
        let timeout = Timespec {
            tv_sec: timeout.as_secs().cast_signed(),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout)) {
            Ok(_) => Ok(()),
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn deliver(&mut self, now: Instant) {
        let devices = &mut self.devices;
        self.router
            .advance(now, |port, packet| devices.send(port, packet));
    }

    fn end_intervals(&mut self, now: Instant) {
        self.gossip.wake(now);
        while let Some(sites) = self.ticks.pop(now) {
            for site in sites {
                self.router.estimate_site(now, site, self.gossip.fabric());
            }
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.turn(now, &self.router);
        }
    }

    /// Takes what has come where `token` stands for.
    fn take(&mut self, now: Instant, token: u64) {
        if let Some(site) = token.checked_sub(SITES) {
            self.gossip.receive(now, site as usize);
            return;
        }
        if let Some(queue) = token.checked_sub(QUEUES) {
            let router = &mut self.router;
            self.queues
                .judge(now, queue as usize, PACKETS_PER_TURN, router);
            return;
        }
        let router = &mut self.router;
        self.devices.drain(token, PACKETS_PER_TURN, |port, packet| {
            router.route(now, port, packet) == Route::Forward
        });
    }

    /// When it began, on the clock that never steps.
    pub const fn start(&self) -> Instant {
        self.start
    }
}

fn watch(epoll: &OwnedFd, descriptor: impl AsFd, token: u64) -> Result<(), LimiterError> {
    let data = epoll::EventData::new_u64(token);
    epoll::add(epoll, descriptor, data, epoll::EventFlags::IN)
        .map_err(|error| LimiterError::io("watching a descriptor")(error.into()))
}

#[cfg(test)]
mod tests;
