//! Declarations of connections, and what the controller is told of them: the product's own
//! [`Attachments`](broker::Attachments), used as its reactors do (`broker/reactor/publishers.rs`).

use std::sync::Arc;

use broker::Owner;
use link::Declaration;
use wire::TopicName;

use super::session::Session;
use crate::event::StreamId;

/// A publisher's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) topic: TopicName,
    pub(super) id: String,
}

/// A connection as the holder of a name.
pub(super) fn owner(stream: StreamId) -> Owner {
    Owner {
        reactor: 0,
        connection: stream.0,
    }
}

/// A connection's declaration in IDENTIFY, and its name.
pub(super) fn declared(session: &Session) -> Option<(Name, Arc<Declaration>)> {
    let said = session.terms.declaration.clone()?;
    let declaration = Declaration {
        id: said.id.clone(),
        topic: said.topic.to_string(),
        group: said.group,
        rate: said.rate,
        batch: said.batch,
    };
    let name = Name {
        topic: said.topic,
        id: said.id,
    };
    Some((name, Arc::new(declaration)))
}
