//! Keeps a broker registered: follows the list of lookups, passes changes on to each, and answers
//! for new topics.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout_at};
use topics::{Teller, Told};
use wire::TopicName;
use wire::lookup::Identity;

use super::enquiry::{Asked, channels_of};
use super::keeper::{Feed, HttpEndpoint, Keeper};
use super::registrations::Registrations;
use crate::agent::persist;
use crate::{BrokerError, Handle, Operation};

/// Topics whose channels are asked for at the same time; others wait in line, no longer than for an answer.
const ENQUIRIES_MAX: usize = 64;

/// What keeps a broker registered.
#[derive(Debug)]
pub struct Registrar {
    handle: Handle,
    identity: Arc<Identity>,
    list: watch::Receiver<Vec<String>>,
    feed: Arc<Feed>,
    keepers: BTreeMap<String, (watch::Receiver<HttpEndpoint>, AbortHandle)>,
    /// Keepers and enquiries; they end with this.
    tasks: JoinSet<()>,
    line: Arc<Semaphore>,
}

impl Registrar {
    /// Begins to register `handle`'s broker as `identity`. From here on new topics wait for what lookups say of them, so a
    /// broker begins before it accepts connections, and after it has its topics of former lives.
    ///
    /// # Errors
    /// [`BrokerError::Exiting`].
    pub async fn begin(handle: Handle, identity: Identity) -> Result<Registrar, BrokerError> {
        let mut registrar = Registrar {
            identity: Arc::new(identity),
            list: handle.lookupds.subscribe(),
            feed: Arc::new(Feed::new()),
            keepers: BTreeMap::new(),
            tasks: JoinSet::new(),
            line: Arc::new(Semaphore::new(ENQUIRIES_MAX)),
            handle,
        };
        registrar.follow_list().await?;
        Ok(registrar)
    }

    /// Keeps it registered until `stop` completes; then it is registered nowhere.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        tokio::select! {
            () = stop => {}
            // The broker stops.
            _ = self.keep() => {}
        }
    }

    async fn keep(&mut self) -> Result<(), BrokerError> {
        loop {
            tokio::select! {
                _ = self.list.changed() => self.follow_list().await?,
                told = self.handle.changes.next() => match told {
                    Ok(told) => told.into_iter().for_each(|told| self.pass_on(told)),
                    Err(_) => {
                        tracing::warn!("topics change faster than lookups can be told; they are told everything again");
                        self.take_stock().await?;
                    }
                },
                Some(_) = self.tasks.join_next() => {}
            }
        }
    }

    /// Registers with the lookups of the list and with no others. Without any, new topics wait for nobody.
    async fn follow_list(&mut self) -> Result<(), BrokerError> {
        let list = self.list.borrow_and_update().clone();
        let was_idle = self.keepers.is_empty();
        self.keepers.retain(|address, (_, keeper)| {
            let stays = list.contains(address);
            if !stays {
                keeper.abort();
            }
            stays
        });
        match (list.is_empty(), was_idle) {
            (true, true) => return Ok(()),
            (true, false) => {
                let handle = &self.handle;
                persist(|| handle.told().hear(Teller::Nobody)).await?;
                self.handle.changes.close();
                return Ok(());
            }
            (false, true) => self.take_stock().await?,
            (false, false) => {}
        }
        for address in list {
            if !self.keepers.contains_key(&address) {
                self.add(address);
            }
        }
        Ok(())
    }

    /// Lists what the broker has, whatever was known before. Waiting topics whose answer nobody
    /// will give any more flow.
    async fn take_stock(&mut self) -> Result<(), BrokerError> {
        let handle = &self.handle;
        // In this order: what becomes meanwhile is heard of twice rather than never.
        handle.changes.open();
        persist(|| handle.told().hear(Teller::Answering)).await?;
        let topics = persist(|| handle.told().inventory()).await?;
        self.feed.restart(Registrations::of(&topics));
        Ok(())
    }

    fn add(&mut self, address: String) {
        let http_endpoint = watch::Sender::default();
        let known = http_endpoint.subscribe();
        let keeper = Keeper {
            address: address.clone(),
            identity: Arc::clone(&self.identity),
            feed: Arc::clone(&self.feed),
            http_endpoint,
        };
        let task = self.tasks.spawn(keeper.keep());
        self.keepers.insert(address, (known, task));
    }

    fn pass_on(&mut self, told: Told) {
        match told {
            Told::Changed(topic, change) => self.feed.change(&topic, &change),
            // Nobody gives orders here.
            Told::Followed(..) => {}
            Told::Asked(topic) => {
                let lookups = self.keepers.iter();
                let lookups: Vec<Asked> = lookups
                    .map(|(address, (known, _))| (address.clone(), known.clone()))
                    .collect();
                let (handle, line) = (self.handle.clone(), Arc::clone(&self.line));
                self.tasks.spawn(async move {
                    // A broker that stops needs no answer.
                    let _ = enquire(&handle, &topic, lookups, &line).await;
                });
            }
        }
    }
}

/// Gives a new topic the channels that it has elsewhere, and lets it flow.
async fn enquire(
    handle: &Handle,
    topic: &TopicName,
    lookups: Vec<Asked>,
    line: &Semaphore,
) -> Result<(), BrokerError> {
    let config = &handle.config().lookupd;
    let deadline = Instant::now() + config.request_timeout;
    // Whoever does not get a turn in time asks nobody, and says so as if nobody had answered.
    let _turn = timeout_at(deadline, line.acquire()).await;
    for channel in channels_of(topic, lookups, config, deadline).await {
        let made =
            persist(|| handle.channel(topic.clone(), channel.clone(), Operation::Create)).await;
        match made {
            // It was deleted meanwhile.
            Err(BrokerError::TopicNotFound(_)) => break,
            Err(BrokerError::Refused(why)) => {
                tracing::warn!("topic {topic} lacks its channel {channel}: {why}");
            }
            made => made?,
        }
    }
    persist(|| handle.told().answered(topic.clone())).await
}
