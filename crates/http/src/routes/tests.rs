//! Routes with an access file in force: who is let by, and what is said to others.

use std::time::Duration;

use access::{AccessList, Role, Token, TokenHash};
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

use super::*;
use crate::guard::Denied;
use crate::{Counts, Settings, serve};

fn secret(number: u8) -> String {
    Token::new([number; 32]).secret().to_owned()
}

fn list(entries: &[(u8, &str, &str)]) -> AccessList {
    let lines = entries.iter().map(|(number, role, topics)| {
        let hash = TokenHash::of(secret(*number).as_bytes());
        format!("[[token]]\nname = \"n{number}\"\nhash = \"{hash}\"\nroles = [\"{role}\"]\ntopics = [\"{topics}\"]\n")
    });
    AccessList::parse(&lines.collect::<String>()).expect("valid")
}

fn routes(access: Option<InForce>) -> Routes {
    let pages = Pages::default();
    let publish = Need::Topic(Role::Publish);
    Routes::new(access, "message")
        .get("/ping", Need::Nothing, async || "pong")
        .get_shared(&pages, "/all", Need::Everything(Role::Read), async || "all")
        .get("/t/{topic}", Need::Topic(Role::Read), async || "topic")
        .put("/t/{topic}", Need::Topic(Role::Admin), async || "put")
        .delete("/t/{topic}", Need::Topic(Role::Admin), async || "gone")
        .post("/pub", publish, async || "taken")
}

async fn ask(router: &Router, method: &str, target: &str, authorization: &[&str]) -> (u16, String) {
    let mut request = Request::builder().method(method).uri(target);
    for value in authorization {
        request = request.header(header::AUTHORIZATION, *value);
    }
    let request = request.body(Body::empty()).expect("a request");
    let answer = router.clone().oneshot(request).await.expect("an answer");
    let status = answer.status();
    let asks = answer.headers().contains_key(header::WWW_AUTHENTICATE);
    assert_eq!(asks, status == StatusCode::UNAUTHORIZED, "{target}");
    let is_denied = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status);
    let is_marked = answer.extensions().get::<Denied>().is_some();
    assert_eq!(is_marked, is_denied, "{target}");
    let body = to_bytes(answer.into_body(), 1 << 20).await.expect("short");
    (
        status.as_u16(),
        String::from_utf8(body.to_vec()).expect("text"),
    )
}

#[tokio::test]
async fn each_route_asks_for_what_it_takes() {
    let access = InForce::new(list(&[
        (1, "publish", "a.*"),
        (2, "admin", "a.*"),
        (3, "read", "*"),
        (4, "admin", "*"),
    ]));
    let router = routes(Some(access)).into_router();
    // By nobody, then by each of the four.
    for (method, target, expected) in [
        ("GET", "/ping", [200; 5]),
        ("GET", "/all", [401, 403, 403, 200, 200]),
        // What a query names is nothing to a route that is about everything.
        ("GET", "/all?topic=a.b", [401, 403, 403, 200, 200]),
        ("GET", "/t/a.b", [401, 200, 200, 200, 200]),
        ("HEAD", "/t/a.b", [401, 200, 200, 200, 200]),
        ("GET", "/t/b", [401, 403, 403, 200, 200]),
        ("GET", "/t/b?topic=a.b", [401, 403, 403, 200, 200]),
        ("GET", "/t/%61.b", [401, 200, 200, 200, 200]),
        ("GET", "/t/a%2Fb", [401, 403, 403, 200, 200]),
        ("PUT", "/t/a.b", [401, 403, 200, 403, 200]),
        ("DELETE", "/t/a.b", [401, 403, 200, 403, 200]),
        ("DELETE", "/t/b", [401, 403, 403, 403, 200]),
        ("POST", "/pub?topic=a.b", [401, 200, 200, 403, 200]),
        ("POST", "/pub?topic=a%2Eb", [401, 200, 200, 403, 200]),
        ("POST", "/pub?topic=b", [401, 403, 403, 403, 200]),
        ("POST", "/pub", [401, 403, 403, 403, 200]),
        ("POST", "/pub?topic=a.b&topic=b", [401, 403, 403, 403, 200]),
        ("POST", "/pub?topic=b&topic=a.b", [401, 403, 403, 403, 200]),
    ] {
        for (number, status) in (0..).zip(expected) {
            let shown = format!("Bearer {}", secret(number));
            let shown = match number {
                0 => vec![],
                _ => vec![shown.as_str()],
            };
            let (found, body) = ask(&router, method, target, &shown).await;
            assert_eq!(found, status, "{method} {target} by {number}: {body}");
        }
    }
}

#[tokio::test]
async fn a_refusal_says_what_to_do() {
    let access = InForce::new(list(&[(1, "publish", "a.*")]));
    let router = routes(Some(access)).into_router();
    let shown = format!("Bearer {}", secret(1));
    for (authorization, expected) in [
        (
            &[][..],
            "a token is needed; send it as `Authorization: Bearer TOKEN`",
        ),
        (&["Bearer x"], "this token is not in the access file"),
        (&["Basic x"], "a token is needed"),
        (&["Bearer"], "a token is needed"),
        (&[&shown, &shown], "a token is needed"),
        (
            &[&shown],
            "the token of `n1` does not permit this; the role admin over the topic `a.b` is needed",
        ),
    ] {
        let (_, body) = ask(&router, "PUT", "/t/a.b", authorization).await;
        assert!(body.contains(expected), "{authorization:?}: {body}");
        assert!(body.starts_with("{\"message\":"), "{body}");
    }
    let small = format!("bearer  {} ", secret(1));
    assert_eq!(ask(&router, "GET", "/t/a.b", &[&small]).await.0, 200);
}

#[tokio::test]
async fn a_list_that_is_replaced_counts_at_once() {
    let access = InForce::new(AccessList::default());
    let router = routes(Some(access.clone())).into_router();
    let shown = format!("Bearer {}", secret(1));
    let asked = async || ask(&router, "GET", "/t/a", &[&shown]).await.0;
    assert_eq!(asked().await, 401);
    access.replace(list(&[(1, "read", "a")]));
    assert_eq!(asked().await, 200);
    access.replace(AccessList::default());
    assert_eq!(asked().await, 401);
}

#[tokio::test]
async fn a_port_counts_whom_it_denies() {
    let access = InForce::new(list(&[(1, "publish", "a.*")]));
    let router = routes(Some(access)).into_router();
    let counts = Counts::default();
    let settings = Settings::new([], "message", Duration::ZERO, counts.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let served = tokio::spawn(serve(listener, router, settings, std::future::pending()));
    let right = format!("Authorization: Bearer {}\r\n", secret(1));
    for (asked, authorization, status, denied) in [
        ("GET /ping", "", 200, 0),
        ("GET /t/a.b", "", 401, 1),
        ("GET /t/a.b", "Authorization: Bearer x\r\n", 401, 2),
        ("GET /t/b", &right, 403, 3),
        ("GET /t/a.b", &right, 200, 3),
        ("GET /nowhere", "", 404, 3),
    ] {
        let mut stream = TcpStream::connect(address).await.expect("connected");
        let request = format!("{asked} HTTP/1.0\r\n{authorization}\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        let first = format!("HTTP/1.0 {status}");
        assert!(answer.starts_with(&first), "{asked}: {answer}");
        let figures = counts.figures();
        let mut named = figures.iter().filter(|figure| figure.name == "http_denied");
        let counted = named.next().map(|figure| figure.value);
        assert_eq!(counted, Some(denied), "{asked} {authorization}");
    }
    served.abort();
}

#[tokio::test]
async fn without_access_all_routes_are_open() {
    let routes = routes(None);
    assert_eq!(routes.list().len(), 6);
    let router = routes.into_router();
    for (method, target) in [("GET", "/all"), ("PUT", "/t/a"), ("POST", "/pub")] {
        assert_eq!(ask(&router, method, target, &[]).await.0, 200, "{target}");
    }
    assert_eq!(ask(&router, "POST", "/all", &[]).await.0, 405);
}
