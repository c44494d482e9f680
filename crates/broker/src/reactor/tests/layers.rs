//! Clients that ask for TLS and compression in IDENTIFY, correctly and incorrectly.

use wire::identify::Compression;

use super::*;
use crate::tls::TlsRequired;

const OK: &[u8] = b"\0\0\0\x06\0\0\0\0OK";

/// Layers of every kind, and the wish for them.
fn layered() -> impl Iterator<Item = (bool, Option<Compression>, String)> {
    KINDS.into_iter().filter_map(|kind| match kind {
        Kind::Layers { tls, compression } => {
            let wish = match compression {
                Some(Compression::Snappy) => r#""snappy":true"#,
                Some(Compression::Deflate { .. }) => r#""deflate":true"#,
                None => r#""deflate":false"#,
            };
            Some((tls, compression, format!(r#""tls_v1":{tls},{wish}"#)))
        }
        _ => None,
    })
}

fn identify(wish: &str) -> Vec<u8> {
    let mut words = Vec::new();
    let body = format!(r#"{{"feature_negotiation":true,{wish}}}"#);
    wire::command::put_identify(&mut words, body.as_bytes());
    words
}

impl Scene {
    /// Takes the next plain frame from the wire, and nothing behind it.
    pub(super) fn plain_frame(&mut self, peer: &mut Peer) -> Vec<u8> {
        let mut frame = vec![0; 4];
        let mut at = 0;
        self.until("a frame", |_| {
            while at < frame.len() {
                match peer.client.read(&mut frame[at..]) {
                    Ok(0) => panic!("it has ended"),
                    Ok(count) => at += count,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WouldBlock);
                        return false;
                    }
                }
                if at == 4 {
                    let size = u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]);
                    frame.resize(4 + size as usize, 0);
                }
            }
            true
        });
        frame.split_off(8)
    }

    /// Somebody who has negotiated layers, and whatever else `wish` asks for.
    fn negotiate(
        &mut self,
        number: usize,
        (tls, compression): (bool, Option<Compression>),
        wish: &str,
    ) -> Peer {
        let mut peer = self.connect(number, Kind::Plain);
        let mut words = b"  V2".to_vec();
        words.extend(identify(wish));
        peer.say(self, &words, usize::MAX);
        let answer = self.plain_frame(&mut peer);
        let answer = wire::identify::ServerFeatures::from_json(&answer).expect("JSON");
        assert_eq!(answer.tls_v1, tls);
        assert_eq!(answer.snappy, compression == Some(Compression::Snappy));
        let is_packed = compression.is_some();
        assert_eq!(answer.deflate, is_packed && !answer.snappy);
        let plain = if tls && is_packed { OK.len() } else { 0 };
        peer.far.upgrade(tls, compression, plain, &self.authority);
        self.shake(&mut peer);
        for _ in 0..usize::from(tls) + usize::from(is_packed) {
            assert_eq!(self.frames(&mut peer, 1)[0][4..], *b"OK");
        }
        peer
    }

    /// Waits for the end of a connection.
    fn end_of(&mut self, mut peer: Peer) {
        self.until("it ends", |_| !peer.listen());
    }

    pub(super) fn with_tls(config: Config) -> Scene {
        let mut scene = Scene::new(config);
        for reactor in &mut scene.reactors {
            reactor.intake.server.tls = true;
        }
        scene
    }
}

#[test]
fn layers_are_negotiated_and_hold_wherever_the_connection_goes() {
    for (tls, compression, wish) in layered() {
        let mut scene = Scene::with_tls(Config {
            threads: 2,
            mem_queue_size: 8,
            ..Config::default()
        });
        for topic in ["t", "u", "v"] {
            // One of them is at the topic's home, the other moves there or publishes from elsewhere.
            let mut consumer = scene.negotiate(0, (tls, compression), &wish);
            let words = format!("SUB {topic} c\nRDY 3\n");
            consumer.say(&mut scene, words.as_bytes(), usize::MAX);
            assert_eq!(scene.frames(&mut consumer, 1)[0][4..], *b"OK");
            let acks = format!(r#"{wish},"srtm":{{"ack_every_messages":30}}"#);
            let mut publisher = scene.negotiate(1, (tls, compression), &acks);
            let bodies = (0..30).map(|number| vec![number; 2000]);
            let words = publishes(topic, bodies);
            publisher.say(&mut scene, &words, 700);
            for number in 0..30 {
                let frame = scene.frames(&mut consumer, 1).remove(0);
                assert_eq!(frame[30..], vec![number; 2000], "{wish}");
                let finish = [b"FIN ", &frame[14..30], b"\n"].concat();
                consumer.say(&mut scene, &finish, usize::MAX);
            }
            // One number for all of them, or several that end with it.
            let mut ack = Vec::new();
            wire::put_ack(&mut ack, 30);
            while scene.frames(&mut publisher, 1)[0] != ack[4..] {}
        }
    }
}

#[test]
fn a_layer_is_not_put_on_twice() {
    for (tls, compression, wish) in layered() {
        let mut scene = Scene::with_tls(Config {
            threads: 1,
            ..Config::default()
        });
        let mut peer = scene.negotiate(0, (tls, compression), &wish);
        peer.say(&mut scene, &identify(&wish), usize::MAX);
        let error = scene.frames(&mut peer, 1).remove(0);
        let error = String::from_utf8_lossy(&error[4..]).into_owned();
        assert!(
            error.starts_with("E_IDENTIFY_FAILED IDENTIFY failed this connection"),
            "{error}"
        );
        scene.end_of(peer);
    }
}

#[test]
fn where_tls_is_required_nothing_else_is_heard_before_it() {
    let mut scene = Scene::with_tls(Config {
        threads: 1,
        tls_required: TlsRequired::ExceptHttp,
        ..Config::default()
    });
    let publish = publishes("t", [vec![7]]);
    for words in [&publish[..], b"SUB t c\n", b"NOP\n"] {
        for before in [Vec::new(), identify(r#""snappy":false"#)] {
            let mut peer = scene.connect(0, Kind::Plain);
            let said = [b"  V2", &before[..], words].concat();
            peer.say(&mut scene, &said, usize::MAX);
            if !before.is_empty() {
                scene.frames(&mut peer, 1);
            }
            let error = scene.frames(&mut peer, 1).remove(0);
            assert!(
                error.ends_with(b"(TLS required)"),
                "{}",
                error.escape_ascii()
            );
            scene.end_of(peer);
        }
    }
    let mut peer = scene.negotiate(0, (true, None), r#""tls_v1":true"#);
    peer.say(&mut scene, &publish, usize::MAX);
    assert_eq!(scene.frames(&mut peer, 1)[0][4..], *b"OK");
}

#[test]
fn who_does_not_shake_hands_in_time_is_let_go() {
    let mut scene = Scene::with_tls(Config {
        threads: 1,
        handshake_timeout: Duration::from_millis(20),
        ..Config::default()
    });
    for words in [&b""[..], b"\x16\x03\x01\x02"] {
        let mut peer = scene.connect(0, Kind::Plain);
        let said = [b"  V2", &identify(r#""tls_v1":true"#)[..]].concat();
        peer.say(&mut scene, &said, usize::MAX);
        scene.plain_frame(&mut peer);
        peer.say(&mut scene, words, usize::MAX);
        scene.end_of(peer);
    }
    // Garbage is told so at once.
    let mut peer = scene.connect(0, Kind::Plain);
    let said = [b"  V2", &identify(r#""tls_v1":true"#)[..]].concat();
    peer.say(&mut scene, &said, usize::MAX);
    scene.plain_frame(&mut peer);
    peer.say(&mut scene, b"PUB t\n\0\0\0\x01x", usize::MAX);
    scene.end_of(peer);
    assert_eq!(
        scene.reactors[0].hall.peers.counters.tls_handshakes_failed,
        1
    );
}

#[test]
fn whoever_garbles_or_overdoes_compression_is_let_go() {
    let mut scene = Scene::with_tls(Config {
        threads: 1,
        ..Config::default()
    });
    for (tls, compression, wish) in layered().filter(|(_, compression, _)| compression.is_some()) {
        let mut peer = scene.negotiate(0, (tls, compression), &wish);
        peer.far.forget_compression();
        peer.say(&mut scene, &[0xff; 100], usize::MAX);
        scene.end_of(peer);
        // A bomb: a line without an end.
        let mut peer = scene.negotiate(0, (tls, compression), &wish);
        peer.say(&mut scene, &vec![b'A'; 8 << 20], usize::MAX);
        let error = scene.frames(&mut peer, 1).remove(0);
        assert!(
            error[4..].starts_with(b"E_INVALID line too long"),
            "{}",
            error.escape_ascii()
        );
        scene.end_of(peer);
    }
    scene.until("all are gone", |scene| {
        scene.reactors[0].hall.peers.connections.is_empty()
    });
}

#[test]
fn without_memory_for_its_layers_a_connection_is_closed() {
    let mut scene = Scene::with_tls(Config {
        threads: 1,
        memory_budget_bytes: 1 << 20,
        ..Config::default()
    });
    let mut peer = scene.connect(0, Kind::Plain);
    let said = [b"  V2", &identify(r#""deflate":true"#)[..]].concat();
    peer.say(&mut scene, &said, usize::MAX);
    scene.end_of(peer);
    assert_eq!(scene.reactors[0].hall.peers.counters.layers_refused, 1);
    scene.negotiate(0, (false, Some(Compression::Snappy)), r#""snappy":true"#);
}

#[test]
fn tempo_is_spoken_in_layers_as_without() {
    for kind in KINDS {
        let mut scene = Scene::new(Config {
            threads: 1,
            announce: Some(crate::announce::AnnounceConfig {
                address: ([127, 0, 0, 1], 0).into(),
                group: None,
                key: None,
                interval: Duration::from_secs(1),
            }),
            ..Config::default()
        });
        let mut peer = scene.connect(0, kind);
        let mut words = Vec::new();
        wire::tempo::put_hello(&mut words, wire::announce::InstanceId(7), None);
        for _ in 0..5 {
            let id = wire::announce::TopicId(9);
            wire::tempo::put_message_header(&mut words, id, 3000);
            words.extend_from_slice(&[7; 3000]);
        }
        peer.say(&mut scene, &words, 1000);
        scene.until("they are read", |scene| {
            scene.reactors[0].hall.peers.counters.tempo_unknown_ids == 5
        });
    }
}
