//! Orders from outside: operations on topics and channels, contracts, shares, what others say of
//! topics, batches from other brokers, and the end.

use std::time::Duration;

use clock::Instant;
use kernel::{CpuShare, TaskId};
use limit::{Grant, Limit, Prolongation};
use link::{Durability, OnFull, TopicChange};

use super::TopicTable;
use crate::agenda::Target;
use crate::awaited::{KnownTopic, Teller};
use crate::backlog::Outside;
use crate::channel::ChannelKey;
use crate::ending::{Ending, Loss};
use crate::handover::{self, Batch, Handed, NotTaken, QueueName};
use crate::log::{TopicLog, UNLOGGED};
use crate::publish::Published;
use crate::refusal::Refusal;
use crate::remove;
use crate::save::{self, Saver};
use crate::sharing::{self, Group, LimitNumber};
use crate::spill::{BacklogAnswer, BacklogOrder};
use crate::topic::TopicKey;
use crate::traffic::Traffic;
use wire::TopicName;

impl TopicTable {
    /// Changes until [`TopicTable::end_order`] were ordered by the one who would be told of them.
    pub fn begin_order(&mut self) {
        self.telling.is_ordered = true;
    }

    /// From here on changes are news again.
    pub fn end_order(&mut self) {
        self.telling.is_ordered = false;
    }

    /// Pauses or unpauses a topic.
    pub fn pause(&mut self, key: TopicKey, paused: bool) {
        let Some(topic) = self.tree.topics.get_mut(key) else {
            return;
        };
        if std::mem::replace(&mut topic.paused, paused) == paused {
            return;
        }
        self.effects.catalog_changed = true;
        let change = match paused {
            true => TopicChange::TopicPaused,
            false => TopicChange::TopicResumed,
        };
        self.tell(key, change);
        self.mark_dirty(key);
    }

    /// Pauses or unpauses a channel.
    pub fn pause_channel(&mut self, key: ChannelKey, paused: bool) {
        let Some(owner) = self.tree.channels.get_mut(key) else {
            return;
        };
        if std::mem::replace(&mut owner.paused, paused) == paused {
            return;
        }
        let (topic, channel) = (owner.topic, owner.name.to_string());
        self.effects.catalog_changed = true;
        let change = match paused {
            true => TopicChange::ChannelPaused { channel },
            false => TopicChange::ChannelResumed { channel },
        };
        self.tell(topic, change);
        self.mark_dirty(topic);
    }

    /// Deletes a topic with its channels and messages.
    ///
    /// Under a controller a topic with a limit stays, empty: the next publish would make it anew, without the limit.
    pub fn delete(&mut self, key: TopicKey) {
        let Some(topic) = self.tree.topics.get(key) else {
            return;
        };
        let channels = topic.channels.clone();
        self.tell(key, TopicChange::TopicDeleted);
        for channel in channels {
            self.remove_channel(channel);
        }
        let (store, effects) = (&mut self.memory.store, &mut self.effects);
        let topic = self.tree.topics.get_mut(key);
        if let Some(topic) = topic.filter(|topic| self.leases.is_granted(topic)) {
            remove::discard_queue((key, topic), store, &mut self.agenda, effects);
            // Whoever was told, or gave the order, takes it for gone.
            let (change, told) = (TopicChange::TopicCreated, &mut effects.told);
            return self.telling.tell_anyway(&topic.name, change, told);
        }
        if let Some(topic) = self.tree.remove_topic(key) {
            self.reports.note_gone(&topic);
            if let Some(log) = &topic.log {
                let roomy = self.logging.forget(log);
                effects.roomy.extend(roomy);
            }
            remove::clear_topic(key, topic, store, effects);
        }
    }

    /// Deletes a channel with its messages; its consumers' connections are to be closed.
    pub fn delete_channel(&mut self, key: ChannelKey) {
        let Some(channel) = self.tree.channels.get(key) else {
            return;
        };
        let (owner, channel) = (channel.topic, channel.name.to_string());
        self.tell(owner, TopicChange::ChannelDeleted { channel });
        self.remove_channel(key);
        let Some(topic) = self.tree.topics.get(owner) else {
            return;
        };
        let is_last = topic.channels.is_empty() && topic.name.is_ephemeral();
        if is_last && !self.leases.is_granted(topic) {
            self.delete(owner);
        } else {
            self.mark_dirty(owner);
        }
    }

    fn remove_channel(&mut self, key: ChannelKey) {
        let (store, agenda) = (&mut self.memory.store, &mut self.agenda);
        remove::remove_channel(&mut self.tree, key, store, agenda, &mut self.effects);
    }

    /// Discards what waits in the topic's own queue.
    pub fn empty(&mut self, key: TopicKey) {
        self.tell(key, TopicChange::TopicEmptied);
        if let Some(topic) = self.tree.topics.get_mut(key) {
            let (store, agenda) = (&mut self.memory.store, &mut self.agenda);
            remove::discard_queue((key, topic), store, agenda, &mut self.effects);
        }
    }

    /// Discards all messages of a channel: waiting, deferred and in flight.
    pub fn empty_channel(&mut self, key: ChannelKey) {
        if let Some(channel) = self.tree.channels.get(key) {
            let (topic, channel) = (channel.topic, channel.name.to_string());
            self.tell(topic, TopicChange::ChannelEmptied { channel });
        }
        let (store, agenda) = (&mut self.memory.store, &mut self.agenda);
        remove::discard_channel(&mut self.tree, key, store, agenda, &mut self.effects);
    }

    /// Declares the behaviour of a topic's full channels.
    pub fn set_on_full(&mut self, key: TopicKey, on_full: Option<OnFull>) {
        let Some(topic) = self.tree.topics.get_mut(key) else {
            return;
        };
        if std::mem::replace(&mut topic.declared.on_full, on_full) != on_full {
            self.effects.catalog_changed = true;
            self.mark_dirty(key);
        }
    }

    /// Declares where a topic's messages are once they are accepted.
    pub fn set_durability(&mut self, key: TopicKey, durability: Durability) {
        if let Some(topic) = self.tree.topics.get_mut(key)
            && topic.declared.durability != durability
        {
            topic.declared.durability = durability;
            self.effects.catalog_changed = true;
        }
        self.begin_or_end_log(key);
    }

    /// Notes under which task a topic is served.
    pub fn set_task(&mut self, key: TopicKey, task: TaskId) {
        if let Some(topic) = self.tree.topics.get_mut(key) {
            topic.task = Some(task);
        }
    }

    /// Notes what a topic declares to be entitled to.
    pub fn set_cpu_share(&mut self, key: TopicKey, share: Option<CpuShare>) {
        if let Some(topic) = self.tree.topics.get_mut(key)
            && topic.declared.cpu_share != share
        {
            topic.declared.cpu_share = share;
            self.effects.catalog_changed = true;
        }
    }

    /// [`TopicTable::set_shared_limit`] of a limit that gossip has no number for.
    #[cfg(test)]
    pub fn set_limit(&mut self, key: TopicKey, limit: Option<Limit>, now: Instant) {
        self.set_shared_limit(key, limit, None, now);
    }

    /// Puts a limit on a topic, changes the one in force, or takes it away. `number` is its number
    /// in gossip, where brokers share it among themselves under a controller; without one the
    /// number follows from the topic's name.
    pub fn set_shared_limit(
        &mut self,
        key: TopicKey,
        limit: Option<Limit>,
        number: Option<LimitNumber>,
        now: Instant,
    ) {
        let Some(topic) = self.tree.topics.get_mut(key) else {
            return;
        };
        self.telling.catch_up(key, topic, &mut self.agenda);
        let (said, effects) = (self.leases.said(&self.shared), &mut self.effects);
        topic.hear(said);
        self.leases
            .put_limit(topic, limit, (number, said), effects, now);
        if limit.is_some_and(|limit| limit.is_gossiped()) {
            self.shared.note(key, topic);
        }
        effects.catalog_changed = true;
        self.agenda.mark(key, topic);
    }

    /// Hands a topic the share that a controller granted; an outdated one changes nothing. False
    /// where there is no limit to have a share of.
    pub fn grant(&mut self, key: TopicKey, grant: &Grant, now: Instant) -> bool {
        let Some(topic) = self.tree.topics.get_mut(key) else {
            return false;
        };
        topic.hear(self.leases.said(&self.shared));
        let granted = self.leases.grant(topic, grant, &mut self.effects, now);
        if granted == Some(true) {
            self.agenda.mark(key, topic);
        }
        granted.is_some()
    }

    /// Prolongs all leases that have not ended at `now`: none grows by that, and one that has ended stays ended. Each hears of it when it
    /// is looked at next, at the latest in its turn of [`TopicTable::settle_next`].
    pub fn prolong_leases(&mut self, by: Prolongation, now: Instant) {
        if self.leases.prolong(by, now) {
            self.settling.begin(self.tree.topics.slots());
        }
    }

    /// Shares limits with the brokers of `group` from now on. With another group than before every
    /// shared limit begins anew with its N-th part, and with only the tokens that its bucket held.
    /// `None`: nothing of such limits passes. Each limit hears of it when it is looked at next, as
    /// of `now`; messages that wait for it, in its turn of [`TopicTable::settle_next`].
    pub fn join(&mut self, group: Option<Group>, now: Instant) {
        if self.shared.join(group, now) {
            self.settling.begin(self.tree.topics.slots());
        }
    }

    /// Notes how things stand with the one who says what topics have. When it has said everything, and when it is given
    /// up, no topic is held any more: each goes on when something happens to it next, or in its turn of [`TopicTable::settle_next`].
    pub fn hear(&mut self, teller: Teller) {
        if self.telling.hear(teller) {
            self.settling.begin(self.tree.topics.slots());
        }
    }

    /// Has one topic more hear what was said of all; false where all have heard it.
    pub fn settle_next(&mut self, now: Instant) -> bool {
        let Some(slot) = self.settling.next() else {
            return false;
        };
        if let Some(key) = self.tree.topics.key_at(slot) {
            self.settle_topic(key, now);
        }
        self.settling.is_under_way()
    }

    /// Has a topic hear what was said of all, and puts into force what follows from it.
    pub(crate) fn settle_topic(&mut self, key: TopicKey, now: Instant) {
        let Some(topic) = self.tree.topics.get_mut(key) else {
            return;
        };
        self.telling.catch_up(key, topic, &mut self.agenda);
        topic.hear(self.leases.said(&self.shared));
        if let Some(limiter) = &mut topic.limiter {
            limiter.settle(now);
        }
        if topic.shares_limit() {
            sharing::look_again(key, topic, &mut self.agenda);
        }
    }

    /// Takes what was said of a topic. It is made unless the broker asked for it a moment ago: then it was here, and is gone
    /// since. Channels that it lacks are made, none is taken away, pauses become as said, and it is held no longer. An
    /// ephemeral channel is where its consumers are. False where nothing was made.
    ///
    /// # Errors
    /// [`Refusal`] at a bound; a topic that was held stays held.
    pub fn learn(&mut self, known: &KnownTopic) -> Result<bool, Refusal> {
        if self.telling.was_asked(&known.name) && self.find(known.name.as_str()).is_none() {
            return Ok(false);
        }
        self.begin_order();
        let made = self.make_as_said(known);
        self.end_order();
        self.let_flow(made?);
        Ok(true)
    }

    /// Holds a topic no longer that was asked for: its channels were made. One that is gone since is not made again.
    pub fn answered(&mut self, name: &TopicName) {
        self.telling.answered(name);
        if let Some(key) = self.find(name.as_str()) {
            self.let_flow(key);
        }
    }

    fn make_as_said(&mut self, known: &KnownTopic) -> Result<TopicKey, Refusal> {
        let key = self.find_or_create(known.name.as_str())?;
        let lasting = known.channels.iter();
        for (name, is_paused) in lasting.filter(|(name, _)| !name.is_ephemeral()) {
            let channel = self.find_or_create_channel(key, name)?;
            self.pause_channel(channel, *is_paused);
        }
        self.pause(key, known.is_paused);
        Ok(key)
    }

    fn let_flow(&mut self, key: TopicKey) {
        if let Some(topic) = self.tree.topics.get_mut(key)
            && topic.awaited.take().is_some()
        {
            self.agenda.mark(key, topic);
        }
    }

    /// Takes the answer to an order about a backlog. Each order to write or to read has one.
    pub fn hear_backlog(&mut self, answer: BacklogAnswer, now: Instant) {
        let (tree, store) = (&mut self.tree, &mut self.memory.store);
        let asking = (&mut self.agenda, &mut self.effects);
        self.outstanding.hear(answer, tree, store, asking, now);
    }

    /// Lifts the next batch of a queue; empty if there is none, or one is on its way.
    pub fn lift(&mut self, queue: &QueueName, patience: Duration, now: Instant) -> Vec<Handed> {
        let key = self.find(queue.topic.as_str());
        if let Some(key) = key
            && let Some(topic) = self.tree.topics.get_mut(key)
        {
            self.telling.catch_up(key, topic, &mut self.agenda);
        }
        handover::lift(&mut self.tree, &self.memory.store, queue, patience, now)
    }

    /// The batch of a queue that was lifted is with another broker, or is put back to where it was. Nothing happens to a queue that is gone or was
    /// emptied meanwhile.
    pub fn settle(&mut self, queue: &QueueName, is_taken: bool, now: Instant) {
        let parts = (&mut self.tree, &mut self.agenda, &mut self.effects);
        let store = &mut self.memory.store;
        handover::settle(parts, store, queue, is_taken, now);
    }

    /// Takes a batch from another broker into a queue here: all of it or nothing. One that was taken is not taken twice. Says what it is to
    /// be answered with, as a publish. A topic is
    /// made if need be; a channel of one that is here only where no controller says which there are.
    ///
    /// # Errors
    /// [`NotTaken`].
    pub fn take_over(
        &mut self,
        queue: &QueueName,
        batch: &Batch,
        now: Instant,
    ) -> Result<Published, NotTaken> {
        if handover::is_ephemeral(queue) {
            return Err(NotTaken::Ephemeral);
        }
        if self.leases.is_controlled && self.tree.lacks_channel(queue) {
            return Err(NotTaken::Unknown);
        }
        let key = self.find_or_create(queue.topic.as_str())?;
        let count = batch.messages.len();
        let bytes = batch.messages.iter().map(|each| each.body.len() as u64);
        if !self.memory.has_room_for_handed(key, count, bytes.sum()) {
            return Err(NotTaken::Full(count));
        }
        let channel = match &queue.channel {
            Some(name) => Some(self.find_or_create_channel(key, name)?),
            None => None,
        };
        let (store, intake) = (&mut self.memory.store, &mut self.intake);
        let Some(topic) = self.tree.topics.get_mut(key) else {
            return Ok(Published::Gone);
        };
        if let Some(log) = &topic.log
            && (log.is_full() || self.logging.is_full(key))
        {
            return Err(NotTaken::Full(count));
        }
        match channel {
            None => {
                handover::take_over_topic((key, topic), batch, intake, store, &self.bounds, now)?;
            }
            Some(channel_key) => {
                let wakeups = &mut self.agenda.wakeups;
                let wake = |at| wakeups.push(at, Target::Channel(channel_key));
                if let Some(channel) = self.tree.channels.get_mut(channel_key) {
                    let (bounds, to) = (&self.bounds, (channel, topic.log.as_deref_mut()));
                    handover::take_over_channel(to, batch, intake, store, bounds, now, wake)?;
                }
            }
        }
        if self.leases.is_controlled {
            // From now on the controller is told what is here.
            let new = || Box::new(Traffic::new(now));
            topic.reported.traffic.get_or_insert_with(new);
            topic.hear(self.leases.said(&self.shared));
            self.effects.report_wanted |= topic.asks_for_share(now);
        }
        let mut outcome = Published::Accepted;
        if let Some(log) = &mut topic.log {
            self.effects.note_log(key, log);
            outcome = log.awaited().map_or(outcome, Published::Logged);
        }
        self.agenda.mark(key, topic);
        Ok(outcome)
    }

    /// Takes nothing in any more: publishes find [`Published::Gone`](crate::Published::Gone), and those that wait are without a topic.
    pub fn begin_ending(&mut self, patience: Duration, now: Instant) {
        let (tree, agenda, effects) = (&mut self.tree, &mut self.agenda, &mut self.effects);
        let terms = (patience, self.bounds.backlog.is_some());
        self.ending = Some(Ending::begin(tree, agenda, effects, terms, now));
    }

    /// Whether there is nothing left that a consumer could be given, or nobody has finished anything for too long. Before it
    /// gives up, messages that hang at consumers which finish nothing go to those of the same channel which do.
    pub fn has_ended(&mut self, now: Instant) -> bool {
        let (tree, agenda) = (&mut self.tree, &mut self.agenda);
        let ending = self.ending.as_mut();
        ending.is_some_and(|ending| ending.has_ended(tree, agenda, now))
    }

    /// Writes out all that is in memory, where there may be something outside, a segment at a time: `give` carries an order out and says
    /// whether a segment is kept. What durable topics have is in their logs. Gives what is lost, as [`TopicTable::losses`] does where there is no such place. The table is of no
    /// use after that.
    pub fn save(&mut self, now: Instant, give: impl FnMut(BacklogOrder) -> bool) -> Vec<Loss> {
        if self.bounds.backlog.is_none() {
            return self.losses();
        }
        let store = &mut self.memory.store;
        let mut saver = Saver { store, give, now };
        saver.save_all(&mut self.tree, self.intake.service.as_mut())
    }

    /// Has a queue take up what it had outside when the broker ended, in the order of the numbers. Topic and channel are made if need be.
    /// False where the queue keeps nothing outside.
    ///
    /// # Errors
    /// [`Refusal`] at a bound.
    pub fn restore(
        &mut self,
        queue: &QueueName,
        segments: &[Outside],
        now: Instant,
    ) -> Result<bool, Refusal> {
        if handover::is_ephemeral(queue) {
            return Ok(false);
        }
        let key = self.find_or_create(queue.topic.as_str())?;
        let channel = match &queue.channel {
            Some(name) => Some(self.find_or_create_channel(key, name)?),
            None => None,
        };
        let Some(topic) = self.tree.topics.get_mut(key) else {
            return Ok(false);
        };
        let channel = channel.and_then(|key| self.tree.channels.get_mut(key));
        let number = channel
            .as_ref()
            .map_or(UNLOGGED, |channel| channel.log_number);
        let is_kept = save::restore(topic, channel, segments);
        TopicLog::adopt_restored(topic, (key, number), queue, &mut self.effects);
        if self.leases.is_controlled {
            let new = || Box::new(Traffic::new(now));
            topic.reported.traffic.get_or_insert_with(new);
            self.effects.report_wanted |= topic.asks_for_share(now);
        }
        self.agenda.mark(key, topic);
        Ok(is_kept)
    }

    /// Gives back memory that was not needed since the last call, a piece of it; returns whether
    /// there is more.
    pub fn trim(&mut self) -> bool {
        self.memory.store.trim()
    }

    /// Has publishers tried again if their topics may now have the memory that they wait for.
    pub fn offer_memory(&mut self) {
        let topics = &mut self.tree.topics;
        self.memory.offer(topics, &mut self.effects);
    }

    /// Tells the others what messages of this table hold; once a turn.
    pub fn tell_memory(&mut self) {
        self.memory.tell(&self.tree);
    }
}
