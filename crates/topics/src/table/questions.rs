//! Questions from outside: counters, catalog, reports, windows and recordings, intervals, queues to
//! hand over, losses.

use clock::Instant;
use limit::adaptor::HistoryLength;
use link::TopicState;

use super::TopicTable;
use crate::consumer::Subscription;
use crate::ending::{self, Ending, Loss};
use crate::handover::StrandedWalk;
use crate::latency::Landed;
use crate::report::{ReportWalk, TopicNews};
use crate::sharing::{IntervalEnd, Known, LimitNumber};
use crate::snapshot::{self, Step, Walk};
use crate::stats::{CatalogTopic, ClientStats};
use crate::topic::{Topic, TopicKey};
use crate::trace::TraceResult;
use crate::window::{WindowOrder, WindowResult};

impl TopicTable {
    /// Goes a step on; `client` fills in what only the connection knows. Channels of a topic are in no order.
    pub fn walk(
        &mut self,
        walk: &mut Walk,
        now: Instant,
        client: impl Fn(&Subscription) -> ClientStats,
    ) -> Step {
        let (telling, agenda) = (&self.telling, &mut self.agenda);
        let said = self.leases.said(&self.shared);
        let settle = |key, topic: &mut Topic| {
            telling.catch_up(key, topic, agenda);
            topic.hear(said);
        };
        let processing = self.processing.as_ref();
        walk.step(&mut self.tree, (now, processing), settle, client)
    }

    /// What limiters have heard, or are to hear.
    #[cfg(test)]
    pub fn said(&self) -> crate::words::Said<'_> {
        self.leases.said(&self.shared)
    }

    /// Slots that topics stand in, free ones included; see [`TopicTable::topic_at`].
    #[must_use]
    pub fn topic_slots(&self) -> usize {
        self.tree.topics.slots()
    }

    /// The topic in a slot, if there is one.
    #[must_use]
    pub fn topic_at(&self, slot: usize) -> Option<TopicKey> {
        self.tree.topics.key_at(slot)
    }

    /// What outlives a restart of a topic, if it does; its channels in no order.
    #[must_use]
    pub fn catalog_topic(&self, key: TopicKey) -> Option<CatalogTopic> {
        snapshot::catalog_topic(&self.tree, key)
    }

    /// A topic with all its channels.
    #[must_use]
    pub fn topic_state(&self, key: TopicKey) -> Option<TopicState> {
        snapshot::topic_state(&self.tree, key)
    }

    /// Messages that the store holds, and their body bytes.
    #[must_use]
    pub fn stored(&self) -> (u64, u64) {
        let store = &self.memory.store;
        (store.len() as u64, store.bytes())
    }

    /// Whether publishers wait for memory.
    #[must_use]
    pub fn waits_for_memory(&self) -> bool {
        self.memory.is_waited_for()
    }

    /// Whether there is memory that [`TopicTable::trim`] may give back.
    #[must_use]
    pub fn has_spare_memory(&self) -> bool {
        self.memory.store.has_spare()
    }

    /// Whether topics have yet to hear something that was said of all ([`TopicTable::settle_next`]).
    #[inline]
    #[must_use]
    pub fn is_settling(&self) -> bool {
        self.settling.is_under_way()
    }

    /// Nothing of what was said before counts: the next report is the first of a link.
    pub fn begin_reports(&mut self) {
        self.reports.begin_link();
    }

    /// Begins report `number`, in which topics take about `bytes_max`. It counts as sent when each topic is looked at: leases that answer it
    /// are counted from there, never from later.
    pub fn begin_report(&mut self, number: u64, bytes_max: usize, now: Instant) -> ReportWalk {
        self.leases.report_sent(number, now);
        self.telling.forget_asked();
        let slots = self.tree.topics.slots();
        self.reports.begin(number, bytes_max, slots)
    }

    /// Looks at one topic more; false where there is none.
    pub fn report_next(&mut self, walk: &mut ReportWalk, now: Instant) -> bool {
        let (telling, agenda) = (&self.telling, &mut self.agenda);
        let said = self.leases.said(&self.shared);
        let settle = |key, topic: &mut Topic| {
            telling.catch_up(key, topic, agenda);
            topic.hear(said);
        };
        self.reports
            .next(walk, &mut self.tree, &self.bounds, now, settle)
    }

    /// What there was to say. The next report goes on where this one had to end.
    pub fn end_report(&mut self, walk: ReportWalk) -> TopicNews {
        self.reports.end(walk)
    }

    /// Sets over how long reports tell of traffic.
    pub fn set_history_length(&mut self, length: HistoryLength) {
        self.reports.history_length = length;
    }

    /// Ends the estimate interval of the next shared limit, if it is over; `known` says what is known of the others. What to tell goes to
    /// `ends`: nothing of a limit that is not kept at present. `place` is 0 at first; false where there was none left.
    pub fn end_next_interval(
        &mut self,
        place: &mut usize,
        now: Instant,
        known: impl Fn(LimitNumber) -> Option<Known>,
        ends: &mut Vec<IntervalEnd>,
    ) -> bool {
        let parts = (&mut self.tree.topics, &mut self.agenda);
        self.shared
            .end_next_interval(place, parts, now, known, ends)
    }

    /// Opens a profiling window; one that is open is thrown away. False where the topic is gone.
    pub fn begin_window(&mut self, key: TopicKey, order: &WindowOrder, now: Instant) -> bool {
        let topic = self.tree.topics.get_mut(key);
        topic
            .map(|topic| topic.observed.begin_window(order, now))
            .is_some()
    }

    /// Closes the window and says what it showed; `None` where none is open, or for too long.
    pub fn end_window(&mut self, key: TopicKey, now: Instant) -> Option<WindowResult> {
        self.tree.topics.get_mut(key)?.observed.end_window(now)
    }

    /// Records a message that has reached its subscriber.
    pub fn record_landed(&mut self, landed: &Landed) {
        if let Some(topic) = self.tree.topics.get_mut(landed.probe.topic) {
            topic.observed.record_landed(landed);
        }
    }

    /// Begins to record a topic's arrivals; a recording that is open is thrown away. False where the topic is
    /// gone.
    pub fn begin_recording(&mut self, key: TopicKey, now: Instant) -> bool {
        let topic = self.tree.topics.get_mut(key);
        topic
            .map(|topic| topic.observed.begin_recording(now))
            .is_some()
    }

    /// Ends the recording and says what arrived; `None` where none is open, or for too long.
    pub fn end_recording(&mut self, key: TopicKey, now: Instant) -> Option<TraceResult> {
        self.tree.topics.get_mut(key)?.observed.end_recording(now)
    }

    /// Takes the releases logged since the last call: nanoseconds of the monotonic clock, ascending.
    pub fn take_releases(&mut self, key: TopicKey) -> Vec<u64> {
        let topic = self.tree.topics.get_mut(key);
        topic.map_or_else(Vec::new, |topic| topic.observed.take_releases())
    }

    /// Looks at one topic more for queues with messages to hand over; false where there is none.
    pub fn stranded_next(&mut self, walk: &mut StrandedWalk, now: Instant) -> bool {
        let (telling, agenda) = (&self.telling, &mut self.agenda);
        let settle = |key, topic: &mut Topic| telling.catch_up(key, topic, agenda);
        walk.step(&mut self.tree, &self.memory.store, now, settle)
    }

    /// When nothing more is waited for, as things stand.
    #[must_use]
    pub fn gives_up_at(&self) -> Option<Instant> {
        self.ending.as_ref().map(Ending::gives_up_at)
    }

    /// What would be lost now. Ephemeral topics and channels are left out: nobody was promised that they keep anything.
    #[must_use]
    pub fn losses(&self) -> Vec<Loss> {
        ending::losses(&self.tree)
    }
}
