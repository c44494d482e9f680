//! One answer at a time.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::Pages;
use crate::pages::Page;

/// A lane rests no longer than this.
const REST_MAX: Duration = Duration::from_millis(100);

/// A line of questions of one kind; `K` tells them apart. Its length is bounded by those who wait in it.
#[derive(Debug)]
pub struct Lane<K> {
    line: Arc<Mutex<Line<K>>>,
    pages: Pages,
}

#[derive(Debug)]
struct Line<K> {
    /// Not begun; each key once.
    waiting: VecDeque<Asked<K>>,
    is_served: bool,
}

struct Asked<K> {
    key: K,
    answer: Pin<Box<dyn Future<Output = Response> + Send>>,
    page: watch::Sender<Option<Page>>,
}

/// Middleware for a route without parameters: all who ask at the same time share one answer of the handler.
pub(crate) async fn share(
    State(lane): State<Lane<Method>>,
    request: Request,
    next: Next,
) -> Response {
    let method = request.method().clone();
    lane.ask(method, next.run(request)).await
}

/// An answer that takes long to render: on a thread that nobody else waits for.
pub async fn rendered(render: impl FnOnce() -> Response + Send + 'static) -> Response {
    let rendered = tokio::task::spawn_blocking(render).await;
    rendered.unwrap_or_else(|error| {
        tracing::error!(%error, "an answer could not be rendered");
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    })
}

impl<K: PartialEq + Send + 'static> Lane<K> {
    /// A lane whose answers count for `pages`.
    #[must_use]
    pub fn new(pages: &Pages) -> Lane<K> {
        Lane {
            line: Arc::new(Mutex::new(Line {
                waiting: VecDeque::new(),
                is_served: false,
            })),
            pages: pages.clone(),
        }
    }

    /// What `answer` gives, or what that of another gives who asked for `key` and whose turn is before. Either begins after this
    /// was called. 503 where it could not be made. To be called within a runtime that has time.
    pub async fn ask(
        &self,
        key: K,
        answer: impl Future<Output = Response> + Send + 'static,
    ) -> Response {
        let mut page = self.stand_in_line(key, answer);
        let made = page.wait_for(Option::is_some).await;
        match made.ok().and_then(|made| made.clone()) {
            Some(page) => page.into_response(),
            None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        }
    }

    fn stand_in_line(
        &self,
        key: K,
        answer: impl Future<Output = Response> + Send + 'static,
    ) -> watch::Receiver<Option<Page>> {
        let mut line = lock(&self.line);
        if let Some(asked) = line.waiting.iter().find(|asked| asked.key == key) {
            return asked.page.subscribe();
        }
        let (page, made) = watch::channel(None);
        line.waiting.push_back(Asked {
            key,
            answer: Box::pin(answer),
            page,
        });
        if !std::mem::replace(&mut line.is_served, true) {
            tokio::spawn(serve(Arc::clone(&self.line), self.pages.clone()));
        }
        made
    }
}

/// Answers until nobody waits.
async fn serve<K: Send>(line: Arc<Mutex<Line<K>>>, pages: Pages) {
    while let Some(asked) = next(&line) {
        if asked.page.is_closed() {
            continue;
        }
        let began = Instant::now();
        // In a task of its own: one that panics takes nobody else's answer along.
        let page = match tokio::spawn(asked.answer).await {
            Ok(answer) => pages.hold(answer).await,
            Err(error) => {
                tracing::error!(%error, "an answer could not be made");
                continue;
            }
        };
        asked.page.send_replace(Some(page));
        drop(asked.page);
        sleep(began.elapsed().min(REST_MAX)).await;
    }
}

fn next<K>(line: &Mutex<Line<K>>) -> Option<Asked<K>> {
    let mut line = lock(line);
    let asked = line.waiting.pop_front();
    line.is_served = asked.is_some();
    asked
}

fn lock<K>(line: &Mutex<Line<K>>) -> MutexGuard<'_, Line<K>> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K> Clone for Lane<K> {
    fn clone(&self) -> Self {
        Lane {
            line: Arc::clone(&self.line),
            pages: self.pages.clone(),
        }
    }
}

impl<K> std::fmt::Debug for Asked<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asked").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
