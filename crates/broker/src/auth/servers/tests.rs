//! Servers over sockets of this machine, as the thread asks them.

mod encrypted;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use super::*;
use crate::auth::Secret;

const ALL: &str = r#"{"ttl": 60, "authorizations": [{"topic": ".*", "channels": [".*"], "permissions": ["publish"]}]}"#;

/// A server that answers everything alike, and what it is asked: first lines and bodies.
fn server(status: u16, body: &'static str) -> (SocketAddr, Receiver<String>) {
    server_over(Some, status, body)
}

/// One that speaks through what `layer` makes of a connection; where that or its reading fails, it goes on to the next connection.
fn server_over<S: Read + Write>(
    layer: impl Fn(TcpStream) -> Option<S> + Send + 'static,
    status: u16,
    body: &'static str,
) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let (tell, asked) = channel();
    let head = format!(
        "HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Some(stream) = layer(stream.expect("a connection")) else {
                continue;
            };
            let mut stream = BufReader::new(stream);
            if let Ok(told) = read_request(&mut stream) {
                let _ = tell.send(told);
                let _ = stream.get_mut().write_all(head.as_bytes());
            }
        }
    });
    (address, asked)
}

/// The first line and the body of a request.
fn read_request(stream: &mut impl BufRead) -> std::io::Result<String> {
    let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
    stream.read_line(&mut first)?;
    while stream.read_line(&mut line)? > 2 {
        if let Some(told) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = told.trim().parse().expect("a number");
        }
        line.clear();
    }
    let mut told = vec![0; length];
    stream.read_exact(&mut told)?;
    let told = String::from_utf8(told).expect("a form");
    Ok(format!("{} {told}", first.trim_end()))
}

fn question(secret: &str) -> AuthQuestion {
    AuthQuestion {
        reactor: 0,
        connection: ConnectionKey::from_bits(7),
        remote: IpAddr::from([127, 0, 0, 1]),
        is_encrypted: false,
        certificate: None,
        secret: Secret::new(secret.as_bytes()),
    }
}

/// What the thread answers to as many questions as there are `secrets`: how many permissions, by each.
fn ask(config: &AuthConfig, secrets: &[&str]) -> Vec<Option<usize>> {
    ask_over(config, None, secrets)
}

/// The same, with servers that speak TLS judged by the authorities of `tls`.
fn ask_over(config: &AuthConfig, tls: Option<&TlsConfig>, secrets: &[&str]) -> Vec<Option<usize>> {
    let inboxes = [Arc::new(Inbox::new().expect("an inbox"))];
    let servers = AuthServers::start(config, tls, &inboxes).expect("started");
    for secret in secrets {
        servers.ask(question(secret));
    }
    let mut found = Vec::new();
    let mut mail = Vec::new();
    while found.len() < secrets.len() {
        inboxes[0].take(&mut mail);
        for piece in mail.drain(..) {
            let Mail::Permitted(permitted) = piece else {
                unreachable!("nothing else was asked");
            };
            assert_eq!(permitted.connection, ConnectionKey::from_bits(7));
            found.push(permitted.authorizations.map(|all| all.count()));
        }
        std::thread::yield_now();
    }
    found
}

fn config(addresses: &[String], method: AuthMethod) -> AuthConfig {
    AuthConfig {
        addresses: addresses.to_vec(),
        method,
        ..AuthConfig::default()
    }
}

#[test]
fn a_server_is_asked_as_nsqd_asks_it() {
    let form = "common_name=&remote_ip=127.0.0.1&secret=s%26t&tls=false";
    let (address, asked) = server(200, ALL);
    for (name, method, expected) in [
        (
            address.to_string(),
            AuthMethod::Get,
            format!("GET /auth?{form} HTTP/1.1 "),
        ),
        (
            format!("http://{address}/a/b"),
            AuthMethod::Get,
            format!("GET /a/b?{form} HTTP/1.1 "),
        ),
        (
            format!("http://{address}/a?c=d"),
            AuthMethod::Get,
            format!("GET /a?c=d&{form} HTTP/1.1 "),
        ),
        (
            address.to_string(),
            AuthMethod::Post,
            format!("POST /auth HTTP/1.1 {form}"),
        ),
    ] {
        assert_eq!(ask(&config(&[name], method), &["s&t"]), [Some(1)]);
        assert_eq!(asked.recv().expect("asked"), expected);
    }
}

#[test]
fn of_several_servers_one_that_answers_is_enough() {
    let (refusing, _) = server(403, "");
    let (broken, _) = server(200, "{}");
    let (good, _) = server(200, ALL);
    let nobody = "127.0.0.1:1".to_owned();
    let all = [
        nobody.clone(),
        refusing.to_string(),
        broken.to_string(),
        good.to_string(),
    ];
    assert_eq!(ask(&config(&all, AuthMethod::Get), &["s"; 3]), [Some(1); 3]);
    assert_eq!(ask(&config(&all[..3], AuthMethod::Get), &["s"]), [None]);
}

#[test]
fn many_who_are_refused_all_hear_so() {
    let (refusing, asked) = server(403, "");
    let secrets = ["wrong"; 12];
    let answers = ask(&config(&[refusing.to_string()], AuthMethod::Get), &secrets);
    assert_eq!(answers, [None; 12]);
    assert_eq!(asked.try_iter().count(), 12);
}

#[test]
fn an_address_that_is_none_is_said_at_the_start() {
    let inboxes = [Arc::new(Inbox::new().expect("an inbox"))];
    for (address, expected) in [
        ("", "is not an address"),
        ("a b:1", "is not an address"),
        ("ftp://a/b", "is not an address"),
        (
            "https://a.example/auth",
            "give the file with its authorities",
        ),
    ] {
        let config = config(&[address.to_owned()], AuthMethod::Get);
        let error = AuthServers::start(&config, None, &inboxes).map(drop);
        let error = error.expect_err(address).to_string();
        assert!(
            error.starts_with("--auth-http-address") && error.contains(expected),
            "{error}"
        );
    }
}
