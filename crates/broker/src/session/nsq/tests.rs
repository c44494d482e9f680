//! What commands ask for, and the answers.

use wire::ErrorCode;

use super::*;
use crate::auth::AuthTerms;
use topics::ConsumerOrder;

mod admission;

struct Client {
    nsq: Nsq,
    output: Output,
    server: ServerLimits,
    now: Instant,
    auth: Option<AuthTerms>,
}

impl Client {
    fn new() -> Client {
        Client {
            auth: None,
            nsq: Nsq::begin(false),
            output: Output::default(),
            server: ServerLimits::default(),
            now: Instant::from_nanos(1_000_000_000),
        }
    }

    /// What `words` ask for, in few words.
    fn say(&mut self, words: &[u8]) -> String {
        let reading = Reading {
            limits: &wire::Limits::default(),
            server: &self.server,
            identifiers: None,
            auth: self.auth.as_ref(),
            now: self.now,
        };
        match self.nsq.next(words, &mut self.output, &reading) {
            Ok(Next::Act { act, used }) => {
                assert_eq!(used, words.len(), "{act:?}");
                match act {
                    Act::Publish {
                        topic,
                        body,
                        delay,
                        deed,
                    } => format!("{deed:?} {topic} {body:?} {delay:?}"),
                    Act::PublishMany { topic, messages } => {
                        format!("PublishMany {topic} {}", messages.iter().count())
                    }
                    Act::Subscribe {
                        topic,
                        channel,
                        terms,
                    } => format!("Subscribe {topic} {channel} {:?}", terms.msg_timeout),
                    Act::Introduce(told) => format!("Introduce {:?}", told.collecting),
                    act => format!("{act:?}"),
                }
            }
            Ok(Next::Incomplete { needed }) => format!("needs {needed}"),
            Ok(Next::Greeting) => unreachable!("it has begun"),
            Err(Failure::Nsq(error)) => error.code.as_str().to_owned(),
            Err(failure) => format!("{failure:?}"),
        }
    }

    fn heard(&mut self) -> Vec<u8> {
        let heard = self.output.unsent().to_vec();
        self.output.advance(heard.len());
        self.output.settle();
        heard
    }
}

#[test]
fn commands_become_acts() {
    for (words, expected) in [
        (&b"PUB t\n\0\0\0\x01x"[..], "Publish t [120] 0ns"),
        (b"PUB t\n\0\0\0\x02x", "needs 12"),
        (b"DPUB t 25\n\0\0\0\x01x", "PublishLater t [120] 25ms"),
        (
            b"MPUB t\n\0\0\0\x0e\0\0\0\x02\0\0\0\x01x\0\0\0\x01y",
            "PublishMany t 2",
        ),
        (b"SUB t c\n", "Subscribe t c 60s"),
        (b"NOP\n", "Rest"),
        (b"AUTH\n\0\0\0\x01x", "E_AUTH_DISABLED"),
        (b"HELLO\n", "E_INVALID"),
        (b"FIN 0000000000000001\n", "E_INVALID"),
    ] {
        let told = Client::new().say(words);
        assert_eq!(told, expected, "{}", words.escape_ascii());
    }
}

#[test]
fn who_has_subscribed_speaks_of_its_messages_and_subscribes_no_more() {
    let mut client = Client::new();
    client.nsq.put_subscribed(&mut client.output);
    assert_eq!(client.heard(), OK_FRAME);
    for (words, expected) in [
        (
            &b"FIN 00000000000000ff\n"[..],
            "Order { of: 0, order: Finish(255) }",
        ),
        (
            b"TOUCH 00000000000000ff\n",
            "Order { of: 0, order: Touch(255) }",
        ),
        (
            b"REQ 00000000000000ff 7\n",
            "Order { of: 0, order: Requeue(255, 7ms) }",
        ),
        (b"RDY 3\n", "Order { of: 0, order: Ready(3) }"),
        (b"SUB t other\n", "E_INVALID"),
        (b"CLS\n", "Close"),
    ] {
        assert_eq!(client.say(words), expected);
    }
    // What is no number was never given out; that is told, and no more.
    for words in [&b"FIN 0123456789ABCDEF\n"[..], b"TOUCH ----------------\n"] {
        let told = client.say(words);
        assert!(told.starts_with("Refuse(Nsq("), "{told}");
        assert!(told.contains("ID not in flight"), "{told}");
    }
    client.nsq.put_closing(&mut client.output);
    assert_eq!(client.heard(), wire::CLOSE_WAIT_FRAME);
    assert_eq!(client.say(b"RDY 3\n"), "Rest");
}

#[test]
fn each_publish_is_owed_an_ok_or_all_of_them_a_number() {
    let mut client = Client::new();
    for _ in 0..3 {
        assert_eq!(client.nsq.accept(5, client.now), Acknowledged::Now);
    }
    assert_eq!(client.nsq.owed_bytes(), 3 * OK_FRAME.len());
    let frames = client.nsq.take_ready_frames();
    assert_eq!(frames, Some(&OK_FRAME.repeat(3)[..]));
    assert_eq!((client.nsq.owed_bytes(), client.heard().len()), (0, 0));
    // More than stand ready go the long way.
    (0..65).for_each(|_| assert_eq!(client.nsq.accept(1, client.now), Acknowledged::Now));
    assert_eq!(client.nsq.take_ready_frames(), None);
    client.nsq.settle(&mut client.output, client.now);
    assert_eq!(client.heard(), OK_FRAME.repeat(65));

    let terms =
        br#"{"feature_negotiation":true,"srtm":{"ack_every_messages":3,"ack_interval_ms":100}}"#;
    let mut words = Vec::new();
    wire::command::put_identify(&mut words, terms);
    // What was accepted before is still owed as it was then.
    assert_eq!(client.nsq.accept(1, client.now), Acknowledged::Now);
    assert_eq!(client.say(&words), "Introduce None");
    let heard = client.heard();
    assert!(heard.starts_with(&OK_FRAME) && heard.ends_with(b"}"));
    let Acknowledged::At(due) = client.nsq.accept(2, client.now) else {
        panic!("it is due some time");
    };
    assert_eq!(client.nsq.ack_due(), Some(due));
    assert_eq!(client.nsq.take_ready_frames(), None);
    client.nsq.settle(&mut client.output, client.now);
    assert_eq!(client.heard(), [0; 0], "it is not due yet");
    assert_eq!(client.nsq.accept(2, client.now), Acknowledged::Now);
    client.nsq.settle(&mut client.output, client.now);
    let mut ack = Vec::new();
    wire::put_ack(&mut ack, 4);
    assert_eq!(client.heard(), ack);
}

#[test]
fn failures_have_nsqds_words_and_say_whether_it_goes_on() {
    let error = || ProtocolError::new(ErrorCode::Invalid, "cannot");
    let refused = |deed| Failure::Refused(deed, "why".to_owned());
    let (goes_on, lingers) = (Aftermath::GoesOn, Aftermath::Lingers);
    let id = "00000000000000ff";
    for (failure, words, aftermath) in [
        (
            refused(Deed::Publish),
            "E_PUB_FAILED PUB failed why".into(),
            lingers,
        ),
        (
            refused(Deed::PublishMany),
            "E_MPUB_FAILED MPUB failed why".into(),
            lingers,
        ),
        (
            refused(Deed::Subscribe),
            "E_SUB_FAILED SUB failed why".into(),
            lingers,
        ),
        (
            Failure::Exiting(Deed::PublishLater),
            "E_DPUB_FAILED DPUB failed exiting".into(),
            lingers,
        ),
        (
            refused(Deed::Order(ConsumerOrder::Finish(255))),
            format!("E_FIN_FAILED FIN {id} failed why"),
            goes_on,
        ),
        (
            refused(Deed::Order(ConsumerOrder::Requeue(255, Duration::ZERO))),
            format!("E_REQ_FAILED REQ {id} failed why"),
            goes_on,
        ),
        (
            refused(Deed::Order(ConsumerOrder::Touch(255))),
            format!("E_TOUCH_FAILED TOUCH {id} failed why"),
            goes_on,
        ),
        (Failure::Nsq(error()), "E_INVALID cannot".into(), lingers),
    ] {
        let mut output = Output::default();
        assert_eq!(put_failure(&failure, &mut output), aftermath, "{failure}");
        let words: String = words;
        assert_eq!(output.unsent()[8..], *words.as_bytes(), "{failure}");
    }
}
