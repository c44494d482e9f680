//! What is refused, with and without privileges, and what threads look like to the system afterwards.

#![allow(unsafe_code)]

use rustix::thread::{CapabilitySet, capabilities, sched_getaffinity, set_capabilities};

use super::*;

fn realtime(cpus: Vec<usize>) -> Realtime {
    Realtime::new(Priority::default(), cpus).expect("valid")
}

/// The lowest CPU that this process may use.
fn a_cpu() -> usize {
    let set = sched_getaffinity(None).expect("readable");
    (0..sys::CPUS_MAX)
        .find(|&cpu| set.is_set(cpu))
        .expect("one at least")
}

/// The calling thread's policy, without the flag for its children, and its priority.
fn scheduling() -> (i32, i32) {
    let mut parameter = libc::sched_param { sched_priority: -1 };
    // SAFETY: `parameter` is a valid sched_param that the call fills; 0 names the calling thread.
    let (policy, read) = unsafe {
        (
            libc::sched_getscheduler(0),
            libc::sched_getparam(0, &raw mut parameter),
        )
    };
    assert_eq!(read, 0);
    (
        policy & !libc::SCHED_RESET_ON_FORK,
        parameter.sched_priority,
    )
}

/// Runs `body` on a thread that has lost `capability`, if it ever had it: capabilities belong to threads.
fn without(capability: CapabilitySet, body: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let run = || {
            let mut sets = capabilities(None).expect("told");
            sets.effective.remove(capability);
            sets.permitted.remove(capability);
            sets.inheritable.remove(capability);
            set_capabilities(None, sets).expect("less is always allowed");
            body();
        };
        scope.spawn(run).join().expect("the assertions hold");
    });
}

/// Says why a test cannot show anything here.
fn is_permitted(realtime: &Realtime) -> bool {
    match realtime.check() {
        Ok(()) => true,
        Err(error) => {
            println!("skipped, to be run as root: {error}");
            false
        }
    }
}

#[test]
fn priorities_are_1_to_99() {
    for good in ["1", "10", "99"] {
        let priority: Priority = good.parse().expect(good);
        assert_eq!(priority.to_string(), good);
        assert_eq!(Priority::new(priority.get()).expect(good), priority);
    }
    for bad in ["0", "100", "-1", "1.5", "", "high", "256"] {
        let error = bad.parse::<Priority>().expect_err(bad).to_string();
        assert!(error.contains("give 1 to 99"), "{bad}: {error}");
    }
    assert!(Priority::new(0).is_err() && Priority::new(100).is_err());
}

#[test]
fn cpus_are_checked() {
    let new = |cpus: &[usize]| Realtime::new(Priority::MAX, cpus.to_vec());
    assert_eq!(new(&[3, 1]).expect("valid").cpus(), [3, 1]);
    let twice = new(&[0, 1, 0]).expect_err("twice").to_string();
    assert!(twice.contains("CPU 0 is named twice"), "{twice}");
    let absurd = new(&[usize::MAX]).expect_err("too large").to_string();
    assert!(absurd.contains("not among those"), "{absurd}");
    let error = new(&[1023]).expect("no system is asked yet").check();
    let error = error.expect_err("no machine of 1024").to_string();
    assert!(error.contains("CPU 1023 is not among"), "{error}");
}

#[test]
fn a_thread_beyond_the_cpus_is_refused_and_stays_where_it_is() {
    let before = sched_getaffinity(None).expect("readable");
    let error = realtime(vec![a_cpu()]).apply_to_this_thread(1);
    let error = error.expect_err("one CPU is named").to_string();
    assert!(
        error.contains("thread 1, counted from 0, has none"),
        "{error}"
    );
    assert_eq!(sched_getaffinity(None).expect("readable"), before);
}

#[test]
fn without_the_privilege_to_schedule_nothing_changes() {
    if rustix::process::getrlimit(rustix::process::Resource::Rtprio).current != Some(0) {
        println!("skipped: RLIMIT_RTPRIO permits SCHED_FIFO to everybody here");
        return;
    }
    without(CapabilitySet::SYS_NICE, || {
        let realtime = realtime(vec![a_cpu()]);
        let before = sched_getaffinity(None).expect("readable");
        for error in [realtime.check(), realtime.apply_to_this_thread(0)] {
            let text = error.expect_err("not permitted").to_string();
            for part in [
                "CAP_SYS_NICE",
                "RLIMIT_RTPRIO of 10",
                "cap_sys_nice",
                "LimitRTPRIO=10",
            ] {
                assert!(text.contains(part), "{text:?} lacks {part}");
            }
        }
        assert_eq!(scheduling(), (libc::SCHED_OTHER, 0));
        assert_eq!(sched_getaffinity(None).expect("readable"), before);
    });
}

#[test]
fn without_the_privilege_to_lock_memory_none_is_locked() {
    if rustix::process::getrlimit(rustix::process::Resource::Memlock)
        .current
        .is_none()
    {
        println!("skipped: RLIMIT_MEMLOCK is infinite here");
        return;
    }
    without(CapabilitySet::IPC_LOCK, || {
        for error in [realtime(vec![]).check(), realtime(vec![]).lock_memory()] {
            let text = error.expect_err("not permitted").to_string();
            for part in [
                "CAP_IPC_LOCK",
                "RLIMIT_MEMLOCK",
                "cap_ipc_lock",
                "LimitMEMLOCK=infinity",
            ] {
                assert!(text.contains(part), "{text:?} lacks {part}");
            }
        }
    });
}

#[test]
fn all_that_is_missing_is_told_at_once() {
    without(CapabilitySet::SYS_NICE | CapabilitySet::IPC_LOCK, || {
        let Err(RealtimeError::NotPermitted(missing)) = realtime(vec![]).check() else {
            println!("skipped: limits permit it to everybody here");
            return;
        };
        let has = |kind: fn(&Privilege) -> bool| missing.iter().any(kind);
        assert!(
            has(|each| matches!(each, Privilege::MemoryLock { .. })),
            "{missing:?}"
        );
        assert!(!has(|each| *each == Privilege::GroupTime), "{missing:?}");
    });
}

#[test]
fn a_thread_is_scheduled_and_its_children_are_not() {
    let cpu = a_cpu();
    let realtime = realtime(vec![cpu]);
    if !is_permitted(&realtime) {
        return;
    }
    assert_eq!(scheduling().0, libc::SCHED_OTHER, "a check leaves no trace");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            realtime.apply_to_this_thread(0).expect("permitted");
            assert_eq!(scheduling(), (libc::SCHED_FIFO, 10));
            let set = sched_getaffinity(None).expect("readable");
            assert!(set.is_set(cpu) && set.count() == 1);
            let child = std::thread::spawn(scheduling).join().expect("ends");
            assert_eq!(child.0, libc::SCHED_OTHER);
        });
    });
}
