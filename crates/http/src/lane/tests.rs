//! Lanes whose answers are made when the test says so.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::to_bytes;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, yield_now};

use super::*;

/// What happened, and how often an answer was begun.
#[derive(Debug, Default)]
struct World {
    events: AtomicUsize,
    begun: AtomicUsize,
    go_on: Notify,
}

impl World {
    /// An answer that tells what had happened when it was begun, once it may.
    async fn tell(self: Arc<World>) -> Response {
        let happened = self.events.load(Ordering::SeqCst);
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.go_on.notified().await;
        happened.to_string().into_response()
    }
}

struct Scene {
    lane: Lane<&'static str>,
    world: Arc<World>,
}

impl Scene {
    fn new() -> Scene {
        Scene {
            lane: Lane::new(&Pages::new(1 << 20)),
            world: Arc::default(),
        }
    }

    /// Somebody asks, and it shows.
    async fn ask(&self, key: &'static str) -> JoinHandle<String> {
        let (lane, world) = (self.lane.clone(), Arc::clone(&self.world));
        let asked = tokio::spawn(async move { text(lane.ask(key, world.tell()).await).await });
        settle().await;
        asked
    }

    fn begun(&self) -> usize {
        self.world.begun.load(Ordering::SeqCst)
    }

    fn happen(&self) {
        self.world.events.fetch_add(1, Ordering::SeqCst);
    }

    /// Waits until `number` answers were begun in all.
    async fn until_begun(&self, number: usize) {
        while self.begun() < number {
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// The answer that is being made is made.
    fn go_on(&self) {
        self.world.go_on.notify_one();
    }
}

async fn settle() {
    for _ in 0..20 {
        yield_now().await;
    }
}

async fn text(answer: Response) -> String {
    let bytes = to_bytes(answer.into_body(), usize::MAX).await;
    String::from_utf8(bytes.expect("whole").to_vec()).expect("text")
}

#[tokio::test]
async fn late_comers_share_the_next_answer_and_hear_all_that_happened_before_they_asked() {
    let scene = Scene::new();
    let first = scene.ask("a").await;
    scene.happen();
    let mut late = Vec::new();
    for _ in 0..100 {
        late.push(scene.ask("a").await);
    }
    assert_eq!(scene.begun(), 1);
    scene.go_on();
    assert_eq!(first.await.expect("answered"), "0");
    scene.until_begun(2).await;
    scene.go_on();
    for asked in late {
        assert_eq!(asked.await.expect("answered"), "1");
    }
    assert_eq!(scene.begun(), 2, "one for all of them");
}

#[tokio::test]
async fn different_questions_take_turns() {
    let scene = Scene::new();
    let asked = [
        scene.ask("a").await,
        scene.ask("b").await,
        scene.ask("c").await,
    ];
    for (number, asked) in asked.into_iter().enumerate() {
        scene.until_begun(number + 1).await;
        assert_eq!(scene.begun(), number + 1, "one at a time");
        scene.happen();
        scene.go_on();
        assert_eq!(asked.await.expect("answered"), number.to_string());
    }
}

#[tokio::test]
async fn nothing_is_made_for_those_who_left() {
    let scene = Scene::new();
    let first = scene.ask("a").await;
    let gone = scene.ask("b").await;
    let stays = scene.ask("c").await;
    gone.abort();
    // Who leaves while the answer is made leaves it to the others.
    first.abort();
    settle().await;
    scene.go_on();
    scene.until_begun(2).await;
    scene.go_on();
    assert_eq!(stays.await.expect("answered"), "0");
    assert_eq!(scene.begun(), 2);
}

#[tokio::test]
async fn an_answer_that_cannot_be_made_takes_no_other_along() {
    let scene = Scene::new();
    let first = scene.ask("a").await;
    let lane = scene.lane.clone();
    let broken =
        tokio::spawn(async move { lane.ask("b", async { panic!("as a handler may") }).await });
    settle().await;
    let last = scene.ask("c").await;
    scene.go_on();
    scene.until_begun(2).await;
    scene.go_on();
    assert_eq!(
        broken.await.expect("answered").status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
    for asked in [first, last] {
        assert_eq!(asked.await.expect("answered"), "0");
    }
}

#[tokio::test]
async fn answers_that_nobody_reads_are_bounded() {
    let lane: Lane<&str> = Lane::new(&Pages::new(64 * 1024).without_patience());
    let ask = |bytes: usize| lane.ask("a", async move { vec![0; bytes].into_response() });
    let (first, second) = (ask(40 * 1024).await, ask(40 * 1024).await);
    assert_eq!(
        (first.status(), second.status()),
        (StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE)
    );
    assert_eq!(ask(20 * 1024).await.status(), StatusCode::OK);
    drop(first);
    let large = ask(1024 * 1024).await;
    assert_eq!(large.status(), StatusCode::OK, "it is there alone");
    assert_eq!(ask(1).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    drop(large);
    assert_eq!(ask(1).await.status(), StatusCode::OK);
}
