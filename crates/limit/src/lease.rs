//! Shares as leases: shrink, confirm, then grow.
//!
//! The law: at every instant Σ r_l ≤ r and Σ b_l ≤ b over what the brokers *really use*, whatever
//! is lost, late, twice, out of order, stopped or dead. Buckets begin empty and room that is added
//! to one is empty, so together they then release at most b + r·Δt in any window, as one bucket
//! would.
//!
//! How. The [`Ledger`] of a topic (in the controller) numbers its [`Grant`]s by (epoch, seq). The
//! [`LeaseHolder`] of the topic at a broker applies a grant only if its number is greater than that of
//! the one in force, and names the latest one with every report. So between two reports the broker
//! may use the grant it confirmed last or any one sent after it, and nothing else. The ledger
//! reserves the greatest of these, its *exposure*, and hands out only what no exposure reserves: a
//! smaller share frees nothing until it is confirmed.
//!
//! A grant is a lease. It answers a report and holds until ttl after that report was *sent*, by the
//! broker's clock; the ledger counts from when it *received* it, which is never earlier. After that
//! the broker uses the grant's floor, a fraction of the share, so that a broker that is cut off
//! keeps serving: of a silent broker only the floor stays reserved, until it is heard of again or
//! proved dead. Brokers that all hear each other may hold on to their shares meanwhile: [`Vouches`].
//!
//! Assumptions. Both clocks run at the same speed to within [`LedgerConfig::drift`], and do not
//! stand still while the process can run (a machine that is suspended must not count that time as
//! none). A report number is not used twice by a broker while a grant that answers it may be under
//! way: either numbers increase over restarts, or nothing of a former connection is delivered after
//! the next one began.
//!
//! What it does not do: send, persist, or decide who is dead. It never stops a broker from using
//! more than its share on purpose.

mod grant;
mod holder;
mod ledger;
mod member;
mod outstanding;
mod vouches;

pub use grant::{Exposure, Grant};
pub use holder::{LeaseHolder, Prolongation};
pub use ledger::{Ledger, LedgerConfig, Mode, Report};
pub use vouches::{VOUCHED, Vouches};

#[cfg(test)]
mod tests;
