//! Auth servers that speak TLS: one that cannot prove who it is never hears a secret.

use rustls::{ServerConnection, StreamOwned};

use super::*;
use crate::tls::Credentials;
use crate::tls::tests::Papers;

/// An auth server with the certificate of `papers`, which is for `localhost`.
fn encrypted(papers: &Papers) -> (SocketAddr, Receiver<String>) {
    let credentials = Credentials::load(papers.config()).expect("files of use");
    let layer = move |stream: TcpStream| {
        let connection = ServerConnection::new(credentials.server()).expect("a config of use");
        Some(StreamOwned::new(connection, stream))
    };
    server_over(layer, 200, ALL)
}

/// What the server of this URL says about `secret`: how many permissions, or why nothing; it is judged by the authority of `papers`.
fn asked_by(papers: &Papers, url: &str, secret: &str) -> Result<usize, String> {
    let config = config(&[], AuthMethod::Get);
    let servers = Servers {
        list: Vec::new(),
        method: config.method,
        connect_timeout: config.connect_timeout,
        request_timeout: config.request_timeout,
    };
    let server = Server::new(url, Some(&papers.config())).expect("a URL and an authority");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let answer = runtime.block_on(server.ask(&servers, &question(secret).form()));
    answer.map(|all| all.count())
}

#[test]
fn only_a_server_that_proves_its_name_by_the_named_authority_hears_a_secret() {
    let papers = Papers::new("auth-server");
    let others = Papers::new("auth-server-of-others");
    let (address, asked) = encrypted(&papers);
    let port = address.port();
    let (by_name, by_address) = (
        format!("https://localhost:{port}/auth"),
        format!("https://127.0.0.1:{port}/auth"),
    );
    for (case, judge, url, reason) in [
        ("another authority", &others, &by_name, "BadSignature"),
        ("another name", &papers, &by_address, "not valid for name"),
    ] {
        let error = asked_by(judge, url, "withheld").expect_err(case);
        assert!(error.contains(reason), "{case}: {error}");
    }
    assert_eq!(asked_by(&papers, &by_name, "told"), Ok(1));
    let first = asked.recv().expect("asked");
    assert!(first.contains("secret=told&"), "{first}");
}

#[test]
fn a_server_without_tls_never_hears_what_is_meant_for_one_with_it() {
    let papers = Papers::new("auth-server-plain");
    let (address, asked) = server(200, ALL);
    let url = format!("https://localhost:{}/auth", address.port());
    asked_by(&papers, &url, "withheld").expect_err("no handshake");
    assert_eq!(
        ask(&config(&[address.to_string()], AuthMethod::Get), &["told"]),
        [Some(1)]
    );
    let heard: Vec<String> = asked.try_iter().collect();
    assert!(
        heard.iter().all(|each| !each.contains("withheld")),
        "{heard:?}"
    );
    assert!(heard.iter().any(|each| each.contains("secret=told&")));
}

#[test]
fn the_thread_asks_over_tls() {
    let papers = Papers::new("auth-server-thread");
    let (address, _asked) = encrypted(&papers);
    let name = format!("https://localhost:{}/auth", address.port());
    let config = config(&[name], AuthMethod::Post);
    assert_eq!(ask_over(&config, Some(&papers.config()), &["s"]), [Some(1)]);
}
