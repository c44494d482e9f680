//! Tests of the sharing policies: what each does by itself, and what N of them do together in virtual time.

mod change;
mod closed_loop;
mod configuration;
mod convergence;
mod ideal;
mod peers;
mod policies;
mod printed;
mod scale;
mod world;
