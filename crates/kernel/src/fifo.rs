//! Lock-free FIFO queues of numbers that draw their nodes from one pool.
//!
//! Michael and Scott's queue (Tempo, reference 16) with indices instead of pointers. A number stands in at most one queue, so
//! the pool holds one node per number and one per queue (its dummy), and nothing is ever allocated: whoever puts a
//! number in gives a node, whoever takes it out gets one. Every link carries a count that grows with each write, which
//! is what tells a node that came back from the same node seen before.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Index that stands for "no node".
const NIL: u32 = u32::MAX;

/// A node of the pool; whoever holds its number owns it.
pub type NodeIndex = u32;

/// Nodes for all queues.
#[derive(Debug)]
pub struct Nodes(Box<[Node]>);

#[derive(Debug)]
struct Node {
    next: AtomicU64,
    value: AtomicU32,
}

/// One queue.
#[derive(Debug)]
pub struct Fifo {
    head: AtomicU64,
    tail: AtomicU64,
}

/// A node index and the count of writes to the word that it was read from.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Link {
    index: u32,
    count: u32,
}

impl Nodes {
    /// A pool of `count` nodes, which are handed out by number, each once.
    pub fn new(count: usize) -> Nodes {
        let node = || Node {
            next: AtomicU64::new(Link::end(0).to_bits()),
            value: AtomicU32::new(0),
        };
        Nodes((0..count).map(|_| node()).collect())
    }

    fn get(&self, index: u32) -> &Node {
        &self.0[index as usize]
    }
}

impl Fifo {
    /// An empty queue; `dummy` is a node that nobody else has.
    pub fn new(dummy: NodeIndex) -> Fifo {
        let link = Link {
            index: dummy,
            count: 0,
        };
        Fifo {
            head: AtomicU64::new(link.to_bits()),
            tail: AtomicU64::new(link.to_bits()),
        }
    }

    /// Puts `value` at the end, in `node`, which belongs to the queue from now on.
    pub fn push(&self, nodes: &Nodes, node: NodeIndex, value: u32) {
        let new = nodes.get(node);
        new.value.store(value, Ordering::Relaxed);
        // The count goes on from where the node's last use left it, not anew.
        let last = Link::from_bits(new.next.load(Ordering::Relaxed));
        new.next
            .store(Link::end(last.count).to_bits(), Ordering::Release);
        loop {
            let tail = Link::load(&self.tail);
            let behind = &nodes.get(tail.index).next;
            let next = Link::load(behind);
            // The node may have left the queue meanwhile; then `next` says nothing about this one.
            if Link::load(&self.tail) != tail {
                continue;
            }
            if next.index != NIL {
                tail.advance(&self.tail, next.index);
            } else if next.advance(behind, node) {
                // Where this fails somebody else has done it.
                tail.advance(&self.tail, node);
                return;
            }
        }
    }

    /// Takes the first number, with a node for the taker to keep.
    pub fn pop(&self, nodes: &Nodes) -> Option<(u32, NodeIndex)> {
        loop {
            let head = Link::load(&self.head);
            let tail = Link::load(&self.tail);
            let next = Link::load(&nodes.get(head.index).next);
            if Link::load(&self.head) != head {
                continue;
            }
            if next.index == NIL {
                return None;
            }
            if head.index == tail.index {
                tail.advance(&self.tail, next.index);
                continue;
            }
            // Read before the head moves on: after that the node may be given away.
            let value = nodes.get(next.index).value.load(Ordering::Relaxed);
            if head.advance(&self.head, next.index) {
                return Some((value, head.index));
            }
        }
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self, nodes: &Nodes) -> bool {
        loop {
            let head = Link::load(&self.head);
            let next = Link::load(&nodes.get(head.index).next);
            if Link::load(&self.head) == head {
                return next.index == NIL;
            }
        }
    }
}

impl Link {
    fn end(count: u32) -> Link {
        Link { index: NIL, count }
    }

    fn load(from: &AtomicU64) -> Link {
        Link::from_bits(from.load(Ordering::Acquire))
    }

    /// Makes `word` point to `index` if it still holds this link; says whether it did.
    fn advance(self, word: &AtomicU64, index: u32) -> bool {
        let new = Link {
            index,
            count: self.count.wrapping_add(1),
        };
        word.compare_exchange(
            self.to_bits(),
            new.to_bits(),
            Ordering::AcqRel,
            Ordering::Relaxed,
        )
        .is_ok()
    }

    fn to_bits(self) -> u64 {
        u64::from(self.count) << 32 | u64::from(self.index)
    }

    fn from_bits(bits: u64) -> Link {
        Link {
            index: bits as u32,
            count: (bits >> 32) as u32,
        }
    }
}
