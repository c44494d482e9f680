//! Every endpoint, once: the router and the document that describes the API are made of this list.
//!
//! A line has the path, `shared` where all who ask at the same time get one answer (a path without parameters), and who answers which
//! method. A handler that only looks asks with [`crate::ControlHandle::look`].

/// Gives `$to` all endpoints.
macro_rules! endpoints {
    ($to:ident) => {
        $to! {
            "/ping" { get openapi::ping }
            "/v1/topics" shared { get topics::list }
            "/v1/topics/{topic}" { get topics::show, put topics::put, delete topics::remove }
            "/v1/topics/{topic}/publishers" { get publishers::list, post publishers::put }
            "/v1/topics/{topic}/placement" { get topics::placement }
            "/v1/topics/{topic}/channels" { get channels::list }
            "/v1/topics/{topic}/publishers/{id}" { get publishers::show, delete publishers::remove }
            "/v1/names" { get names::list }
            "/v1/names/{topic}" { get names::show, put names::put }
            "/v1/brokers" shared { get brokers::list }
            "/v1/brokers/{broker}" { get brokers::show, delete brokers::remove }
            "/v1/brokers/{broker}/drain" { post brokers::drain }
            "/v1/brokers/{broker}/resume" { post brokers::resume }
            "/v1/events" { get events::events }
            "/v1/openapi.json" { get openapi::document }
            "/metrics" shared { get metrics::metrics }
        }
    };
}

/// The routes of all endpoints.
macro_rules! router_of {
    ($($path:literal $($shared:ident)? { $($method:ident $module:ident::$handler:ident),+ })+) => {
        fn routes(pages: &Pages) -> Router<Arc<Service>> {
            let router = Router::new();
            $(
                let answers = MethodRouter::new()$(.$method($module::$handler))+;
                $(let answers = pages.$shared(answers);)?
                let router = router.route($path, answers);
            )+
            router
        }
    };
}
