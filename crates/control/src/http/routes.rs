//! Every endpoint, once: the router and the API's document are both made from this list.
//!
//! A line has the path, `shared` where all who ask at the same time get one answer (a path without parameters), and who answers which
//! method, and what that takes. A handler that only looks asks with [`crate::ControlHandle::look`].

/// Gives `$to` all endpoints.
macro_rules! endpoints {
    ($to:ident) => {
        $to! {
            "/ping" { get [Need::Nothing] openapi::ping }
            "/v1/topics" shared { get [Need::Everything(Read)] topics::list }
            "/v1/topics/{topic}" {
                get [Need::Topic(Read)] topics::show,
                put [Need::Topic(Admin)] topics::put,
                delete [Need::Topic(Admin)] topics::remove
            }
            "/v1/topics/{topic}/publishers" { get [Need::Topic(Read)] publishers::list, post [Need::Topic(Publish)] publishers::put }
            "/v1/topics/{topic}/placement" { get [Need::Topic(Read)] topics::placement }
            "/v1/topics/{topic}/channels" { get [Need::Topic(Read)] channels::list }
            "/v1/topics/{topic}/publishers/{id}" { get [Need::Topic(Read)] publishers::show, delete [Need::Topic(Publish)] publishers::remove }
            "/v1/names" { get [Need::Everything(Read)] names::list }
            "/v1/names/{topic}" { get [Need::Topic(Read)] names::show, put [Need::Topic(Admin)] names::put }
            "/v1/brokers" shared { get [Need::Everything(Read)] brokers::list }
            "/v1/brokers/{broker}" { get [Need::Everything(Read)] brokers::show, delete [Need::Everything(Admin)] brokers::remove }
            "/v1/brokers/{broker}/drain" { post [Need::Everything(Admin)] brokers::drain }
            "/v1/brokers/{broker}/resume" { post [Need::Everything(Admin)] brokers::resume }
            "/v1/events" { get [Need::Everything(Read)] events::events }
            "/v1/openapi.json" { get [Need::Nothing] openapi::document }
            "/metrics" shared { get [Need::Metrics] metrics::metrics }
        }
    };
}

/// The routes of all endpoints.
macro_rules! router_of {
    ($($path:literal $($shared:ident)? { $($method:ident [$need:expr] $module:ident::$handler:ident),+ })+) => {
        fn routes(access: Option<InForce>, pages: &Pages) -> Routes<Arc<Service>> {
            let routes = Routes::new(access, TEXT_FIELD);
            $(let routes = router_of!(@path routes, pages, $path, [$($shared)?], $($method [$need] $module::$handler),+);)+
            routes
        }
    };
    (@path $routes:ident, $pages:ident, $path:literal, [shared], get [$need:expr] $module:ident::$handler:ident) => {
        $routes.get_shared($pages, $path, $need, $module::$handler)
    };
    (@path $routes:ident, $pages:ident, $path:literal, [], $($method:ident [$need:expr] $module:ident::$handler:ident),+) => {
        $routes$(.$method($path, $need, $module::$handler))+
    };
}
