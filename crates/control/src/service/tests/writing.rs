//! A slow store: who waits for it, who does not, and what happens to decisions made meanwhile.

use super::*;

/// A store that writes once it is let, and may have no room.
#[derive(Clone, Default)]
pub(super) struct Slow {
    store: Bounded,
    is_stopped: Arc<AtomicBool>,
    /// How many changes each commit had.
    pub(super) commits: Arc<Mutex<Vec<usize>>>,
}

impl Store for Slow {
    fn load(&self, table: Table) -> Result<Vec<(String, Value)>, ControlError> {
        self.store.load(table)
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), ControlError> {
        while self.is_stopped.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        self.commits.lock().expect("whole").push(changes.len());
        self.store.commit(changes)
    }
}

impl Slow {
    pub(super) fn stop(&self, is_stopped: bool) {
        self.is_stopped.store(is_stopped, Ordering::Release);
    }

    pub(super) fn records(&self, table: Table) -> usize {
        self.store.load(table).expect("memory").len()
    }
}

/// A service over a slow store with a broker that was told everything, and what it is told.
pub(super) fn world() -> (Service, Slow, mpsc::Receiver<Order>) {
    let slow = Slow::default();
    let opened = Service::open(
        crate::Settings::default(),
        Box::new(slow.clone()),
        LinkKey::new([1; 32]),
        None,
    );
    let (mut service, ..) = opened.expect("memory");
    let (orders, taken) = mpsc::channel(1024);
    service.hear_links(FromLink::Hello {
        link: 1,
        from: [127, 0, 0, 1].into(),
        hello: Box::new(hello()),
        orders,
    });
    service.finished();
    is_there(&mut service);
    let (topics, is_last) = (Vec::new(), true);
    says(&mut service, ToController::Inventory { topics, is_last });
    (service, slow, taken)
}

pub(super) fn ask<T>(
    service: &mut Service,
    make: impl FnOnce(Reply<T>) -> Command,
) -> oneshot::Receiver<Result<T, ControlError>> {
    let (reply, answer) = oneshot::channel();
    service.turn(Next::Command(make(reply)));
    answer
}

pub(super) fn made(service: &mut Service, topic: &str) {
    let (topic, change) = (topic.to_owned(), TopicChange::TopicCreated);
    let message = Box::new(ToController::Changed { topic, change });
    let message = FromLink::Message(1, message, RoomTaken::default());
    service.turn(Next::FromLink(message));
}

fn told_topics(orders: &mut mpsc::Receiver<Order>) -> Vec<String> {
    let orders = std::iter::from_fn(|| orders.try_recv().ok());
    let topics = orders.filter_map(|told| match told.order {
        ToBroker::Topic { state, .. } => Some(state.topic),
        _ => None,
    });
    topics.collect()
}

#[tokio::test]
async fn while_the_store_writes_others_are_heard_and_nothing_is_told_that_is_not_kept() {
    for is_full in [false, true] {
        let (mut service, slow, mut orders) = world();
        told_topics(&mut orders);
        slow.stop(true);
        let name = |topic: &str| topic.to_owned();
        let mut first = ask(&mut service, |reply| Command::PutName(name("a"), reply));
        let mut second = ask(&mut service, |reply| Command::PutName(name("b"), reply));
        made(&mut service, "t");
        let mut seen = ask(&mut service, |reply| Command::Channels(name("t"), reply));
        service.turn(Next::Tick);
        assert!(service.core.channel_views("t").is_ok(), "heard");
        assert!(matches!(first.try_recv(), Err(TryRecvError::Empty)));
        assert!(matches!(second.try_recv(), Err(TryRecvError::Empty)));
        assert!(matches!(seen.try_recv(), Err(TryRecvError::Empty)));
        assert_eq!(told_topics(&mut orders), [""; 0]);
        slow.store.is_full.store(is_full, Ordering::Relaxed);
        slow.stop(false);
        service.finished();
        let id = |answer: &mut Answer| Some(answer.try_recv().expect("answered").ok()?.id);
        let ids = [id(&mut first), id(&mut second)];
        let expected = if is_full {
            [None; 2]
        } else {
            [Some(1), Some(2)]
        };
        assert_eq!(ids, expected);
        assert!(seen.try_recv().expect("answered").is_ok());
        assert_eq!(told_topics(&mut orders), ["t"]);
        slow.store.is_full.store(false, Ordering::Relaxed);
        let later = service.now() + Duration::from_secs(1);
        service.try_again(later);
        let names = if is_full { 0 } else { 2 };
        assert_eq!(
            (slow.records(Table::Names), slow.records(Table::Channels)),
            (names, 1)
        );
    }
}

#[tokio::test]
async fn what_is_decided_while_a_commit_is_under_way_is_one_commit() {
    let (mut service, slow, mut orders) = world();
    slow.stop(true);
    slow.commits.lock().expect("whole").clear();
    for number in 0..100 {
        made(&mut service, &format!("t{number}"));
    }
    slow.stop(false);
    service.finished();
    assert_eq!(*slow.commits.lock().expect("whole"), [1, 99]);
    assert_eq!(told_topics(&mut orders).len(), 100);
}

/// An operator makes a channel `c`, and its topic.
fn asks_channel(service: &mut Service, topic: &str) -> oneshot::Receiver<Result<(), ControlError>> {
    let (topic, channel) = (topic.to_owned(), String::from("c"));
    let change = TopicChange::ChannelCreated { channel };
    ask(service, |reply| Command::ChangeTopic(topic, change, reply))
}

#[tokio::test]
async fn requests_that_wait_together_are_kept_in_one_commit_and_answered_each() {
    for is_full in [false, true] {
        let (mut service, slow, _orders) = world();
        slow.stop(true);
        slow.commits.lock().expect("whole").clear();
        made(&mut service, "first");
        let topics = ["t0", "t1", "t2"];
        let mut answers = topics.map(|topic| asks_channel(&mut service, topic));
        let mut wrong = asks_channel(&mut service, "a b");
        // It rests on another one that waits.
        let mut again = ask(&mut service, |reply| {
            let change = TopicChange::TopicDeleted;
            Command::ChangeTopic(String::from("t0"), change, reply)
        });
        slow.stop(false);
        let first = service.next_written().expect("the thread goes on");
        slow.store.is_full.store(is_full, Ordering::Relaxed);
        slow.stop(true);
        service.turn(Next::Written(first));
        for answer in &mut answers {
            assert!(matches!(answer.try_recv(), Err(TryRecvError::Empty)));
        }
        slow.stop(false);
        service.finished();
        for answer in &mut answers {
            let answered = answer.try_recv().expect("answered");
            match is_full {
                false => assert_eq!(answered, Ok(())),
                true => assert!(matches!(answered, Err(ControlError::NotKept(_)))),
            }
        }
        let refused = wrong.try_recv().expect("answered");
        assert!(matches!(refused, Err(ControlError::Invalid(_))));
        assert_eq!(again.try_recv().expect("answered").is_ok(), !is_full);
        let kept = if is_full { 1 } else { 3 };
        assert_eq!(slow.records(Table::Channels), kept);
        if !is_full {
            let commits = slow.commits.lock().expect("whole").clone();
            assert_eq!(commits[..2], [1, 3], "{commits:?}");
        }
    }
}

#[tokio::test]
async fn what_is_kept_in_one_commit_has_a_bound_and_no_two_draw_from_one_supply() {
    let (mut service, slow, _orders) = world();
    slow.stop(true);
    slow.commits.lock().expect("whole").clear();
    made(&mut service, "first");
    let mut answers: Vec<_> = (0..100)
        .map(|number| asks_channel(&mut service, &format!("t{number}")))
        .collect();
    let mut names = ["a", "b", "c"].map(|topic| {
        let topic = topic.to_owned();
        ask(&mut service, |reply| Command::PutName(topic, reply))
    });
    slow.stop(false);
    service.finished();
    for answer in &mut answers {
        assert_eq!(answer.try_recv().expect("answered"), Ok(()));
    }
    let ids = names.each_mut().map(|answer| {
        let answered = answer.try_recv().expect("answered");
        answered.expect("named").id
    });
    assert_eq!(ids, [1, 2, 3]);
    let commits = slow.commits.lock().expect("whole").clone();
    assert_eq!(commits, [1, 64, 37, 1, 1]);
}

/// The broker that an operator removes dials while that is being kept. Gives the operator's answer and what the broker is told.
fn removal_overtaken_by_a_hello(
    service: &mut Service,
    slow: &Slow,
) -> (
    oneshot::Receiver<Result<(), ControlError>>,
    mpsc::Receiver<Order>,
) {
    service.hear_links(FromLink::Lost(1));
    service.finished();
    slow.stop(true);
    let answer = ask(service, |reply| {
        Command::RemoveBroker(String::from("b1"), reply)
    });
    let (orders, told) = mpsc::channel(64);
    service.turn(Next::FromLink(FromLink::Hello {
        link: 2,
        from: [127, 0, 0, 1].into(),
        hello: Box::new(hello()),
        orders,
    }));
    slow.stop(false);
    (answer, told)
}

#[tokio::test]
async fn what_cannot_come_into_force_any_more_is_not_kept_once_that_is_said() {
    let (mut service, slow, _orders) = world();
    let (mut answer, _told) = removal_overtaken_by_a_hello(&mut service, &slow);
    service.finished();
    let answered = answer.try_recv().expect("answered");
    assert!(
        matches!(answered, Err(ControlError::Conflict(_))),
        "{answered:?}"
    );
    assert_eq!(slow.records(Table::Brokers), 1);
}

/// The same where what was kept for it cannot be undone at once: that it was refused is said no sooner.
#[tokio::test]
async fn a_refusal_waits_until_what_was_kept_is_undone() {
    let (mut service, slow, _orders) = world();
    let (mut answer, _told) = removal_overtaken_by_a_hello(&mut service, &slow);
    let first = service.next_written().expect("the thread goes on");
    slow.store.is_full.store(true, Ordering::Relaxed);
    service.turn(Next::Written(first));
    service.finished();
    assert!(service.keeping.is_waiting());
    assert!(matches!(answer.try_recv(), Err(TryRecvError::Empty)));
    assert_eq!(slow.records(Table::Brokers), 0);
    slow.store.is_full.store(false, Ordering::Relaxed);
    let later = service.now() + Duration::from_secs(1);
    service.try_again(later);
    assert!(matches!(
        answer.try_recv().expect("answered"),
        Err(ControlError::Conflict(_))
    ));
    assert_eq!(slow.records(Table::Brokers), 1);
}

#[tokio::test]
async fn behind_a_store_that_takes_too_long_nothing_more_is_heard() {
    let (mut service, slow, _orders) = world();
    slow.stop(true);
    made(&mut service, "t");
    made(&mut service, "u");
    let answers: Vec<_> = (0..=OUTPUTS_MAX)
        .map(|_| {
            let look = |reply| Command::look(|core, _| Ok(core.names()), reply);
            ask(&mut service, look)
        })
        .collect();
    assert!(service.is_behind());
    slow.stop(false);
    service.finished();
    assert!(!service.is_behind());
    for mut answer in answers {
        assert_eq!(answer.try_recv().expect("answered"), Ok(0));
    }
}

/// What a turn comes to does not grow with a list: so many records are one commit, and others have their turn in between.
#[tokio::test]
async fn a_long_list_of_publishers_is_kept_and_taken_in_parts() {
    let (mut service, slow, _orders) = world();
    let many = 5 * requests::PUBLISHERS_KEPT_AT_ONCE + 1;
    let list = publishers(many);
    slow.commits.lock().expect("whole").clear();
    let mut answer = ask(&mut service, |reply| {
        Command::PutPublishers(String::from("t"), list, reply)
    });
    let mut named = ask(&mut service, |reply| {
        Command::PutName(String::from("n"), reply)
    });
    let (mut turns, mut named_at) = (0, None);
    while service.keeping.is_writing() || service.is_busy() {
        let next = match service.keeping.is_writing() {
            true => Next::Written(service.next_written().expect("the thread goes on")),
            false => Next::Part,
        };
        let before = service.core.work().publishers;
        service.turn(next);
        let looked_at = service.core.work().publishers - before;
        let most = 4 * requests::PUBLISHERS_KEPT_AT_ONCE as u64;
        assert!(looked_at <= most, "{looked_at} in turn {turns}");
        turns += 1;
        if named.try_recv().is_ok() {
            named_at = Some(turns);
        }
    }
    let late = service.now() + Duration::from_secs(3);
    service.late(late);
    assert_eq!(answer.try_recv().expect("answered"), Ok(()));
    assert!(
        named_at.is_some_and(|at| at < turns / 2),
        "{named_at:?} of {turns}"
    );
    assert_eq!(slow.records(Table::Publishers), many);
    let commits = slow.commits.lock().expect("whole").clone();
    let most = 3 * requests::PUBLISHERS_KEPT_AT_ONCE;
    assert!(
        commits.iter().all(|&changes| changes <= most),
        "{commits:?}"
    );
}

/// What is said of a list of which a later part cannot be kept is what a restart finds.
#[tokio::test]
async fn of_a_list_that_is_not_kept_in_whole_it_is_said_how_much_is() {
    let (mut service, slow, _orders) = world();
    let part = requests::PUBLISHERS_KEPT_AT_ONCE;
    let list = publishers(3 * part);
    let mut answer = ask(&mut service, |reply| {
        Command::PutPublishers(String::from("t"), list, reply)
    });
    let first = service.next_written().expect("the thread goes on");
    slow.store.is_full.store(true, Ordering::Relaxed);
    service.turn(Next::Written(first));
    service.finished();
    let text = not_kept(answer.try_recv().ok());
    assert!(
        text.contains(&format!("the first {part} of {}", 3 * part)),
        "{text}"
    );
    slow.store.is_full.store(false, Ordering::Relaxed);
    let later = service.now() + Duration::from_secs(1);
    service.try_again(later);
    assert_eq!(slow.records(Table::Publishers), part);
    let known = service.core.publisher_views("t", None, usize::MAX);
    assert_eq!(known.expect("declared").len(), part);
    // Asked again, all of it is there.
    let list = publishers(3 * part);
    let mut answer = ask(&mut service, |reply| {
        Command::PutPublishers(String::from("t"), list, reply)
    });
    service.finished();
    let late = service.now() + Duration::from_secs(3);
    service.late(late);
    assert_eq!(answer.try_recv().expect("answered"), Ok(()));
    assert_eq!(slow.records(Table::Publishers), 3 * part);
}

/// A topic with many publishers is removed, and declared again at once: nothing of it comes back.
#[tokio::test]
async fn a_topic_that_is_removed_is_declared_anew_once_nothing_is_left_of_it() {
    let (mut service, slow, _orders) = world();
    let many = 20 * requests::PUBLISHERS_KEPT_AT_ONCE;
    let list = publishers(many);
    service.asked(Command::PutPublishers(
        String::from("t"),
        list,
        oneshot::channel().0,
    ));
    slow.commits.lock().expect("whole").clear();
    let mut deleted = ask(&mut service, |reply| {
        Command::DeleteTopic(String::from("t"), reply)
    });
    let mut declared = ask(&mut service, |reply| {
        Command::PutPublishers(String::from("t"), publishers(1), reply)
    });
    service.finished();
    let late = service.now() + Duration::from_secs(3);
    service.late(late);
    assert_eq!(deleted.try_recv().expect("answered"), Ok(()));
    assert_eq!(declared.try_recv().expect("answered"), Ok(()));
    assert_eq!(slow.records(Table::Publishers), 1);
    let commits = slow.commits.lock().expect("whole").clone();
    let most = 10 * requests::PUBLISHERS_KEPT_AT_ONCE;
    assert!(
        commits.iter().all(|&changes| changes <= most),
        "{commits:?}"
    );
}

fn publishers(count: usize) -> Declared {
    let specs = (0..count).map(|number| PublisherSpec {
        id: format!("p{number}"),
        rate: 1.0,
        batch: 1,
        group: None,
    });
    Declared::new(specs.collect()).expect("good")
}
