//! The outbox by itself: bounds, batches, limits.

use std::sync::Arc;

use kernel::{Bell, Kernel, SchedulerConfig};
use limit::{Limit, Share};
use wire::announce::InstanceId;

use super::*;

fn inbox() -> Arc<Inbox<Event>> {
    let kernel = Kernel::new(SchedulerConfig::default(), Arc::new(Bell::new()));
    // It needs no task: what is put in is taken by the test.
    Inbox::new(&Arc::new(kernel.expect("the default is valid")))
}

fn outbox(options: PublicationOptions) -> Outbox {
    Outbox::new(options, TopicId(7), 100)
}

fn put(outbox: &Outbox, body: &[u8], now: Instant) -> Result<Put, ClientError> {
    outbox.put(body, &inbox(), false, || now)
}

#[test]
fn the_task_is_told_once_per_batch() {
    let outbox = outbox(PublicationOptions::default());
    let now = Instant::ZERO;
    assert_eq!(put(&outbox, b"a", now).expect("room"), Put::First);
    assert_eq!(put(&outbox, b"b", now).expect("room"), Put::Behind);
    let mut batch = Batch::default();
    assert!(outbox.exchange(&mut batch));
    assert_eq!((batch.messages, batch.bytes.len()), (2, 18));
    // The task is still busy with it, and looks again before it rests.
    assert_eq!(put(&outbox, b"c", now).expect("room"), Put::Behind);
    assert!(!outbox.wait_until_written(Duration::ZERO));
    let mut batch = Batch::default();
    assert!(outbox.exchange(&mut batch));
    let mut batch = Batch::default();
    assert!(!outbox.exchange(&mut batch));
    assert!(outbox.wait_until_written(Duration::ZERO));
    assert_eq!(put(&outbox, b"d", now).expect("room"), Put::First);
}

#[test]
fn bounds_hold_and_one_message_always_fits() {
    for (queue_bytes, queue_messages, fit) in [(1, 100, 1), (40, 100, 3), (10_000, 5, 5)] {
        for on_full in [OnFull::Drop, OnFull::Block] {
            let outbox = outbox(PublicationOptions {
                queue_bytes,
                queue_messages,
                on_full,
                ..PublicationOptions::default()
            });
            for number in 0..10 {
                let is_taken = match put(&outbox, b"0123", Instant::ZERO) {
                    Ok(Put::Dropped) => on_full != OnFull::Drop,
                    Err(ClientError::Full) => on_full != OnFull::Block,
                    other => other.is_ok(),
                };
                assert_eq!(is_taken, number < fit, "{number} of {fit}, {on_full:?}");
            }
            let counts = outbox.counts();
            assert_eq!((counts.published, counts.waits), (fit, 10 - fit));
            let dropped = if on_full == OnFull::Drop { 10 - fit } else { 0 };
            assert_eq!(counts.dropped_full, dropped);
        }
    }
}

#[test]
fn a_closed_outbox_takes_nothing_and_lets_writers_go() {
    let outbox = Arc::new(outbox(PublicationOptions {
        queue_messages: 1,
        ..PublicationOptions::default()
    }));
    assert_eq!(put(&outbox, b"a", Instant::ZERO).expect("room"), Put::First);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| outbox.put(b"b", &inbox(), true, || Instant::ZERO));
        outbox.close();
        let outcome = writer.join().expect("it does not panic");
        assert!(matches!(outcome, Err(ClientError::Ended)), "{outcome:?}");
    });
    let outcome = put(&outbox, &[0; 101], Instant::ZERO);
    assert!(
        matches!(outcome, Err(ClientError::TooLong { .. })),
        "{outcome:?}"
    );
}

/// A limit of 10 messages/s and a burst of 2, of which the publication has its part from 3 s on.
fn limited(on_exceed: OnExceed) -> (Outbox, Instant) {
    let limit = Limit::messages(10.0, 2.0).expect("a limit");
    let outbox = outbox(PublicationOptions {
        limit: Some(Limit { on_exceed, ..limit }),
        ..PublicationOptions::default()
    });
    let whole = Share {
        rate: limit.rate,
        burst: limit.burst,
    };
    let expiry = Duration::from_secs(3);
    let mut now = Instant::ZERO;
    outbox.set_part(SubBucket::new(whole, InstanceId(1), expiry, now));
    assert_eq!(outbox.departure(1, now), None, "a newcomer may use nothing");
    for _ in 0..4 {
        outbox.with_part(|part| {
            part.update([], now);
            part.announced(now);
        });
        now += Duration::from_secs(1);
    }
    outbox.with_part(|part| part.update([], now));
    // It began empty at 3 s: by now it is full.
    (outbox, now)
}

#[test]
fn delayed_messages_leave_when_their_tokens_are_there() {
    let (outbox, now) = limited(OnExceed::Delay);
    assert!(outbox.delays());
    assert_eq!(outbox.departure(1, now), Some(now));
    assert_eq!(outbox.departure(1, now), Some(now));
    let next = now + Duration::from_millis(100);
    for _ in 0..3 {
        assert_eq!(outbox.departure(1, now), Some(next), "asking takes nothing");
    }
    assert_eq!(outbox.departure(1, next), Some(next));
    assert_eq!(
        outbox.departure(1, next),
        Some(next + Duration::from_millis(100))
    );
    // A broker does it.
    outbox.enforce(false);
    assert_eq!(outbox.departure(1, next), Some(next));
}

#[test]
fn excess_is_dropped_or_rejected_as_the_limit_says() {
    for on_exceed in [OnExceed::Drop, OnExceed::Reject] {
        let (outbox, now) = limited(on_exceed);
        assert_eq!(put(&outbox, b"a", now).expect("a token"), Put::First);
        assert_eq!(put(&outbox, b"b", now).expect("a token"), Put::Behind);
        match put(&outbox, b"c", now) {
            Ok(Put::Dropped) => assert_eq!(on_exceed, OnExceed::Drop),
            Err(ClientError::OverLimit { .. }) => assert_eq!(on_exceed, OnExceed::Reject),
            other => panic!("{other:?}"),
        }
        let counts = outbox.counts();
        assert_eq!((counts.published, counts.dropped_limit), (2, 1));
        let later = now + Duration::from_millis(100);
        assert_eq!(put(&outbox, b"d", later).expect("a token"), Put::Behind);
    }
}
