//! Connections that say who they are: auth servers are asked aside, and the connection waits.

use wire::identify::Declaration;

use super::execute::Continuation;
use super::hall::Hall;
use crate::auth::{AuthQuestion, Permitted};
use crate::connection::{ConnectionKey, Pause};

/// Has auth servers asked about a connection; what it says next waits for the answer.
pub(super) fn ask_authorizations(hall: &mut Hall, key: ConnectionKey) -> Continuation {
    let Some(connection) = hall.peers.connections.get(key) else {
        return Continuation::End;
    };
    let (Some(servers), Some(secret)) = (&hall.shared.auth, connection.session.secret()) else {
        hall.close(key, "nobody can be asked what it may do");
        return Continuation::End;
    };
    let is_encrypted = connection.transport.is_encrypted();
    servers.ask(AuthQuestion {
        reactor: hall.post.number,
        connection: key,
        remote: connection.peer.ip(),
        is_encrypted,
        certificate: connection.transport.client_certificate(),
        secret: secret.clone(),
    });
    hall.peers.pause(key, Pause::Asking);
    Continuation::Pause
}

/// Auth servers were asked.
pub(super) fn hear_permitted(hall: &mut Hall, permitted: Permitted) {
    let Permitted {
        connection: key,
        authorizations,
    } = permitted;
    let connection = hall.peers.connections.get_mut(key);
    if connection.is_none_or(|connection| connection.is_lingering) {
        return;
    }
    let now = hall.time.now;
    let heard = hall.peers.say(key, now, |connection| {
        let output = &mut connection.output;
        let session = &mut connection.session;
        session.hear_authorizations(authorizations, output, now)
    });
    match heard {
        None => {}
        Some(Ok(declaration)) => {
            admit(hall, key, declaration);
            hall.peers.let_go_on(key, &mut hall.topics.schedule, now);
        }
        Some(Err(failure)) => drop(hall.fail(key, &failure)),
    }
}

/// A connection may do something from now on, and is this publisher.
pub(super) fn admit(
    hall: &mut Hall,
    key: ConnectionKey,
    declaration: Option<Declaration>,
) -> Continuation {
    hall.peers.counters.auths += 1;
    if declaration.is_some() {
        hall.publishers().declare(key, declaration);
    }
    hall.peers.mark_dirty(key);
    Continuation::Next
}
