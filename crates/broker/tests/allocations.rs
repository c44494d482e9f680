//! No heap allocation per message in steady state: a counting allocator watches the reactor.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use broker::stats::StatsFilter;
use broker::{Broker, Config, Handle};
use client::{Acknowledgement, Publisher, PublisherOptions, Subscriber, SubscriberOptions};
use limit::{Burst, Limit, OnExceed, SharePolicy};
use link::Contract;

/// Counts what threads other than the test's own allocate: that is, the reactor.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicI64 = AtomicI64::new(0);

thread_local! {
    static IS_TEST: Cell<bool> = const { Cell::new(false) };
}

/// Each test watches the whole process, so they take turns.
static TURN: Mutex<()> = Mutex::new(());

fn count(bytes: i64) {
    // While a thread ends its locals are gone; nothing of the reactor's work happens then.
    if IS_TEST.try_with(|is_test| !is_test.get()).unwrap_or(false) {
        ALLOCATIONS.fetch_add(u64::from(bytes > 0), Ordering::Relaxed);
        BYTES.fetch_add(bytes, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc`, which is passed on as it is.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: `pointer` came from `System` with this layout, as all of ours do.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(-(layout.size() as i64));
        count(size as i64);
        // SAFETY: `pointer` came from `System` with this layout, as all of ours do.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A round trip of `messages` through the broker, in pieces that cut commands anywhere, from publishers in turn.
fn round_trip(
    publishers: &mut [Publisher],
    subscriber: &mut Subscriber,
    messages: usize,
    large: bool,
) {
    let body = vec![7; if large { 3000 } else { 100 }];
    let count = publishers.len();
    for number in 0..messages {
        let publisher = &mut publishers[number / 64 % count];
        publisher.publish("t", &body).expect("published");
        if number % 64 == 63 {
            publisher.flush().expect("acknowledged");
            for _ in 0..64 {
                let id = subscriber.next_message().expect("a message comes").id;
                subscriber.finish(id).expect("finished");
            }
            subscriber.flush().expect("written");
        }
    }
}

fn allocations_of_10_000_messages(
    threads: usize,
    acknowledgement: Acknowledgement,
    limit: Option<Limit>,
    large: bool,
) -> u64 {
    let config = Config {
        tcp_address: SocketAddr::from(([127, 0, 0, 1], 0)),
        threads,
        ..Config::default()
    };
    let broker = Broker::start(config).expect("a broker starts");
    let handle: Handle = broker.handle();
    let options = PublisherOptions {
        acknowledgement,
        ..PublisherOptions::default()
    };
    // One on each reactor: connections are dealt to them in turn.
    let connect = |_| Publisher::connect(broker.tcp_address(), options.clone()).expect("connects");
    let mut publishers: Vec<Publisher> = (0..threads).map(connect).collect();
    let mut subscriber =
        Subscriber::connect(broker.tcp_address(), "t", "c", SubscriberOptions::default())
            .expect("subscribes");
    if let Some(limit) = limit {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        runtime
            .block_on(handle.set_contract("t".parse().expect("valid"), Contract::of_limit(limit)))
            .expect("set");
    }
    round_trip(&mut publishers, &mut subscriber, 2_560, large);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    round_trip(&mut publishers, &mut subscriber, 10_240, large);
    let after = ALLOCATIONS.load(Ordering::Relaxed);
    broker.stop();
    after - before
}

#[test]
fn steady_state_allocates_nothing() {
    let _turn = TURN.lock();
    IS_TEST.set(true);
    let cumulative = Acknowledgement::Cumulative {
        every_messages: 64,
        interval_ms: 5,
    };
    let limit = Some(Limit::messages(1e6, 16.0).expect("valid"));
    let shared = |sharing, on_exceed| {
        limit.map(|limit| Limit {
            sharing,
            on_exceed,
            // Nothing is dropped, for each message is waited for.
            burst: Burst::new(1e5).expect("valid"),
            ..limit
        })
    };
    let (fps, grd) = (
        shared(SharePolicy::Fps, OnExceed::Delay),
        shared(SharePolicy::Grd, OnExceed::Drop),
    );
    let each = Acknowledgement::Each;
    for (name, threads, acknowledgement, limit, large) in [
        ("an OK each", 1, each, None, false),
        ("cumulative acks", 1, cumulative, None, false),
        ("a limit that delays", 1, cumulative, limit, false),
        ("a limit shared by flows", 1, cumulative, fps, false),
        ("a limit shared by random drop", 1, cumulative, grd, false),
        ("large bodies", 1, each, None, true),
        ("from two reactors", 2, each, None, false),
    ] {
        let allocations = allocations_of_10_000_messages(threads, acknowledgement, limit, large);
        // Queues and buffers may reach a new high mark late, when the machine was busy elsewhere and
        // more came together than ever before; a cost per message would show ten thousand times.
        assert!(
            allocations <= 100,
            "{name}: {allocations} allocations for 10,240 messages"
        );
    }
}

/// A broker with one thread; from here on what this thread allocates is its clients', which are not counted.
fn counted_broker() -> Broker {
    IS_TEST.set(true);
    let config = Config {
        tcp_address: SocketAddr::from(([127, 0, 0, 1], 0)),
        threads: 1,
        ..Config::default()
    };
    Broker::start(config).expect("a broker starts")
}

#[test]
fn ten_thousand_idle_connections_take_less_than_8_kib_each() {
    const CONNECTIONS: i64 = 10_000;
    let _turn = TURN.lock();
    let broker = counted_broker();
    let mut hello = wire::MAGIC_V2.to_vec();
    wire::command::put_identify(
        &mut hello,
        br#"{"client_id":"sensor","feature_negotiation":false}"#,
    );
    wire::command::put_pub(&mut hello, "t", &[7; 100]);
    // A descriptor table of its own lets the clients' half not count against the broker's.
    // SAFETY: only this thread's view of the descriptors changes, and it uses none of the broker's.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
    let before = BYTES.load(Ordering::Relaxed);
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut client = TcpStream::connect(broker.tcp_address()).expect("connects");
        client.write_all(&hello).expect("written");
        let mut answers = [0; 2 * wire::OK_FRAME.len()];
        client.read_exact(&mut answers).expect("two OKs");
        clients.push(client);
    }
    let bytes = (BYTES.load(Ordering::Relaxed) - before) / CONNECTIONS;
    broker.stop();
    // The 100 bytes published are counted with their connection, so this errs on the safe side.
    assert!(
        (1..=8 * 1024).contains(&bytes),
        "{bytes} bytes per idle connection"
    );
    println!("{bytes} bytes per idle connection");
}

/// Waits until `connections` are open, and gives the bytes that are allocated then. Asks from another thread: what it is told is
/// made by the reactor and counted, and so is that it is thrown away.
fn bytes_at_rest(handle: &Handle, connections: u64) -> i64 {
    let handle = handle.clone();
    let waiting = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime");
        let open = || {
            let stats = runtime.block_on(handle.stats(StatsFilter::default()));
            stats.expect("answers").reactors[0].connections
        };
        while open() != connections {}
    });
    waiting.join().expect("answers");
    BYTES.load(Ordering::Relaxed)
}

#[test]
fn a_thousand_topics_that_have_had_their_messages_take_less_than_8_kib_each() {
    const TOPICS: i64 = 1000;
    let _turn = TURN.lock();
    let broker = counted_broker();
    let (address, handle) = (broker.tcp_address(), broker.handle());
    let mut publisher = Publisher::connect(address, PublisherOptions::default()).expect("connects");
    let before = bytes_at_rest(&handle, 1);
    for number in 0..TOPICS {
        let topic = format!("t{number}");
        let mut subscriber =
            Subscriber::connect(address, &topic, "c", SubscriberOptions::default())
                .expect("subscribes");
        publisher.publish(&topic, &[7; 100]).expect("published");
        publisher.flush().expect("acknowledged");
        let id = subscriber.next_message().expect("a message comes").id;
        subscriber.finish(id).expect("finished");
        subscriber.flush().expect("written");
    }
    let bytes = (bytes_at_rest(&handle, 1) - before) / TOPICS;
    broker.stop();
    println!("{bytes} bytes per topic");
    assert!((1..=8 * 1024).contains(&bytes), "{bytes} bytes per topic");
}

#[test]
fn the_allocator_does_count() {
    let _turn = TURN.lock();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let counted = std::thread::spawn(|| Box::new(5)).join().expect("joined");
    assert_eq!(*counted, 5);
    assert!(ALLOCATIONS.load(Ordering::Relaxed) > before);
}
