//! Answers a controller that asks who serves a port ([`link::probe_answer`]), and nobody else.

use link::{Door, Present};

use super::LinkBoard;
use crate::Config;

/// The answer to a question that came in by `door`; `None` for a stranger's, and where there is no controller.
pub(crate) fn answer_at(
    door: Door,
    config: &Config,
    board: &LinkBoard,
    question: &[u8],
) -> Option<Vec<u8>> {
    let link = config.controller.as_ref()?;
    let present = Present {
        broker: link.broker_name.clone(),
        identity: link.identity,
        life: board.life(),
    };
    link::probe_answer(&link.key, door, question, &present).ok()
}
