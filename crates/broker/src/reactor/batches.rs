//! Batches of publishes on their way to topics of other reactors: those of this turn, and empty
//! ones for the next.

use kernel::TaskId;
use wire::TopicName;

use super::inbox::PublishBatch;

/// Batches kept for use again, and the bytes that they hold: one for every topic that is published to within a turn.
const SPARE_BATCHES: usize = 4096;
const SPARE_BYTES: usize = 16 * 1024 * 1024;

/// The batches of a reactor that have not been posted, and empty ones.
#[derive(Debug, Default)]
#[expect(
    clippy::vec_box,
    reason = "they travel boxed; taking one must not allocate"
)]
pub(super) struct Batches {
    /// By the number of the task that reads them.
    open: Vec<Option<Box<PublishBatch>>>,
    /// Numbers of the open ones.
    begun: Vec<usize>,
    /// Those that had to make room for another topic of the same task.
    closed: Vec<Box<PublishBatch>>,
    spare: Vec<Box<PublishBatch>>,
    spare_bytes: usize,
}

impl Batches {
    /// The batch of this turn that publishes to `topic` of reactor `home` are gathered in.
    pub(super) fn of(
        &mut self,
        task: TaskId,
        topic: &TopicName,
        home: usize,
        from: usize,
    ) -> &mut PublishBatch {
        let number = task.index();
        if self.open.len() <= number {
            self.open.resize_with(number + 1, || None);
        }
        let is_its = |batch: &PublishBatch| batch.task == task && batch.topic == *topic;
        if !self.open[number].as_deref().is_some_and(is_its) {
            match self.open[number].take() {
                Some(other) => self.closed.push(other),
                None => self.begun.push(number),
            }
        }
        let Batches {
            open,
            spare,
            spare_bytes,
            ..
        } = self;
        open[number].get_or_insert_with(|| match spare.pop() {
            Some(mut batch) => {
                *spare_bytes -= batch.bytes.capacity();
                batch.begin(topic.clone(), home, task);
                batch
            }
            None => Box::new(PublishBatch::new(topic.clone(), home, from, task)),
        })
    }

    /// Takes the batches of this turn, those of one topic in their order.
    pub(super) fn take(&mut self, mut post: impl FnMut(Box<PublishBatch>)) {
        if self.begun.is_empty() {
            return;
        }
        self.closed.drain(..).for_each(&mut post);
        for number in self.begun.drain(..) {
            if let Some(batch) = self.open[number].take() {
                post(batch);
            }
        }
    }

    /// Keeps a batch that has come back, for its memory.
    pub(super) fn keep(&mut self, batch: Box<PublishBatch>) {
        let bytes = batch.bytes.capacity();
        if self.spare.len() < SPARE_BATCHES && self.spare_bytes + bytes <= SPARE_BYTES {
            self.spare_bytes += bytes;
            self.spare.push(batch);
        }
    }
}
