//! Shares and profiling windows ordered by a control plane, recordings, and questions of tests.

use clock::Instant;
use limit::Grant;
use topics::TopicTable;
use wire::TopicName;

use crate::BrokerError;
use crate::handle::ObserveRequest;
use crate::window::{TraceResult, WindowOrder, WindowResult};

/// A grant that is out of date changes nothing, and the next report gets another.
pub(in crate::reactor) fn grant(
    table: &mut TopicTable,
    mut grants: Vec<(TopicName, Grant)>,
    now: Instant,
) -> Vec<TopicName> {
    grants.retain(|(topic, grant)| {
        let key = table.find(topic.as_str());
        !key.is_some_and(|key| table.grant(key, grant, now))
    });
    grants.into_iter().map(|(topic, _)| topic).collect()
}

/// Does something about what is written down of a topic's messages.
pub(in crate::reactor) fn observe(table: &mut TopicTable, request: ObserveRequest, now: Instant) {
    match request {
        ObserveRequest::BeginWindow(topic, order, reply) => {
            reply.send(begin_window(table, &topic, order, now));
        }
        ObserveRequest::EndWindow(topic, reply) => reply.send(end_window(table, &topic, now)),
        ObserveRequest::BeginRecording(topic, reply) => {
            reply.send(begin_recording(table, &topic, now));
        }
        ObserveRequest::EndRecording(topic, reply) => reply.send(end_recording(table, &topic, now)),
        ObserveRequest::Releases(topic, reply) => reply.send(releases(table, &topic)),
    }
}

fn releases(table: &mut TopicTable, topic: &TopicName) -> Result<Vec<u64>, BrokerError> {
    let no_topic = || BrokerError::TopicNotFound(topic.to_string());
    let key = table.find(topic.as_str()).ok_or_else(no_topic)?;
    Ok(table.take_releases(key))
}

fn begin_window(
    table: &mut TopicTable,
    topic: &TopicName,
    order: WindowOrder,
    now: Instant,
) -> Result<(), BrokerError> {
    let no_topic = || BrokerError::TopicNotFound(topic.to_string());
    let key = table.find(topic.as_str()).ok_or_else(no_topic)?;
    table.begin_window(key, &order, now);
    Ok(())
}

fn end_window(
    table: &mut TopicTable,
    topic: &TopicName,
    now: Instant,
) -> Result<Box<WindowResult>, BrokerError> {
    let no_window = || BrokerError::TopicNotFound(topic.to_string());
    let key = table.find(topic.as_str()).ok_or_else(no_window)?;
    let window = table.end_window(key, now);
    window.map(Box::new).ok_or_else(no_window)
}

fn begin_recording(
    table: &mut TopicTable,
    topic: &TopicName,
    now: Instant,
) -> Result<(), BrokerError> {
    let no_topic = || BrokerError::TopicNotFound(topic.to_string());
    let key = table.find(topic.as_str()).ok_or_else(no_topic)?;
    table.begin_recording(key, now);
    Ok(())
}

fn end_recording(
    table: &mut TopicTable,
    topic: &TopicName,
    now: Instant,
) -> Result<Box<TraceResult>, BrokerError> {
    let no_recording = || BrokerError::TopicNotFound(topic.to_string());
    let key = table.find(topic.as_str()).ok_or_else(no_recording)?;
    let recording = table.end_recording(key, now);
    recording.map(Box::new).ok_or_else(no_recording)
}
