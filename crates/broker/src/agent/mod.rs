//! The broker's side of the link to its controller.
//!
//! It dials, says hello, reports once per interval, and carries out orders through the [`Handle`]
//! like any other caller. A lost link is redialled for ever, with growing pauses, to whichever
//! controller leads; orders from one that has been deposed are ignored. The data path does not
//! notice: messages flow under the shares that the broker holds, and leases end by themselves.
//! Topics unknown to this broker wait for the controller's answer.
//!
//! An [`Agent`] (`core`) makes the decisions and knows neither sockets nor clocks. Around it are a
//! loop (`shell`), the stream (`line`, `proof`) and the questions to reactors (`errands`).
//!
//! Deliberately not here: what a share means (`topic`) and who publishes (`reactor`).

mod board;
mod changes;
mod core;
mod doors;
mod epoch;
mod errands;
mod identity;
mod line;
mod proof;
mod shell;

use std::future::Future;
use std::time::Duration;

use link::Hello;
use tokio::net::TcpStream;

use crate::{ControllerLink, Handle, sys};
pub use board::LinkBoard;
pub use changes::{ChangeLog, Cut};
pub use core::{Agent, Answer, CONTROLLERS_MAX, Effect, Ended, Errand, Figures};
pub(crate) use doors::answer_at;
pub use epoch::{EPOCH_NAME, EpochFile};
pub(crate) use errands::persist;
pub use identity::identity;
use proof::Proof;
use shell::Shell;

/// The longest that a dial may take.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// A controller whose host reads nothing for this long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Keeps the link of `handle`'s broker to its controller until `stop` completes. The addresses are those
/// that the listeners are bound to; what `link` advertises goes before them.
///
/// One call is one life of the process in the eyes of the controller.
pub async fn run(
    handle: Handle,
    link: ControllerLink,
    tcp_address: String,
    http_address: Option<String>,
    stop: impl Future<Output = ()>,
) {
    let hello = Hello {
        broker: link.broker_name.clone(),
        identity: link.identity,
        life: 0,
        tcp_address: link.advertised_tcp_address.unwrap_or(tcp_address),
        http_address: link.advertised_http_address.or(http_address),
        gossip_address: link.gossip_address,
        mcap: link.mcap,
        model: link.model.or(handle.config().service_time),
    };
    log_what_is_held(&link.addresses, link.pass_after);
    let (seed, now) = (sys::wall_now().as_nanos(), sys::monotonic_now());
    let epoch = link.epoch_file.as_ref().map_or(0, EpochFile::epoch);
    handle.link.keep_epoch_in(link.epoch_file);
    let agent = Agent::new(hello, link.addresses, link.pass_after, (seed, now)).obeying(epoch);
    let handing = crate::handover::run(handle.clone(), &link.broker_name);
    let proof = Proof {
        key: link.key,
        credentials: link.is_encrypted.then(|| handle.credentials.clone()),
    };
    let mut shell = Shell::new(&handle, proof, agent);
    tokio::select! {
        () = stop => {}
        () = handing => {}
        () = shell.keep() => {}
    }
    handle.changes.close();
}

/// Tells the log what is held, and until when.
fn log_what_is_held(addresses: &[String], longest: Option<Duration>) {
    let until = match longest {
        Some(longest) => format!(", for at most {longest:?}"),
        None => String::new(),
    };
    let address = addresses.join(" or ");
    tracing::info!(
        "topics unknown to this broker wait until the controller at {address} has told what they have{until}"
    );
}

/// A connection to `address` whose silence is noticed.
///
/// # Errors
/// Why there is none.
pub(crate) async fn dial(address: &str) -> Result<TcpStream, String> {
    let dialled = tokio::time::timeout(DIAL_TIMEOUT, TcpStream::connect(address)).await;
    let stream = dialled.map_err(|_| format!("no answer within {DIAL_TIMEOUT:?}"))?;
    let stream = stream.map_err(|error| error.to_string())?;
    let set = stream
        .set_nodelay(true)
        .and_then(|()| sys::give_up_after(&stream, SILENCE_MAX));
    set.map_err(|error| error.to_string())?;
    Ok(stream)
}

/// Between half the pause and all of it, so that brokers that lost one controller do not come back as one. The
/// clock's lowest digits are random enough.
pub(crate) fn jittered(pause: Duration) -> Duration {
    let fraction = (sys::wall_now().as_nanos() / 1000 % 1024) as f64 / 1024.0;
    pause.mul_f64(0.5 + 0.5 * fraction)
}

#[cfg(test)]
mod tests;
