//! The queue of a task's events: bounded, first in, first out, for any number of writers and readers.
//!
//! Lock-free, from the same queues as SchedulableTasks: an event lies in a cell, one queue holds the cells with an event in
//! their order and another the free ones. A writer that is stopped half-way keeps a cell, but nobody waiting: that
//! matters where threads with real-time priority read what ordinary threads write. Only a writer that finds no free
//! cell, and is to [block](OnFull::Block), sleeps, until the next reader wakes it (Tempo, section on scalability for multi-core
//! architectures).

use std::sync::{Arc, Weak};

use clock::Instant;

use crate::error::KernelError;
use crate::fifo::{Fifo, NodeIndex, Nodes};
use crate::scheduler::{TaskId, Turn};
use crate::share::Share;
use crate::sync::{
    AtomicBool, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, Tally, fence, lock, wait,
};
use crate::worker::{Kernel, Serve};

const CAPACITY_MAX: usize = 1 << 24;

/// What happens to an event that finds its queue full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFull {
    /// Its writer waits until a reader has made room. A thread that serves tasks should not write to such a queue: when all
    /// of them wait, nobody is left to make room.
    #[default]
    Block,
    /// It is dropped and counted.
    Drop,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Put {
    /// It is in the queue.
    Queued,
    /// The queue was full; the event is gone.
    Dropped,
    /// Nobody will read the queue any more; the event is gone.
    Closed,
}

/// A bounded queue.
#[derive(Debug)]
pub struct EventQueue<E> {
    cells: Box<[Mutex<Option<E>>]>,
    nodes: Nodes,
    waiting: Fifo,
    free: Fifo,
    on_full: OnFull,
    dropped: Tally,
    is_closed: AtomicBool,
    /// Writers that wait for room; written under the lock.
    blocked: AtomicUsize,
    room: Mutex<()>,
    room_made: Condvar,
}

/// The writing end of a task's queue, see [`EventWriter::new`].
#[derive(Debug)]
pub struct EventWriter<E> {
    queue: Arc<EventQueue<E>>,
    kernel: Weak<Kernel>,
    task: TaskId,
}

/// The reading end: a task's handler.
struct EventReader<E, F> {
    queue: Arc<EventQueue<E>>,
    handle: F,
}

impl<E> EventQueue<E> {
    /// An empty queue for `capacity` events.
    ///
    /// # Errors
    /// [`KernelError::QueueCapacity`].
    pub fn new(capacity: usize, on_full: OnFull) -> Result<EventQueue<E>, KernelError> {
        if !(1..=CAPACITY_MAX).contains(&capacity) {
            return Err(KernelError::QueueCapacity(capacity));
        }
        // A node for every cell, and the dummies of the two queues.
        let count = capacity as NodeIndex;
        let nodes = Nodes::new(capacity + 2);
        let free = Fifo::new(count + 1);
        for cell in 0..count {
            free.push(&nodes, cell, cell);
        }
        Ok(EventQueue {
            cells: (0..capacity).map(|_| Mutex::new(None)).collect(),
            nodes,
            waiting: Fifo::new(count),
            free,
            on_full,
            dropped: Tally::default(),
            is_closed: AtomicBool::new(false),
            blocked: AtomicUsize::new(0),
            room: Mutex::new(()),
            room_made: Condvar::new(),
        })
    }

    /// Puts an event at the end. Where the queue is full the writer waits, or the event is dropped.
    pub fn put(&self, event: E) -> Put {
        self.put_or(event, || ())
    }

    /// Takes the first event.
    pub fn take(&self) -> Option<E> {
        let (cell, node) = self.waiting.pop(&self.nodes)?;
        // Free: whoever has its number has the cell.
        let event = lock(&self.cells[cell as usize]).take();
        self.free.push(&self.nodes, node, cell);
        // Between the room that was made and the look at who waits for it, as in `block`.
        fence(Ordering::SeqCst);
        if self.blocked.load(Ordering::Relaxed) > 0 {
            let _room = lock(&self.room);
            self.room_made.notify_one();
        }
        event
    }

    /// Says that nobody will read any more: writers are told, those that wait too. Events in the queue stay.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        let _room = lock(&self.room);
        self.room_made.notify_all();
    }

    /// Whether no event waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty(&self.nodes)
    }

    /// Events that fit.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.cells.len()
    }

    /// Events that were dropped because the queue was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    /// Puts an event in; `on_full` is called where it finds no room, before anything else is done about it.
    fn put_or(&self, event: E, on_full: impl FnOnce()) -> Put {
        if self.is_closed.load(Ordering::Acquire) {
            return Put::Closed;
        }
        let place = self.free.pop(&self.nodes).or_else(|| {
            on_full();
            match self.on_full {
                OnFull::Block => self.block(),
                OnFull::Drop => None,
            }
        });
        let Some((cell, node)) = place else {
            return match self.on_full {
                OnFull::Block => Put::Closed,
                OnFull::Drop => {
                    self.dropped.add_shared(1);
                    Put::Dropped
                }
            };
        };
        *lock(&self.cells[cell as usize]) = Some(event);
        self.waiting.push(&self.nodes, node, cell);
        Put::Queued
    }

    /// Waits for a free cell; `None` where the queue is closed.
    fn block(&self) -> Option<(u32, NodeIndex)> {
        let mut room: MutexGuard<'_, ()> = lock(&self.room);
        self.blocked.fetch_add(1, Ordering::Relaxed);
        let place = loop {
            fence(Ordering::SeqCst);
            if self.is_closed.load(Ordering::Acquire) {
                break None;
            }
            if let Some(place) = self.free.pop(&self.nodes) {
                break Some(place);
            }
            room = wait(&self.room_made, room);
        };
        self.blocked.fetch_sub(1, Ordering::Relaxed);
        place
    }
}

impl<E: Send + 'static> EventWriter<E> {
    /// Makes a task of `kernel` that reads `queue` and calls `handle` for one event per turn, as in the paper. The queue is
    /// closed when the task is gone.
    ///
    /// # Errors
    /// Those of [`Kernel::add`].
    pub fn new(
        kernel: &Arc<Kernel>,
        share: Option<Share>,
        queue: EventQueue<E>,
        handle: impl FnMut(E) + Send + 'static,
    ) -> Result<EventWriter<E>, KernelError> {
        let queue = Arc::new(queue);
        let reader = EventReader {
            queue: Arc::clone(&queue),
            handle,
        };
        Ok(EventWriter {
            task: kernel.add(share, Box::new(reader))?,
            // Handlers may hold writers, and the kernel holds the handlers.
            kernel: Arc::downgrade(kernel),
            queue,
        })
    }

    /// Puts an event into the queue and tells the kernel.
    pub fn put(&self, event: E, now: Instant) -> Put {
        let Some(kernel) = self.kernel.upgrade() else {
            return Put::Closed;
        };
        let put = self.queue.put_or(event, || kernel.note_full(self.task));
        if put == Put::Queued {
            kernel.post(self.task, 1, now);
        }
        put
    }

    /// The task that reads.
    #[must_use]
    pub fn task(&self) -> TaskId {
        self.task
    }

    /// The queue between.
    #[must_use]
    pub fn queue(&self) -> &EventQueue<E> {
        &self.queue
    }
}

impl<E> Clone for EventWriter<E> {
    fn clone(&self) -> Self {
        EventWriter {
            queue: Arc::clone(&self.queue),
            kernel: Weak::clone(&self.kernel),
            task: self.task,
        }
    }
}

impl<E: Send, F: FnMut(E) + Send> Serve for EventReader<E, F> {
    fn serve(&mut self, _turn: &Turn) -> usize {
        self.queue.take().map_or(0, |event| {
            (self.handle)(event);
            1
        })
    }
}

impl<E, F> Drop for EventReader<E, F> {
    fn drop(&mut self) {
        self.queue.close();
    }
}
