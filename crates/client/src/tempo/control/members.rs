//! The publications and subscriptions of this endpoint, and what each is told.

use std::sync::Arc;

use announce::{Peer, Source, SubBucket};
use clock::Instant;
use limit::Share as LimitShare;
use wire::TopicName;
use wire::announce::TopicId;

use super::{State, within_this_machine};
use crate::error::ClientError;
use crate::tempo::inbox::Inbox;
use crate::tempo::options::{PublicationOptions, SubscriptionOptions};
use crate::tempo::publication::{self, Outbox, Publication, Subscriber};
use crate::tempo::subscription::{self, Callback, Subscription, Tally};

/// A publication, as the protocol sees it.
pub(super) struct PublicationMember {
    pub(super) inbox: Arc<Inbox<publication::Event>>,
    pub(super) outbox: Arc<Outbox>,
    /// Whom it has been told to send to.
    follows: Vec<Subscriber>,
}

/// A subscription, as the protocol sees it.
pub(super) struct SubscriptionMember {
    pub(super) inbox: Arc<Inbox<subscription::Event>>,
    pub(super) tally: Arc<Tally>,
    ids: Vec<TopicId>,
}

impl State {
    /// Makes the task of a publication.
    ///
    /// # Errors
    /// [`ClientError::InUse`], [`ClientError::Kernel`].
    pub(in crate::tempo) fn add_publication(
        &mut self,
        topic: &TopicName,
        options: PublicationOptions,
        now: Instant,
    ) -> Result<(Arc<Inbox<publication::Event>>, Arc<Outbox>), ClientError> {
        if self.publications.contains_key(topic) {
            return Err(ClientError::InUse {
                topic: topic.to_string(),
                what: "publication",
            });
        }
        let kernel = self.kernel.upgrade().ok_or(ClientError::Ended)?;
        let id = self.names.id_of(topic);
        let outbox = Arc::new(Outbox::new(
            options,
            id,
            self.options.body_bytes_max as usize,
        ));
        let inbox = Inbox::new(&kernel);
        let handler = Publication::new(
            self.instance,
            self.options.key.clone(),
            Arc::clone(&inbox),
            Arc::clone(&self.poller),
            Arc::clone(&outbox),
        );
        let task = kernel.add(options.share, Box::new(handler))?;
        inbox.bind(task);
        if let Some(limit) = options.limit
            && self.options.channel.group().is_some()
        {
            let whole = LimitShare {
                rate: limit.rate,
                burst: limit.burst,
            };
            let expiry = self.options.announce_interval * 3;
            outbox.set_part(SubBucket::new(whole, self.instance, expiry, now));
        }
        let member = PublicationMember {
            inbox: Arc::clone(&inbox),
            outbox: Arc::clone(&outbox),
            follows: Vec::new(),
        };
        self.publications.insert(topic.clone(), member);
        self.refresh_entries(now);
        self.route_anew(topic, now);
        Ok((inbox, outbox))
    }

    /// Forgets a publication; its task is the caller's to end.
    pub(in crate::tempo) fn remove_publication(&mut self, topic: &TopicName, now: Instant) {
        if self.publications.remove(topic).is_some() {
            self.forget_unless_used(topic);
            self.refresh_entries(now);
        }
    }

    /// Makes the task of a subscription.
    ///
    /// # Errors
    /// [`ClientError::InUse`], [`ClientError::Kernel`].
    pub(in crate::tempo) fn add_subscription(
        &mut self,
        topic: &TopicName,
        options: SubscriptionOptions,
        callback: Callback,
        now: Instant,
    ) -> Result<(Arc<Inbox<subscription::Event>>, Arc<Tally>), ClientError> {
        if self.subscriptions.contains_key(topic) {
            return Err(ClientError::InUse {
                topic: topic.to_string(),
                what: "subscription",
            });
        }
        let kernel = self.kernel.upgrade().ok_or(ClientError::Ended)?;
        let inbox = Inbox::new(&kernel);
        let tally = Arc::new(Tally::default());
        let handler = Subscription::new(
            topic.clone(),
            callback,
            Arc::clone(&inbox),
            Arc::clone(&self.inbox),
            Arc::clone(&self.poller),
            Arc::clone(&tally),
            self.options.body_bytes_max,
        );
        let task = kernel.add(options.share, Box::new(handler))?;
        inbox.bind(task);
        let member = SubscriptionMember {
            inbox: Arc::clone(&inbox),
            tally: Arc::clone(&tally),
            ids: Vec::new(),
        };
        self.subscriptions.insert(topic.clone(), member);
        self.identify(topic);
        self.refresh_entries(now);
        self.route_anew(topic, now);
        Ok((inbox, tally))
    }

    /// Forgets a subscription; its task is the caller's to end.
    pub(in crate::tempo) fn remove_subscription(&mut self, topic: &TopicName, now: Instant) {
        if self.subscriptions.remove(topic).is_some() {
            self.listening.retain(|_, listened| listened != topic);
            self.forget_unless_used(topic);
            self.refresh_entries(now);
            self.route_anew(topic, now);
        }
    }

    /// Forgets subscriptions whose task is gone without their handle: their callbacks panicked.
    pub(super) fn forget_ended(&mut self, now: Instant) {
        let ended = self.subscriptions.iter();
        let ended = ended.filter(|(_, member)| member.tally.has_ended());
        let topics: Vec<TopicName> = ended.map(|(topic, _)| topic.clone()).collect();
        for topic in &topics {
            self.remove_subscription(topic, now);
        }
    }

    /// What publications have taken and not written yet.
    pub(in crate::tempo) fn outboxes(&self) -> Vec<Arc<Outbox>> {
        let members = self.publications.values();
        members.map(|member| Arc::clone(&member.outbox)).collect()
    }

    /// All publications, for the program's statistics.
    pub(in crate::tempo) fn publications(
        &self,
    ) -> impl Iterator<Item = (&TopicName, &Inbox<publication::Event>, &Outbox)> {
        let publications = self.publications.iter();
        publications.map(|(topic, member)| (topic, &*member.inbox, &*member.outbox))
    }

    /// All subscriptions, for the program's statistics.
    pub(in crate::tempo) fn subscriptions(
        &self,
    ) -> impl Iterator<Item = (&TopicName, &Inbox<subscription::Event>, &Tally)> {
        let subscriptions = self.subscriptions.iter();
        subscriptions.map(|(topic, member)| (topic, &*member.inbox, &*member.tally))
    }

    /// Tells a publication of this endpoint whom it sends to, if that has changed.
    pub(super) fn route_anew(&mut self, topic: &TopicName, now: Instant) {
        let Some(member) = self.publications.get_mut(topic) else {
            return;
        };
        let chosen = self.route.of(self.directory.subscribers_of(topic));
        let is_brokered = chosen.iter().any(|endpoint| endpoint.is_proxy);
        let mut follows: Vec<Subscriber> = chosen
            .into_iter()
            .map(|endpoint| Subscriber {
                instance: endpoint.instance,
                data: endpoint.data,
                udp: endpoint.udp,
            })
            .collect();
        // What it says itself it does not hear. A broker would pass it on.
        let has_peers = self.options.channel.group().is_some();
        if has_peers && !is_brokered && self.subscriptions.contains_key(topic) {
            follows.push(Subscriber {
                instance: self.instance,
                data: within_this_machine(self.announcer.speaker().data()),
                udp: self.options.udp,
            });
        }
        member.outbox.enforce(!is_brokered);
        if follows != member.follows {
            member.follows.clone_from(&follows);
            member.inbox.put(publication::Event::Follow(follows));
        }
        self.reckon(topic, now);
    }

    /// Reckons a publication's part of its limit anew.
    pub(super) fn reckon(&mut self, topic: &TopicName, now: Instant) {
        let Some(member) = self.publications.get(topic) else {
            return;
        };
        let peers: Vec<Peer> = self.directory.peers_of(topic).collect();
        let before_and_after = member.outbox.with_part(|part| {
            let before = part.held(now);
            part.update(peers, now);
            (before, part.held(now))
        });
        if let Some((before, after)) = before_and_after
            && before != after
        {
            self.is_stale = true;
            member.inbox.put(publication::Event::Reckon);
        }
    }

    /// Reckons the parts of all limits anew: time alone changes them too.
    pub(super) fn reckon_all(&mut self, now: Instant) {
        let limited = self.publications.iter();
        let limited = limited.filter(|(_, member)| member.outbox.with_part(|_| ()).is_some());
        let topics: Vec<TopicName> = limited.map(|(topic, _)| topic.clone()).collect();
        for topic in &topics {
            self.reckon(topic, now);
        }
    }

    /// Tells members the identifiers of their topics, where those have changed.
    pub(super) fn identify_all(&mut self) {
        for (topic, member) in &self.publications {
            member.outbox.set_id(self.names.id_of(topic));
        }
        let topics: Vec<TopicName> = self.subscriptions.keys().cloned().collect();
        for topic in &topics {
            self.identify(topic);
        }
    }

    /// Messages under an identifier that a topic left for one of the service's may still be on
    /// their way and are taken. An identifier that it left because another topic has it too is no
    /// longer its own.
    fn identify(&mut self, topic: &TopicName) {
        let id = self.names.id_of(topic);
        let Some(member) = self.subscriptions.get_mut(topic) else {
            return;
        };
        let mut ids = vec![id];
        if self.names.source_of(topic) == Some(Source::Service) {
            let former = member.ids.iter().copied();
            ids.extend(
                former
                    .filter(|&former| former.is_hashed() && self.names.topic_of(former).is_none()),
            );
        }
        if ids != member.ids {
            self.listening.retain(|_, listened| listened != topic);
            for &id in &ids {
                self.listening.insert(id, topic.clone());
            }
            member.ids.clone_from(&ids);
            member.inbox.put(subscription::Event::Identify(ids));
        }
    }

    /// Forgets the identifier of a topic that nobody here and nobody heard has any more.
    pub(super) fn forget_unless_used(&mut self, topic: &TopicName) {
        let is_used = self.publications.contains_key(topic)
            || self.subscriptions.contains_key(topic)
            || self.directory.knows(topic);
        if !is_used {
            self.names.forget(topic);
        }
    }
}
