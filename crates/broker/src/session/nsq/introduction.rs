//! IDENTIFY: what the client says of itself, and what the broker grants.

use std::time::Duration;

use wire::identify::{Declaration, Layers, Negotiated, ServerLimits, renegotiate};
use wire::{OK_FRAME, Phase};

use super::{CumulativeAck, Nsq};
use crate::connection::{Collecting, Output};
use crate::session::{Failure, Introduction, LayersWanted, Reading};

impl Nsq {
    /// Negotiates and answers.
    pub(super) fn identify(
        &mut self,
        body: &[u8],
        output: &mut Output,
        reading: &Reading<'_, '_>,
    ) -> Result<Introduction, Failure> {
        let server = reading.server;
        let unidentified = Negotiated::unidentified(server);
        let before = self.identity.as_deref().unwrap_or(&unidentified);
        let layers_before = before.layers;
        let (mut negotiated, answer) = renegotiate(body, server, before).map_err(Failure::Nsq)?;
        let follow = negotiated.layers.beyond(layers_before);
        self.has_heartbeats = negotiated.heartbeats_enabled();
        self.ack = negotiated
            .acks
            .map(|terms| CumulativeAck::new(terms.every_messages, terms.interval_ms));
        let declaration = self.declaration(&mut negotiated, reading)?;
        let collecting = collecting(&negotiated, server);
        self.identity = Some(Box::new(negotiated));
        self.settle(output, reading.now);
        wire::put_response(output.bytes(), answer.as_deref().unwrap_or(b"OK"));
        if follow.tls {
            self.phase = Phase::Init;
        }
        Ok(Introduction {
            collecting,
            declaration,
            upgrade: put_layers(follow, output).map(Box::new),
        })
    }

    /// What the client declares itself as. Where it has to say first who it is, that waits until it has.
    fn declaration(
        &self,
        negotiated: &mut Negotiated,
        reading: &Reading<'_, '_>,
    ) -> Result<Option<Declaration>, Failure> {
        if reading.auth.is_some() {
            if self.admission.permit().is_none() {
                return Ok(None);
            }
            if let Some(declaration) = &negotiated.declaration {
                let topic = declaration.topic.as_str();
                let judged = self.admission.judge_declaration(topic);
                judged.map_err(Failure::Nsq)?;
            }
        }
        Ok(negotiated.declaration.take())
    }
}

/// Each layer begins with an OK in it.
fn put_layers(layers: Layers, output: &mut Output) -> Option<LayersWanted> {
    let begun = usize::from(layers.tls) + usize::from(layers.compression.is_some());
    output.bytes().extend(OK_FRAME.repeat(begun));
    (begun > 0).then_some(LayersWanted {
        layers,
        within_tls: begun * OK_FRAME.len(),
        within_compression: OK_FRAME.len(),
    })
}

/// Frames leave when the loop turn ends. A client that names an output buffer timeout of its own is
/// taken at its word; the 250 ms that client libraries send by default are not a wish.
fn collecting(negotiated: &Negotiated, server: &ServerLimits) -> Option<Collecting> {
    let timeout_ms = negotiated.output_buffer_timeout_ms;
    let is_own = timeout_ms > 0 && timeout_ms != server.output_buffer_timeout_ms;
    let bytes = negotiated.output_buffer_bytes as usize;
    is_own.then(|| Collecting {
        timeout: Duration::from_millis(timeout_ms),
        bytes,
    })
}
