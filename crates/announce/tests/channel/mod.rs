//! Endpoints on a multicast channel that loses, delays and reorders datagrams, in virtual time.
#![allow(dead_code, reason = "each test uses a part")]

use core::net::SocketAddr;
use std::collections::BTreeSet;
use std::time::Duration;

use announce::{
    Announcer, AnnouncerConfig, Change, Directory, DirectoryConfig, Speaker, SubBucket,
};
use clock::{Instant, Xoshiro256PlusPlus, stream};
use limit::Share;
use rand_xoshiro::rand_core::Rng;
use wire::TopicName;
use wire::announce::{Announcement, Entry, InstanceId, Role, TopicId};

pub const TICK: Duration = Duration::from_millis(10);

/// What the channel does to a datagram on its way to one listener.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    /// It is lost with this probability.
    pub loss: f64,
    /// It takes up to this time, each its own.
    pub delay: Duration,
    /// But of two endpoints, each hears the other at least once within an expiry.
    pub is_fair: bool,
}

pub struct Endpoint {
    pub directory: Directory,
    pub announcer: Announcer,
    pub bucket: Option<SubBucket>,
    pub is_alive: bool,
    /// Stopped until then: it does not run, and reads what has arrived afterwards.
    pub stopped_until: Instant,
    /// Its machine sleeps while it is stopped, and what arrives is lost.
    pub is_asleep: bool,
    role: Role,
    address: SocketAddr,
    arriving: Vec<(Instant, SocketAddr, Vec<u8>)>,
    /// When it was heard last by each of the others, or the later of both began.
    heard_by: Vec<Instant>,
}

pub struct World {
    pub now: Instant,
    pub endpoints: Vec<Endpoint>,
    pub topic: TopicName,
    /// Pairs of whom the second hears nothing of the first.
    pub deaf: BTreeSet<(usize, usize)>,
    channel: Channel,
    config: AnnouncerConfig,
    random: Xoshiro256PlusPlus,
}

impl World {
    pub fn new(channel: Channel, seed: u64) -> World {
        World {
            now: Instant::from_nanos(1_000_000_000),
            endpoints: Vec::new(),
            topic: "t".parse().expect("valid"),
            deaf: BTreeSet::new(),
            channel,
            config: AnnouncerConfig::default(),
            random: stream(seed, "channel"),
        }
    }

    /// Starts an endpoint in `role`, with a part of the limit `whole` if there is one.
    pub fn start(&mut self, role: Role, whole: Option<Share>) -> usize {
        let number = self.endpoints.len();
        let instance = InstanceId(1 + number as u64);
        let address = SocketAddr::from(([10, 0, 0, 1], 4000 + number as u16));
        self.start_at(instance, address, role, whole)
    }

    pub fn start_at(
        &mut self,
        instance: InstanceId,
        address: SocketAddr,
        role: Role,
        whole: Option<Share>,
    ) -> usize {
        let random = stream(self.random.next_u64(), "announcer");
        let speaker = Speaker::new(instance, address);
        let bucket = |whole| SubBucket::new(whole, instance, self.config.expiry, self.now);
        self.endpoints.push(Endpoint {
            directory: Directory::new(instance, DirectoryConfig::default()),
            announcer: Announcer::new(speaker, self.config, random, self.now),
            bucket: whole.map(bucket),
            is_alive: true,
            stopped_until: self.now,
            is_asleep: false,
            role,
            address,
            arriving: Vec::new(),
            heard_by: vec![self.now; self.endpoints.len()],
        });
        for endpoint in &mut self.endpoints {
            endpoint.heard_by.push(self.now);
        }
        self.endpoints.len() - 1
    }

    /// A random number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    pub fn is_running(&self, index: usize) -> bool {
        let endpoint = &self.endpoints[index];
        endpoint.is_alive && endpoint.stopped_until <= self.now
    }

    /// One step of time for everybody.
    pub fn tick(&mut self) {
        self.now += TICK;
        for index in 0..self.endpoints.len() {
            if self.is_running(index) {
                self.wake(index);
                self.read(index);
                self.endpoints[index].reckon(&self.topic, self.now);
                self.speak(index);
            }
        }
    }

    pub fn run(&mut self, duration: Duration) {
        let until = self.now + duration;
        while self.now < until {
            self.tick();
        }
    }

    /// Stops an endpoint that runs. In a fair channel the others hear it again within an expiry all the same, unless it is
    /// stopped for so long that it notices itself.
    pub fn stop(&mut self, index: usize, time: Duration) {
        if !self.is_running(index) {
            return;
        }
        let endpoint = &mut self.endpoints[index];
        let heard = endpoint.heard_by.iter().min().copied();
        let silence = heard.map_or(Duration::ZERO, |heard| self.now - heard);
        let within = (self.config.expiry - TICK * 2).saturating_sub(silence);
        let time = match self.channel.is_fair && time <= self.config.expiry {
            true => time.min(within),
            false => time,
        };
        endpoint.stopped_until = self.now + time;
    }

    /// Who slept begins to hear, and to be heard, now.
    fn wake(&mut self, index: usize) {
        if !std::mem::take(&mut self.endpoints[index].is_asleep) {
            return;
        }
        self.endpoints[index].arriving.clear();
        self.endpoints[index].heard_by.fill(self.now);
        for endpoint in &mut self.endpoints {
            endpoint.heard_by[index] = self.now;
        }
    }

    fn read(&mut self, index: usize) {
        let now = self.now;
        let endpoint = &mut self.endpoints[index];
        let mut change = Change::default();
        endpoint.arriving.sort_by_key(|&(at, ..)| at);
        let arrived = endpoint.arriving.partition_point(|&(at, ..)| at <= now);
        for (_, from, bytes) in endpoint.arriving.drain(..arrived) {
            let said = Announcement::decode(&bytes, None).expect("written by ourselves");
            if let Ok(heard) = endpoint.directory.hear(&said, from, now) {
                change.merge(heard);
            }
        }
        change.merge(endpoint.directory.expire(now));
        endpoint.react(&change, &self.topic, now);
    }

    fn speak(&mut self, index: usize) {
        let now = self.now;
        let endpoint = &mut self.endpoints[index];
        if endpoint.announcer.next_due() > now {
            return;
        }
        let Some(said) = endpoint.announcer.due(now) else {
            return;
        };
        if let Some(bucket) = &mut endpoint.bucket {
            bucket.announced(now);
        }
        for announcement in said {
            self.send(index, &announcement);
        }
    }

    /// Sends what an endpoint says, whether or not it runs on.
    pub fn send_all(&mut self, from: usize, said: &[Announcement]) {
        for announcement in said {
            self.send(from, announcement);
        }
    }

    fn send(&mut self, from: usize, said: &Announcement) {
        let mut bytes = Vec::new();
        said.encode(None, &mut bytes);
        let address = self.endpoints[from].address;
        for to in 0..self.endpoints.len() {
            if self.deaf.contains(&(from, to)) {
                continue;
            }
            let silence = self.now - self.endpoints[from].heard_by[to];
            let patience = self.config.expiry - self.config.interval - self.config.soon - TICK * 2;
            let must_arrive = self.channel.is_fair && silence + self.channel.delay >= patience;
            let is_lost = (self.random.next_u64() as f64) < self.channel.loss * u64::MAX as f64;
            if !must_arrive && is_lost {
                continue;
            }
            let delay_ns = self.below(self.channel.delay.as_nanos() as u64 + 1);
            let at = match must_arrive {
                true => self.now,
                false => self.now + Duration::from_nanos(delay_ns),
            };
            // Later ones overtake it and make it a replay, so only what arrives at once counts as heard.
            if at == self.now {
                self.endpoints[from].heard_by[to] = self.now;
            }
            let arriving = &mut self.endpoints[to].arriving;
            arriving.push((at, address, bytes.clone()));
        }
    }
}

impl Endpoint {
    /// What may be used at `now`, in tokens per second.
    pub fn rate_in_force(&self, now: Instant) -> f64 {
        let share = self.bucket.as_ref().and_then(|bucket| bucket.in_force(now));
        share.map_or(0.0, |share| share.rate.get())
    }

    fn react(&mut self, change: &Change, topic: &TopicName, now: Instant) {
        if change.is_new {
            self.announcer.answer(self.directory.instances(), now);
        }
        if let Some(bucket) = &mut self.bucket
            && change.publishers.contains(topic)
        {
            bucket.update(self.directory.peers_of(topic), now);
        }
    }

    fn reckon(&mut self, topic: &TopicName, now: Instant) {
        let held = self.bucket.as_mut().map(|bucket| {
            bucket.update(self.directory.peers_of(topic), now);
            bucket.held(now)
        });
        let entry = Entry {
            role: self.role,
            id: TopicId::hashed(topic, 0),
            topic: topic.clone(),
            held,
        };
        self.announcer.set_entries(vec![entry], now);
    }
}
