//! Independent runs on several threads; results come in the order of the questions, whichever
//! finishes first.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What `run` makes of each of `items`, on at most `jobs` threads. `done` is called after each.
pub fn map<T: Sync, R: Send>(
    jobs: usize,
    items: &[T],
    run: impl Fn(&T) -> R + Sync,
    done: impl Fn() + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                while let Some((at, item)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    items.get(at).map(|item| (at, item))
                } {
                    let result = run(item);
                    *results[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                    done();
                }
            });
        }
    });
    let results = results.into_iter();
    results
        .filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_each_is_told() {
        let items: Vec<u64> = (0..100).collect();
        for jobs in [0, 1, 3, 200] {
            let told = AtomicUsize::new(0);
            let squares = map(
                jobs,
                &items,
                |&item| item * item,
                || {
                    told.fetch_add(1, Ordering::Relaxed);
                },
            );
            assert_eq!(
                squares,
                items.iter().map(|item| item * item).collect::<Vec<_>>()
            );
            assert_eq!(told.into_inner(), 100);
        }
    }
}
