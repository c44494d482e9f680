//! How layers begin, and what happens when they are garbled.

use std::sync::Arc;

use topics::{MemoryBudget, Part};
use wire::identify::Compression;

use super::*;

/// Layers of every kind that a client may ask for.
fn layered() -> impl Iterator<Item = (bool, Option<Compression>)> {
    KINDS.into_iter().filter_map(|kind| match kind {
        Kind::Layers { tls, compression } => Some((tls, compression)),
        _ => None,
    })
}

fn upgrade(
    tls: Option<usize>,
    compression: Option<(Compression, usize)>,
    authority: &Authority,
) -> Upgrade {
    let charge = MemoryBudget::new(1 << 30).charge(Part::Output, 1);
    Upgrade {
        tls: tls.map(|after| (Arc::clone(&authority.config), after)),
        compression,
        charge: charge.expect("all is free"),
    }
}

/// Sends all of `output`, if the transport may.
fn send_all(transport: &mut Transport, output: &mut Vec<u8>) {
    while !output.is_empty() {
        match transport.send(output, None) {
            Ok(taken) => drop(output.drain(..taken.plain)),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                return;
            }
        }
    }
}

#[test]
fn each_layer_begins_behind_the_bytes_that_go_without_it() {
    let authority = Authority::new("begins");
    for (tls, compression) in layered() {
        let mut pair = pair(Kind::Plain, &authority);
        let mut output = b"answer".to_vec();
        let mut said = output.len();
        let tls_after = tls.then_some(said);
        if tls {
            output.extend_from_slice(b"one");
            said += 3;
        }
        let compressed_after = compression.map(|compression| (compression, said));
        output.extend_from_slice(b"two and more");
        let upgrade = upgrade(tls_after, compressed_after, &authority);
        let upgraded = pair.transport.upgrade(upgrade, &[], sys::wall_now());
        upgraded.expect("of use");
        send_all(&mut pair.transport, &mut output);
        let mut answer = [0; 6];
        pair.client.read_exact(&mut answer).expect("it comes plain");
        assert_eq!(&answer, b"answer");
        // The handshake needs no answer of the connection's; what it has said waits for the end of it.
        assert_eq!(output.is_empty(), !tls);
        let wanted = Interest {
            write: true,
            ..Interest::READ_ONCE
        };
        assert_eq!(pair.transport.interest(wanted).write, !tls);
        pair.far.upgrade(tls, None, 0, &authority);
        pair.shake(usize::MAX);
        send_all(&mut pair.transport, &mut output);
        assert!(output.is_empty());
        let mut heard = Vec::new();
        let mut hear = |pair: &mut Pair, wanted: &[u8]| {
            while heard.len() < wanted.len() {
                let mut came = [0; 1000];
                // A record at a time, so that none is opened before its layer is there.
                let count = match tls {
                    true => {
                        pair.client.read_exact(&mut came[..5]).expect("a record");
                        let body = usize::from(u16::from_be_bytes([came[3], came[4]]));
                        let rest = &mut came[5..5 + body];
                        pair.client.read_exact(rest).expect("all of it");
                        5 + body
                    }
                    false => pair.client.read(&mut came).expect("it comes"),
                };
                pair.far.open(&came[..count], &mut heard);
            }
            assert_eq!(heard, wanted, "{:?}", (tls, compression));
            heard.clear();
        };
        if tls && compression.is_some() {
            hear(&mut pair, b"one");
        }
        pair.far.upgrade(false, compression, 0, &authority);
        match tls && compression.is_none() {
            true => hear(&mut pair, b"onetwo and more"),
            false => hear(&mut pair, b"two and more"),
        }
        // The client has spoken in all layers from its next word on.
        let wire = pair.on_wire(b"FIN");
        pair.client.write_all(&wire).expect("written");
        let mut buffer = [0; 10];
        let received = receive(&mut pair.transport, &mut buffer);
        assert_eq!(&buffer[..received.bytes], b"FIN");
    }
}

#[test]
fn what_came_with_the_wish_is_said_within_the_layers() {
    let authority = Authority::new("behind");
    for (tls, compression) in layered() {
        let mut pair = pair(Kind::Plain, &authority);
        pair.far.upgrade(tls, compression, 0, &authority);
        let behind = match tls {
            true => pair.on_wire(&[]),
            false => pair.on_wire(b"PUB"),
        };
        let after = compression.map(|compression| (compression, 0));
        let upgrade = upgrade(tls.then_some(0), after, &authority);
        let stamp = sys::wall_now();
        let upgraded = pair.transport.upgrade(upgrade, &behind, stamp);
        upgraded.expect("of use");
        assert!(pair.transport.holds_input());
        if tls {
            pair.shake_once();
            pair.shake(usize::MAX);
            let wire = pair.on_wire(b"PUB");
            pair.client.write_all(&wire).expect("written");
        }
        let mut buffer = [0; 10];
        let received = receive(&mut pair.transport, &mut buffer);
        assert_eq!(&buffer[..received.bytes], b"PUB");
        assert!(tls || received.stamp == Some(stamp));
    }
}

#[test]
fn plain_bytes_are_the_same_in_whatever_pieces_they_come() {
    let authority = Authority::new("pieces");
    let mut body = noise(30_000);
    body.extend_from_slice(&[7; 30_000]);
    for kind in KINDS {
        for (piece, room) in [(1, 1000), (2, 65_536), (7, 3), (1000, 16), (20_000, 4096)] {
            let mut pair = pair(kind, &authority);
            let mut wire = Vec::new();
            for words in body.chunks(17_000) {
                pair.far.seal(words, &mut wire);
            }
            // A byte at a time takes a while.
            let at_most = if piece < 10 { 300 } else { usize::MAX };
            let (slow, rest) = wire.split_at(wire.len().min(at_most));
            let (mut plain, mut buffer) = (Vec::new(), vec![0; room]);
            for piece in slow.chunks(piece).chain(rest.chunks(30_000)) {
                pair.client.write_all(piece).expect("there is room");
                wait_for_bytes(&pair.transport);
                while let Ok(received) = pair.transport.receive(&mut buffer, false) {
                    plain.extend_from_slice(&buffer[..received.bytes]);
                }
            }
            while plain.len() < body.len() {
                let received = receive(&mut pair.transport, &mut buffer);
                plain.extend_from_slice(&buffer[..received.bytes]);
            }
            assert!(plain == body, "{kind:?} in pieces of {piece}");
            while pair.transport.receive(&mut buffer, false).is_ok() {}
            assert!(pair.transport.held_bytes() < 3000, "{kind:?}: it is idle");
        }
    }
}

#[test]
fn a_handshake_may_come_in_pieces() {
    let authority = Authority::new("handshake");
    for piece in [1, 2, 7, 100] {
        let mut pair = pair(Kind::Plain, &authority);
        pair.far.upgrade(true, None, 0, &authority);
        let upgrade = upgrade(Some(0), None, &authority);
        let upgraded = pair.transport.upgrade(upgrade, &[], sys::wall_now());
        upgraded.expect("of use");
        pair.shake(piece);
    }
}

#[test]
fn what_is_no_handshake_ends_it() {
    let authority = Authority::new("garbage");
    // What is no record at all may be left unanswered.
    let garbage: [(&[u8], bool); 4] = [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", false),
        (b"  V2PUB t\n\0\0\0\x01x", false),
        (&[0; 3000], false),
        (&[0x16, 3, 1, 0, 4, 9, 0, 0, 0], true),
    ];
    for (words, is_answered) in garbage {
        let mut pair = pair(Kind::Plain, &authority);
        let upgrade = upgrade(Some(0), None, &authority);
        let upgraded = pair.transport.upgrade(upgrade, words, sys::wall_now());
        upgraded.expect("of use");
        let mut handshake = pair.transport.depart().expect("something was said");
        handshake.go_on();
        let error = pair.transport.resume(*handshake).expect_err("no handshake");
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        drop(pair.transport);
        let mut heard = Vec::new();
        pair.client.read_to_end(&mut heard).expect("an end");
        let is_alert = heard.first() == Some(&0x15);
        assert!(is_alert || (heard.is_empty() && !is_answered), "{heard:?}");
    }
}

#[test]
fn a_garbled_record_ends_the_connection_and_gives_nothing_else() {
    let authority = Authority::new("garbled");
    for (tls, compression) in layered().filter(|(tls, _)| *tls) {
        for at in [0, 1, 3, 4, 5, 20, 60] {
            let mut pair = pair(Kind::Layers { tls, compression }, &authority);
            let mut wire = pair.on_wire(b"before");
            let intact = wire.len();
            wire.extend(pair.on_wire(&noise(50)));
            wire[intact + at] ^= 0x40;
            pair.client.write_all(&wire).expect("written");
            pair.client
                .shutdown(std::net::Shutdown::Write)
                .expect("open");
            let (mut plain, mut buffer) = (Vec::new(), [0; 1000]);
            let ended = loop {
                match pair.transport.receive(&mut buffer, false) {
                    Ok(received) if received.bytes == 0 => break None,
                    Ok(received) => plain.extend_from_slice(&buffer[..received.bytes]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => break Some(error.kind()),
                }
            };
            // A length that was garbled may leave the record not whole: it ends before it is.
            let is_cut = at == 3 || at == 4;
            assert!(
                ended == Some(ErrorKind::InvalidData) || (ended.is_none() && is_cut),
                "{at}: {ended:?}"
            );
            assert!(b"before".starts_with(&plain), "{plain:?}");
        }
    }
}
