//! The lock-free queues: nothing lost, nothing twice, nothing out of order.

use kernel::internals::{Fifo, Nodes, SchedulableTasks};
use loom::sync::Arc;
use loom::thread;

use super::check;

/// Two queues on one pool of nodes.
struct Pair {
    nodes: Nodes,
    left: Fifo,
    right: Fifo,
}

impl Pair {
    /// `count` numbers, all of them in the left queue.
    fn new(count: u32) -> Arc<Pair> {
        let pair = Pair {
            nodes: Nodes::new(count as usize + 2),
            left: Fifo::new(count),
            right: Fifo::new(count + 1),
        };
        for number in 0..count {
            pair.left.push(&pair.nodes, number, number);
        }
        Arc::new(pair)
    }

    fn move_one(&self, from: &Fifo, to: &Fifo) {
        if let Some((number, node)) = from.pop(&self.nodes) {
            to.push(&self.nodes, node, number);
        }
    }

    /// Everything in both queues, first that of the left.
    fn drain(&self) -> Vec<u32> {
        let mut numbers = Vec::new();
        for queue in [&self.left, &self.right] {
            while let Some((number, _node)) = queue.pop(&self.nodes) {
                numbers.push(number);
            }
            assert!(queue.is_empty(&self.nodes));
        }
        numbers
    }
}

#[test]
fn nodes_that_travel_between_two_queues_lose_nothing() {
    check(3, || {
        let pair = Pair::new(2);
        let there = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                pair.move_one(&pair.left, &pair.right);
                pair.move_one(&pair.left, &pair.right);
            })
        };
        pair.move_one(&pair.right, &pair.left);
        pair.move_one(&pair.left, &pair.right);
        there.join().expect("no panic");
        let mut numbers = pair.drain();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1]);
    });
}

#[test]
fn a_slow_reader_is_not_deceived_by_a_node_that_came_back() {
    check(3, || {
        let pair = Pair::new(2);
        let slow = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || pair.left.pop(&pair.nodes))
        };
        let mut taken = Vec::new();
        // The queue's first dummy becomes its dummy again.
        taken.extend(pair.left.pop(&pair.nodes));
        taken.extend(pair.left.pop(&pair.nodes));
        let (number, node) = taken.remove(0);
        pair.left.push(&pair.nodes, node, number);
        taken.extend(pair.left.pop(&pair.nodes));
        taken.extend(slow.join().expect("no panic"));
        taken.extend(std::iter::from_fn(|| pair.left.pop(&pair.nodes)));
        taken.sort_unstable();
        let numbers: Vec<u32> = taken.iter().map(|&(number, _)| number).collect();
        assert_eq!(numbers, [0, 1]);
        assert_ne!(taken[0].1, taken[1].1, "each got a node of its own");
    });
}

#[test]
fn a_slow_writer_is_not_deceived_by_a_node_that_went_elsewhere() {
    check(3, || {
        let pair = Pair::new(2);
        let (slow_number, slow_node) = pair.left.pop(&pair.nodes).expect("two");
        let (number, node) = pair.left.pop(&pair.nodes).expect("two");
        let slow = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || pair.left.push(&pair.nodes, slow_node, slow_number))
        };
        // The left queue's last node becomes the right one's.
        pair.left.push(&pair.nodes, node, number);
        let (moved, node) = pair.left.pop(&pair.nodes).expect("one is in");
        pair.right.push(&pair.nodes, node, moved);
        slow.join().expect("no panic");
        let left = pair.left.pop(&pair.nodes).map(|(number, _)| number);
        let right = pair.right.pop(&pair.nodes).map(|(number, _)| number);
        assert_eq!(
            left,
            Some(if moved == number { slow_number } else { number })
        );
        assert_eq!(right, Some(moved));
    });
}

#[test]
fn a_slow_reader_does_not_overlook_what_is_in() {
    check(3, || {
        let pair = Pair::new(2);
        let other = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || pair.move_one(&pair.left, &pair.right))
        };
        assert!(!pair.left.is_empty(&pair.nodes), "one of two is taken");
        assert!(pair.left.pop(&pair.nodes).is_some());
        other.join().expect("no panic");
    });
}

#[test]
fn three_threads_on_two_queues_lose_nothing() {
    check(2, || {
        let pair = Pair::new(2);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let pair = Arc::clone(&pair);
                thread::spawn(move || pair.move_one(&pair.left, &pair.right))
            })
            .collect();
        pair.move_one(&pair.right, &pair.left);
        for thread in threads {
            thread.join().expect("no panic");
        }
        let mut numbers = pair.drain();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1]);
    });
}

#[test]
fn what_one_thread_puts_in_comes_out_in_order() {
    check(3, || {
        let pair = Pair::new(2);
        let writer = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                pair.move_one(&pair.left, &pair.right);
                pair.move_one(&pair.left, &pair.right);
            })
        };
        let mut seen = Vec::new();
        for _ in 0..2 {
            seen.extend(pair.right.pop(&pair.nodes).map(|(number, _)| number));
        }
        writer.join().expect("no panic");
        seen.extend(pair.drain());
        assert_eq!(seen, [0, 1]);
    });
}

#[test]
fn schedulable_tasks_forget_nobody_and_give_nobody_twice() {
    check(2, || {
        let tasks = Arc::new(SchedulableTasks::new(2, 100, 2));
        let threads: Vec<_> = [(0, 100), (1, -5)]
            .into_iter()
            .map(|(task, credits_ns)| {
                let tasks = Arc::clone(&tasks);
                thread::spawn(move || {
                    tasks.put(task, SchedulableTasks::first_node(task), credits_ns);
                    // Somebody's, not always its own.
                    tasks.take()
                })
            })
            .collect();
        let mut taken = Vec::new();
        taken.extend(tasks.take());
        for thread in threads {
            taken.extend(thread.join().expect("no panic"));
        }
        while let Some(one) = tasks.take() {
            taken.push(one);
        }
        assert!(tasks.is_empty());
        let mut numbers: Vec<u32> = taken.iter().map(|&(task, _)| task).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1]);
        let mut nodes: Vec<u32> = taken.iter().map(|&(_, node)| node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        assert_eq!(nodes.len(), 2, "each got a node of its own");
    });
}

#[test]
fn a_task_put_in_is_found_by_its_own_thread() {
    check(2, || {
        let tasks = Arc::new(SchedulableTasks::new(2, 100, 2));
        let other = {
            let tasks = Arc::clone(&tasks);
            thread::spawn(move || {
                tasks.put(1, SchedulableTasks::first_node(1), 60);
                tasks.take().is_some()
            })
        };
        tasks.put(0, SchedulableTasks::first_node(0), 10);
        let found = tasks.take().is_some();
        let others = other.join().expect("no panic");
        let left = std::iter::from_fn(|| tasks.take()).count();
        assert_eq!(usize::from(found) + usize::from(others) + left, 2);
        assert!(found && others, "who puts one in finds one");
    });
}
