//! AUTH, command by command: nsqd 1.3.0's words, and what a list that changes does.

use std::time::Duration;

use access::{AccessList, Authorizations, InForce, Token, TokenHash};

use super::*;

fn secret(number: u8) -> String {
    Token::new([number; 32]).secret().to_owned()
}

fn entry(number: u8, role: &str, topics: &str) -> String {
    let hash = TokenHash::of(secret(number).as_bytes());
    format!(
        "[[token]]\nname = \"n{number}\"\nhash = \"{hash}\"\nroles = [\"{role}\"]\ntopics = [\"{topics}\"]\n"
    )
}

fn list(lines: &str) -> AccessList {
    AccessList::parse(lines).expect("valid")
}

/// A client of a broker that goes by `tokens`, and asks servers or not.
fn client(tokens: Option<InForce>, asks_servers: bool) -> Client {
    Client {
        auth: Some(AuthTerms {
            tokens,
            asks_servers,
        }),
        ..Client::new()
    }
}

fn auth(client: &mut Client, secret: &str) -> String {
    let mut words = Vec::new();
    wire::command::put_auth(&mut words, secret.as_bytes());
    client.say(&words)
}

const PUB: &[u8] = b"PUB a.1\n\0\0\0\x01x";

fn server_says(client: &mut Client, answer: Option<&str>) -> String {
    let answer = answer.map(|text| Authorizations::parse(text.as_bytes()).expect("valid"));
    let now = client.now;
    let heard = client
        .nsq
        .hear_authorizations(answer, &mut client.output, now);
    match heard {
        Ok(declaration) => format!("{:?}", declaration.map(|told| told.id)),
        Err(failure) => failure.to_string(),
    }
}

#[test]
fn a_token_is_for_what_its_lines_say() {
    let tokens = InForce::new(list(
        &(entry(1, "publish", "a.*") + &entry(2, "subscribe", "a.*")),
    ));
    let mut publisher = client(Some(tokens.clone()), false);
    assert_eq!(publisher.say(PUB), "E_AUTH_FIRST");
    assert_eq!(publisher.say(b"NOP\n"), "Rest");
    assert_eq!(auth(&mut publisher, "guess"), "E_AUTH_FAILED");
    assert_eq!(auth(&mut publisher, &secret(1)), "Admit(None)");
    let answer = br#"{"identity":"n1","identity_url":"","permission_count":1}"#;
    assert!(publisher.heard().ends_with(answer));
    assert_eq!(auth(&mut publisher, &secret(1)), "E_INVALID");
    for _ in 0..2 {
        assert_eq!(publisher.say(PUB), "Publish a.1 [120] 0ns");
    }
    assert_eq!(
        publisher.say(b"DPUB a.2 5\n\0\0\0\x01x"),
        "PublishLater a.2 [120] 5ms"
    );
    assert_eq!(publisher.say(b"PUB b\n\0\0\0\x01x"), "E_UNAUTHORIZED");
    assert_eq!(
        publisher.say(b"MPUB b\n\0\0\0\x09\0\0\0\x01\0\0\0\x01x"),
        "E_UNAUTHORIZED"
    );
    assert_eq!(publisher.say(b"SUB a.1 c\n"), "E_UNAUTHORIZED");
    let mut consumer = client(Some(tokens), false);
    assert_eq!(consumer.say(b"SUB a.1 c\n"), "E_AUTH_FIRST");
    assert_eq!(auth(&mut consumer, &secret(2)), "Admit(None)");
    assert_eq!(consumer.say(b"SUB a.1 c\n"), "Subscribe a.1 c 60s");
    assert_eq!(consumer.say(PUB), "E_UNAUTHORIZED");
    let long = "x".repeat(crate::auth::SECRET_MAX_BYTES + 1);
    assert_eq!(auth(&mut client(None, true), &long), "E_AUTH_FAILED");
}

#[test]
fn a_token_that_is_taken_back_ends_what_it_began() {
    let both = entry(1, "admin", "*") + &entry(2, "read", "*");
    let tokens = InForce::new(list(&both));
    let mut publisher = client(Some(tokens.clone()), false);
    let mut consumer = client(Some(tokens.clone()), false);
    for client in [&mut publisher, &mut consumer] {
        assert_eq!(auth(client, &secret(1)), "Admit(None)");
    }
    assert_eq!(publisher.say(PUB), "Publish a.1 [120] 0ns");
    assert_eq!(consumer.say(b"SUB a.1 c\n"), "Subscribe a.1 c 60s");
    // The same again, in another edition: both go on.
    tokens.replace(list(&both));
    assert_eq!(publisher.say(PUB), "Publish a.1 [120] 0ns");
    assert_eq!(consumer.say(b"NOP\n"), "Rest");
    tokens.replace(list(&entry(1, "publish", "a.*")));
    assert_eq!(publisher.say(PUB), "Publish a.1 [120] 0ns");
    assert_eq!(consumer.say(b"NOP\n"), "E_UNAUTHORIZED");
    tokens.replace(AccessList::default());
    assert_eq!(publisher.say(PUB), "E_AUTH_FAILED");
}

#[test]
fn a_server_is_asked_again_when_its_time_is_over() {
    let may = r#"{"ttl": 10, "identity": "i", "authorizations": [{"topic": "^a", "channels": [".*"], "permissions": ["publish"]}]}"#;
    let may_not = r#"{"ttl": 10, "authorizations": [{"topic": "^b", "channels": [".*"], "permissions": ["publish"]}]}"#;
    let mut client = client(None, true);
    assert_eq!(auth(&mut client, "s"), "Authenticate");
    assert_eq!(server_says(&mut client, Some(may)), "None");
    assert!(
        client
            .heard()
            .ends_with(br#"{"identity":"i","identity_url":"","permission_count":1}"#)
    );
    assert_eq!(client.say(PUB), "Publish a.1 [120] 0ns");
    client.now += Duration::from_secs(10);
    // The command stays where it is: nothing of it was used.
    assert_eq!(said(&mut client, PUB), ("Authenticate".to_owned(), 0));
    assert_eq!(server_says(&mut client, Some(may)), "None");
    assert_eq!(client.heard(), b"", "nobody asked");
    assert_eq!(client.say(PUB), "Publish a.1 [120] 0ns");
    client.now += Duration::from_secs(10);
    assert_eq!(said(&mut client, PUB).1, 0);
    assert_eq!(server_says(&mut client, Some(may_not)), "None");
    assert_eq!(client.say(PUB), "E_UNAUTHORIZED");
    client.now += Duration::from_secs(10);
    assert_eq!(said(&mut client, PUB).1, 0);
    assert_eq!(server_says(&mut client, None), "E_AUTH_FAILED AUTH failed");
}

#[test]
fn who_may_do_nothing_hears_so() {
    let mut nothing = client(None, true);
    assert_eq!(auth(&mut nothing, "s"), "Authenticate");
    let heard = server_says(&mut nothing, Some(r#"{"ttl": 10}"#));
    assert_eq!(heard, "E_UNAUTHORIZED AUTH no authorizations found");
    let mut failed = client(None, true);
    assert_eq!(auth(&mut failed, "s"), "Authenticate");
    assert_eq!(server_says(&mut failed, None), "E_AUTH_FAILED AUTH failed");
    // A token is known without a server; anything else is asked about.
    let tokens = InForce::new(list(&entry(1, "publish", "a.*")));
    let mut either = client(Some(tokens), true);
    assert_eq!(auth(&mut either, "s"), "Authenticate");
    assert_eq!(server_says(&mut either, None), "E_AUTH_FAILED AUTH failed");
    assert_eq!(auth(&mut either, &secret(1)), "Admit(None)");
}

#[test]
fn a_publisher_is_known_once_it_may_publish() {
    let tokens = InForce::new(list(
        &(entry(1, "publish", "a.*") + &entry(2, "publish", "b")),
    ));
    let body =
        br#"{"feature_negotiation": true, "srtm": {"publisher": {"id": "p1", "topic": "a.1"}}}"#;
    let mut words = Vec::new();
    wire::command::put_identify(&mut words, body);
    for (number, expected) in [(1, "p1"), (2, "E_UNAUTHORIZED")] {
        let mut client = client(Some(tokens.clone()), false);
        assert_eq!(client.say(&words), "Introduce None");
        assert!(!declared(&mut client, &words), "nobody knows yet who it is");
        let told = auth(&mut client, &secret(number));
        assert!(told.contains(expected), "{told}");
        if number == 1 {
            assert!(declared(&mut client, &words), "it is known who it is");
        }
    }
}

/// Whether an IDENTIFY makes the client a publisher at once.
fn declared(client: &mut Client, words: &[u8]) -> bool {
    let mut reading = None;
    client.with(words, |act| {
        if let Ok(Next::Act {
            act: Act::Introduce(told),
            ..
        }) = act
        {
            reading = Some(told.declaration.is_some());
        }
    });
    reading.expect("an introduction")
}

/// What words ask for, and how many bytes of them that takes.
fn said(client: &mut Client, words: &[u8]) -> (String, usize) {
    let mut said = None;
    client.with(words, |act| {
        if let Ok(Next::Act { act, used }) = act {
            said = Some((format!("{act:?}"), used));
        }
    });
    said.expect("an act")
}

impl Client {
    fn with(&mut self, words: &[u8], hear: impl FnOnce(Result<Next<'_>, Failure>)) {
        let reading = Reading {
            limits: &wire::Limits::default(),
            server: &self.server,
            identifiers: None,
            auth: self.auth.as_ref(),
            now: self.now,
        };
        hear(self.nsq.next(words, &mut self.output, &reading));
    }
}
