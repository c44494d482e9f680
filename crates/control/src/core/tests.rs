//! The state machine against virtual brokers, in virtual time.

use clock::Instant;

use super::Core;
use crate::handle::Holdings;

/// All holdings, put together from small parts.
fn all_holdings(core: &Core, now: Instant) -> Holdings {
    let mut all = Holdings::default();
    loop {
        let after = all.last.take();
        all.extend(core.holdings(after.as_ref(), 2, now));
        if all.last.is_none() {
            return all;
        }
    }
}

mod channel_laws;
mod channel_places;
mod channels;
mod cluster;
mod contract_words;
mod cpu_share;
mod faults;
mod fitting;
mod handover;
mod held;
mod input;
mod names;
mod neighbours;
mod overload;
mod parts;
mod placing;
mod presence;
mod registry;
mod rest;
mod rounds;
mod scale;
mod sharers;
mod stage;
mod virtual_broker;
mod world;
