//! Reactors under SCHED_FIFO, in a process of its own, because locked memory stays locked.

use std::fs;

use broker::{Broker, BrokerError, Config};
use realtime::{Priority, Realtime};

/// What the system says of a thread.
#[derive(Debug, PartialEq)]
struct Scheduled {
    priority: u32,
    policy: u32,
    cpus: String,
}

const SCHED_FIFO: u32 = 1;
/// Fields of `/proc/PID/stat` behind the name, counted from the third of all.
const PRIORITY: usize = 37;
const POLICY: usize = 38;

fn config(realtime: Option<Realtime>) -> Config {
    Config {
        tcp_address: ([127, 0, 0, 1], 0).into(),
        threads: 1,
        realtime,
        ..Config::default()
    }
}

fn realtime(cpus: Vec<usize>) -> Realtime {
    Realtime::new(Priority::new(7).expect("valid"), cpus).expect("valid")
}

/// Waits until those that have been joined are gone: the system tells of the end of a thread a little before it takes the
/// thread off its lists.
fn wait_for_the_end_of_reactors() {
    let is_gone = (0..1_000_000).any(|_| {
        std::thread::yield_now();
        reactors().is_empty()
    });
    assert!(is_gone, "{:?}", reactors());
}

/// All threads of this process that are reactors.
fn reactors() -> Vec<Scheduled> {
    let threads = fs::read_dir("/proc/self/task").expect("Linux");
    let folders = threads.map(|thread| thread.expect("listed").path());
    let mut found = Vec::new();
    for folder in folders {
        // It may have ended since.
        let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
        if !read("comm").starts_with("reactor-") {
            continue;
        }
        let (stat, status) = (read("stat"), read("status"));
        let Some((_, behind_name)) = stat.rsplit_once(") ") else {
            continue;
        };
        let field = |index: usize| {
            behind_name
                .split(' ')
                .nth(index)
                .and_then(|f| f.parse().ok())
        };
        let cpus = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        found.push(Scheduled {
            priority: field(PRIORITY).expect("told"),
            policy: field(POLICY).expect("told"),
            cpus: cpus.expect("told").trim().to_owned(),
        });
    }
    found
}

fn locked_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
    let number = line.expect("told").trim().trim_end_matches(" kB");
    number.parse().expect("a number")
}

/// The lowest CPU that this process may use.
fn a_cpu() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let first = list.expect("told").trim().split(['-', ',']).next();
    first.expect("one at least").parse().expect("a number")
}

/// One test after the other: what a broker does here is seen in the whole process.
#[test]
fn reactors_are_scheduled_or_nothing_starts() {
    let ordinary = Broker::start(config(None)).expect("needs no privilege");
    assert!(reactors().iter().all(|each| each.policy != SCHED_FIFO));
    ordinary.stop();
    wait_for_the_end_of_reactors();

    let too_few = Config {
        threads: 2,
        ..config(Some(realtime(vec![a_cpu()])))
    };
    let error = Broker::prepare(too_few)
        .expect_err("one CPU for two")
        .to_string();
    assert!(
        error.contains("--cpus: 1 CPUs for 2 reactor threads"),
        "{error}"
    );

    let error = Broker::prepare(config(Some(realtime(vec![1023])))).expect_err("no such CPU");
    let BrokerError::Config { option, reason } = error else {
        panic!("{error}");
    };
    assert_eq!(option, "--realtime");
    assert!(
        reason.contains("CPU 1023 is not among") || reason.contains("not permitted"),
        "{reason}"
    );
    assert_eq!(
        (reactors(), locked_kib()),
        (Vec::new(), 0),
        "nothing is half done"
    );

    let wanted = realtime(vec![a_cpu()]);
    if let Err(error) = wanted.check() {
        let refused = Broker::start(config(Some(wanted))).expect_err("not permitted");
        assert!(refused.to_string().contains("not permitted"), "{refused}");
        println!("the rest is to be run as root: {error}");
        return;
    }
    let broker = Broker::start(config(Some(wanted))).expect("permitted");
    let expected = Scheduled {
        priority: 7,
        policy: SCHED_FIFO,
        cpus: a_cpu().to_string(),
    };
    assert_eq!(reactors(), [expected]);
    assert!(locked_kib() > 0);
    broker.stop();
}
