//! Who pays, who waits, and which tasks there are, in virtual time.

use super::*;
use crate::reactor::inbox::TopicMail;

const FLOOD: &str = "flood";

fn schedule() -> Schedule {
    Schedule::new(SchedulerConfig::default()).expect("the default is valid")
}

fn topic(name: &str) -> TopicName {
    name.parse().expect("valid")
}

fn connection(schedule: &mut Schedule, slot: u64) -> ConnectionKey {
    let key = ConnectionKey::from_bits(slot);
    schedule.welcome(key);
    key
}

fn at_us(us: u64) -> Instant {
    Instant::from_nanos(us * 1_000)
}

fn used(schedule: &Schedule, task: TaskId) -> Duration {
    let stats = schedule.scheduler.stats_of(task, Instant::ZERO);
    stats.expect("it is there").used
}

/// A turn of a connection, from the beginning of its microsecond.
fn begin(schedule: &mut Schedule, key: ConnectionKey, us: u64) -> Turn {
    schedule.notice(key, Readiness::READABLE);
    schedule.tell(at_us(us));
    let turn = schedule.take(at_us(us)).expect("it has work");
    let next = schedule.next_ready(turn.task).expect("it is in the queue");
    assert_eq!(next.0, key);
    turn
}

#[test]
fn each_topic_pays_for_its_commands_of_one_turn() {
    let mut schedule = schedule();
    let key = connection(&mut schedule, 1);
    let [one, other] = ["one", "other"].map(|name| schedule.add_elsewhere(&topic(name)));
    schedule.place(key, Some(one));
    let turn = begin(&mut schedule, key, 0);
    assert!(schedule.is_paying(one) && schedule.is_its_turn(key));
    // 10 µs for one, 5 for the other, 3 for one again, 2 for the other.
    for (us, task) in [(10, other), (15, one), (18, other)] {
        schedule.place(key, Some(task));
        schedule.pay(task, at_us(us));
    }
    schedule.finish(turn, 1, at_us(20));
    let charged = [one, other].map(|task| used(&schedule, task));
    assert_eq!(charged, [13, 7].map(Duration::from_micros));
    // What follows the last turn is charged once, to whoever had that.
    schedule.charge_rest(Duration::from_micros(4));
    schedule.charge_rest(Duration::from_micros(4));
    assert_eq!(used(&schedule, one), Duration::from_micros(17));
    // It is served with the other from now on.
    let turn = begin(&mut schedule, key, 30);
    assert_eq!(turn.task, other);
    schedule.finish(turn, 1, at_us(30));
}

#[test]
fn a_topic_that_has_used_its_credits_waits_while_others_have_work() {
    let mut schedule = schedule();
    let [calm, flood] = ["calm", FLOOD].map(topic);
    let tenth = CpuShare::new(0.1).expect("a share");
    schedule
        .set_share_elsewhere(&flood, Some(tenth))
        .expect("it fits");
    let (_, flood) = schedule.find_elsewhere(FLOOD).expect("it was made");
    let calm = schedule.add_elsewhere(&calm);
    let key = connection(&mut schedule, 1);
    schedule.place(key, Some(flood));
    let turn = begin(&mut schedule, key, 20_000);
    assert!(!schedule.is_to_wait(flood, at_us(20_000)));
    schedule.finish(turn, 1, at_us(40_000));
    schedule.place(key, Some(calm));
    let turn = begin(&mut schedule, key, 40_000);
    assert!(schedule.is_to_wait(flood, at_us(40_100)));
    assert!(!schedule.is_to_wait(calm, at_us(40_100)));
    schedule.finish(turn, 1, at_us(40_100));
    // Nobody else has had work for a period.
    assert!(!schedule.is_to_wait(flood, at_us(60_000)));
}

#[test]
fn a_task_elsewhere_lasts_while_it_is_published_to_or_has_a_share() {
    let mut schedule = schedule();
    let (flood, key) = (topic(FLOOD), connection(&mut schedule, 1));
    let task = schedule.add_elsewhere(&flood);
    schedule.place(key, Some(task));
    // It publishes to another topic meanwhile.
    schedule.place(key, None);
    schedule.place(key, Some(task));
    let known = schedule.find_elsewhere(FLOOD).map(|(_, task)| task);
    assert_eq!((known, schedule.task_at(key)), (Some(task), task));
    schedule.leave(key);
    assert!(schedule.find_elsewhere(FLOOD).is_none());
    let half = CpuShare::new(0.5).expect("a share");
    let declare = |schedule: &mut Schedule, share| schedule.set_share_elsewhere(&flood, share);
    declare(&mut schedule, Some(half)).expect("it fits");
    let key = connection(&mut schedule, 2);
    let (_, task) = schedule.find_elsewhere(FLOOD).expect("it was made");
    schedule.place(key, Some(task));
    schedule.leave(key);
    assert!(schedule.find_elsewhere(FLOOD).is_some());
    let other = schedule.set_share_elsewhere(&topic("other"), Some(CpuShare::WHOLE));
    assert!(other.is_err(), "{other:?}");
    assert!(schedule.find_elsewhere("other").is_none());
    declare(&mut schedule, None).expect("less is free");
    assert!(schedule.find_elsewhere(FLOOD).is_none());
}

#[test]
fn tasks_that_nobody_publishes_to_give_way() {
    let mut schedule = schedule();
    let key = connection(&mut schedule, 1);
    for number in 0..3 * TASKS_MAX {
        let name = topic(&format!("t{number}"));
        let task = schedule.add_elsewhere(&name);
        assert_ne!(task, schedule.common());
        schedule.place(key, Some(task));
        assert_eq!(schedule.task_at(key), task);
        assert!(schedule.elsewhere.len() <= VACANT_MAX + 2);
    }
    // Those that are published to do not: the common task is left.
    for slot in 2..TASKS_MAX as u64 + 2 {
        let key = connection(&mut schedule, slot);
        let task = schedule.add_elsewhere(&topic(&format!("u{slot}")));
        schedule.place(key, Some(task));
    }
    let task = schedule.add_elsewhere(&topic(FLOOD));
    assert_eq!(task, schedule.common());
}

#[test]
fn what_waits_for_a_task_that_ends_is_done_with_the_common_one() {
    let mut schedule = schedule();
    let key = connection(&mut schedule, 1);
    let task = schedule.add_elsewhere(&topic(FLOOD));
    schedule.place(key, Some(task));
    let room = || TopicMail::Room(TopicKey::from_bits(0));
    schedule.notice_mail(task, room());
    schedule.notice(key, Readiness::READABLE);
    assert!(!schedule.end(task));
    schedule.notice_mail(task, room());
    schedule.tell(Instant::ZERO);
    let common = schedule.common();
    assert_eq!(schedule.task_at(key), common);
    let turn = schedule.take(Instant::ZERO).expect("it has work");
    assert_eq!((turn.task, turn.events), (common, 3));
    assert!(schedule.next_mail(common).is_some() && schedule.next_mail(common).is_some());
    assert_eq!(schedule.next_ready(common).map(|ready| ready.0), Some(key));
    schedule.finish(turn, 3, Instant::ZERO);
    assert!(schedule.is_idle());
}
