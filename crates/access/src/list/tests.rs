//! Who may do what by a list, and what is no list.

use super::*;
use crate::Token;

fn hash(number: u8) -> TokenHash {
    TokenHash::of(token(number).as_bytes())
}

fn token(number: u8) -> String {
    Token::new([number; 32]).secret().to_owned()
}

fn entry(number: u8, rest: &str) -> String {
    format!(
        "[[token]]\nname = \"n{number}\"\nhash = \"{}\"\n{rest}\n",
        hash(number)
    )
}

fn list() -> AccessList {
    let text = [
        entry(
            1,
            "roles = [\"publish\"]\ntopics = [\"sensors.*\", \"log\"]",
        ),
        entry(
            2,
            "roles = [\"subscribe\"]\ntopics = [\"*\"]\nchannels = [\"archive*\"]",
        ),
        entry(3, "roles = [\"admin\"]\ntopics = [\"*\"]"),
        entry(4, "roles = [\"admin\"]\ntopics = [\"mine.*\"]"),
        entry(5, "roles = [\"read\"]\ntopics = [\"*\"]"),
    ];
    AccessList::parse(&text.concat()).expect("valid")
}

#[test]
fn needs_are_judged_by_role_and_topic() {
    use Need::{Everything, Metrics, Nothing, Proof, Token, Topic};
    use Role::{Admin, Publish, Read};
    let list = list();
    for (need, topic, allowed) in [
        (Nothing, None, &[0, 1, 2, 3, 4, 5, 9][..]),
        (Proof, None, &[0, 1, 2, 3, 4, 5, 9]),
        (Metrics, None, &[0, 1, 2, 3, 4, 5, 9]),
        (Token, None, &[1, 2, 3, 4, 5]),
        (Topic(Publish), Some("sensors.1"), &[1, 3]),
        (Topic(Publish), Some("mine.1"), &[3, 4]),
        (Topic(Publish), Some("other"), &[3]),
        (Topic(Publish), None, &[3]),
        (Topic(Read), Some("log"), &[1, 2, 3, 5]),
        (Topic(Admin), Some("mine.1"), &[3, 4]),
        (Everything(Read), None, &[2, 3, 5]),
        // A topic that somebody names does not make less of what is asked for.
        (Everything(Read), Some("sensors.1"), &[2, 3, 5]),
        (Everything(Admin), Some("mine.1"), &[3]),
    ] {
        for number in [0, 1, 2, 3, 4, 5, 9] {
            let shown = (number > 0).then(|| token(number));
            let judged = list.judge(need, topic, shown.as_deref().map(str::as_bytes));
            let expected = match number {
                _ if allowed.contains(&number) => None,
                0 => Some(401),
                9 => Some(401),
                _ => Some(403),
            };
            let found = judged.err().map(|denial| denial.status());
            assert_eq!(found, expected, "{need:?} {topic:?} by {number}");
        }
    }
}

#[test]
fn channels_bound_subscriptions_only() {
    let list = list();
    let holder = list.holder(&hash(2)).expect("known");
    assert!(holder.may_subscribe("t", "archive"));
    assert!(!holder.may_subscribe("t", "other"));
    let admin = list.holder(&hash(4)).expect("known");
    assert!(admin.may_subscribe("mine.1", "any"));
    assert!(!admin.may_subscribe("t", "any"));
}

#[test]
fn metrics_are_closed_where_the_file_says_so() {
    let text = format!(
        "metrics = \"read\"\n{}",
        entry(1, "roles = [\"read\"]\ntopics = [\"*\"]")
    );
    let list = AccessList::parse(&text).expect("valid");
    assert_eq!(list.judge(Need::Metrics, None, None), Err(Denial::NoToken));
    assert_eq!(
        list.judge(Need::Metrics, None, Some(token(1).as_bytes())),
        Ok(())
    );
}

#[test]
fn a_file_that_is_none_says_where_and_what_to_write() {
    let good = "roles = [\"read\"]\ntopics = [\"*\"]";
    for (text, expected) in [
        ("tokens = 1".to_owned(), "unknown field"),
        ("metrics = \"shut\"".to_owned(), "unknown variant"),
        ("[[token]]\nname = \"a\"".to_owned(), "missing field `hash`"),
        (
            entry(1, "roles = []\ntopics = [\"*\"]"),
            "token 1 (`n1`): it has no roles",
        ),
        (
            entry(1, "roles = [\"root\"]\ntopics = [\"*\"]"),
            "`root` is not a role",
        ),
        (
            entry(1, "roles = [\"read\"]\ntopics = []"),
            "it has 0 topics",
        ),
        (
            entry(1, "roles = [\"read\"]\ntopics = [\"a/b\"]"),
            "`a/b` is not a pattern",
        ),
        (
            entry(1, "roles = [\"read\"]\ntopics = [\"*\"]\nchannels = []"),
            "it has 0 channels",
        ),
        (
            entry(1, good) + &entry(1, good),
            "token 2 (`n1`): `n1` has the same hash",
        ),
        (
            entry(1, good).replace("blake3:", "plain:"),
            "hash: not the hash of a token",
        ),
        (entry(1, good).replace("n1", ""), "say who holds it"),
    ] {
        let error = AccessList::parse(&text).expect_err(&text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert_eq!(AccessList::parse("").map(|list| list.tokens()), Ok(0));
}

#[test]
fn the_lines_of_a_token_read_as_what_they_say() {
    let list = list();
    let lines: String = (1..=5)
        .map(|number| {
            list.holder(&hash(number))
                .expect("known")
                .lines(hash(number))
        })
        .collect();
    assert_eq!(AccessList::parse(&lines), Ok(list));
}
