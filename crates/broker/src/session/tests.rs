//! Which bytes choose which protocol.

use wire::announce::InstanceId;

use super::greeting::{Doorkeeper, Greeting};
use super::*;

fn greeted(bytes: &[u8], speaks_tempo: bool) -> String {
    let tempo = speaks_tempo.then_some(None);
    let needs_tls = false;
    match (Doorkeeper { tempo, needs_tls }).greet(bytes) {
        Greeting::Incomplete { needed } => format!("needs {needed}"),
        Greeting::Begins(Session::Nsq(_), used) => format!("nsq behind {used}"),
        Greeting::Begins(Session::Tempo(_), used) => format!("tempo behind {used}"),
        Greeting::Begins(..) => unreachable!("that is no protocol"),
        Greeting::Asks(question) => format!("asks with {}", question.len()),
        Greeting::Strange(Failure::Nsq(error)) => error.to_string(),
        Greeting::Strange(failure) => format!("{failure:?}"),
    }
}

#[test]
fn the_first_bytes_choose_what_is_spoken() {
    let mut hello = Vec::new();
    wire::tempo::put_hello(&mut hello, InstanceId(7), None);
    let question = [link::MAGIC_PROBE, &[0; link::QUESTION_BYTES][..]].concat();
    let asks = format!("asks with {}", link::QUESTION_BYTES);
    let needs = format!("needs {}", link::QUESTION_BYTES);
    for (bytes, speaks_tempo, expected) in [
        (&b""[..], true, "needs 4"),
        (b"  V", true, "needs 4"),
        (b"  V2", true, "nsq behind 4"),
        (b"  V2PUB", true, "nsq behind 4"),
        (&hello[..5], true, "needs 16"),
        (&hello[..], true, "tempo behind 16"),
        (&hello[..], false, "Tempo(Magic)"),
        (link::MAGIC_PROBE, true, needs.as_str()),
        (&question, true, asks.as_str()),
        (b"  V1", true, "E_BAD_PROTOCOL"),
        (b"GET / HTTP/1.1", true, "E_BAD_PROTOCOL"),
    ] {
        assert_eq!(greeted(bytes, speaks_tempo), expected, "{bytes:?}");
    }
}
