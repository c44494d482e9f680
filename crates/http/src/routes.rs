//! Routes, each with what it takes: none can be served without saying that.

use access::{InForce, Need};
use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, delete, get, post, put};

use crate::Pages;
use crate::guard::{Sentry, stand};

/// The routes of a port.
#[derive(Debug)]
pub struct Routes<S = ()> {
    router: Router<S>,
    list: Vec<Route>,
    access: Option<InForce>,
    text_field: &'static str,
}

/// One method of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// GET answers HEAD as well.
    pub method: Method,
    /// With its parameters in braces.
    pub path: String,
    /// What it takes.
    pub need: Need,
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// None yet. Where there is `access`, each asks for what it takes, and says under `text_field` what is missing; otherwise all are open.
    #[must_use]
    pub fn new(access: Option<InForce>, text_field: &'static str) -> Routes<S> {
        Routes {
            router: Router::new(),
            list: Vec::new(),
            access,
            text_field,
        }
    }

    /// GET of `path`. A need of a topic means the parameter `topic` of the path, where it has one, else of the query.
    #[must_use]
    pub fn get<H, T>(self, path: &str, need: Need, handler: H) -> Routes<S>
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.on(Method::GET, path, need, get(handler))
    }

    /// GET of a path without parameters, where all who ask at the same time share one answer.
    #[must_use]
    pub fn get_shared<H, T>(self, pages: &Pages, path: &str, need: Need, handler: H) -> Routes<S>
    where
        H: Handler<T, S>,
        T: 'static,
    {
        let answers = pages.shared(get(handler));
        self.on(Method::GET, path, need, answers)
    }

    /// POST to `path`.
    #[must_use]
    pub fn post<H, T>(self, path: &str, need: Need, handler: H) -> Routes<S>
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.on(Method::POST, path, need, post(handler))
    }

    /// PUT to `path`.
    #[must_use]
    pub fn put<H, T>(self, path: &str, need: Need, handler: H) -> Routes<S>
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.on(Method::PUT, path, need, put(handler))
    }

    /// DELETE of `path`.
    #[must_use]
    pub fn delete<H, T>(self, path: &str, need: Need, handler: H) -> Routes<S>
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.on(Method::DELETE, path, need, delete(handler))
    }

    /// All of them.
    #[must_use]
    pub fn list(&self) -> &[Route] {
        &self.list
    }

    /// As axum has them.
    pub fn into_router(self) -> Router<S> {
        self.router
    }

    fn on(mut self, method: Method, path: &str, need: Need, answers: MethodRouter<S>) -> Routes<S> {
        let answers = match &self.access {
            None => answers,
            Some(access) => {
                let sentry = Sentry::new(access.clone(), need, path, self.text_field);
                answers.route_layer(from_fn_with_state(sentry, stand))
            }
        };
        self.router = self.router.route(path, answers);
        self.list.push(Route {
            method,
            path: path.to_owned(),
            need,
        });
        self
    }
}

#[cfg(test)]
mod tests;
