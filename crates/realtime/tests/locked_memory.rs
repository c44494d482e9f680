//! Memory locked for good: a process of its own, for what is locked stays so.

use realtime::{Priority, Realtime};

fn locked_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
    let number = line.expect("told").trim().trim_end_matches(" kB");
    number.parse().expect("a number")
}

#[test]
fn locked_memory_stays_locked_as_it_grows() {
    let realtime = Realtime::new(Priority::default(), Vec::new()).expect("valid");
    if let Err(error) = realtime.check() {
        println!("skipped, to be run as root: {error}");
        return;
    }
    assert_eq!(locked_kib(), 0, "a check leaves no trace");
    realtime.lock_memory().expect("permitted");
    let before = locked_kib();
    assert!(before > 0);
    // More than the allocator would take from what it has.
    let grown = std::hint::black_box(vec![1u8; 64 << 20]);
    assert!(locked_kib() >= before + 60 * 1024, "{before} kB before");
    drop(grown);
}
