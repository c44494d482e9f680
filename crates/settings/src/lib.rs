//! Settings of daemons: each has one definition, and four who may say what it is.
//!
//! A flag goes before the environment, the environment before the file, the file before the default ([`layered`]). All
//! of them, and the pages that tell of settings ([`page`], [`sample`]), follow from [`Setting`]s, which the command line
//! defines. Pure: files and variables come in as text, and what a value means is judged by whoever takes it.

mod definition;
mod environment;
mod file;
mod mistake;
mod page;
mod said;
mod sample;

pub use definition::{DefaultValue, Setting, Settings, Takes};
pub use file::Reading;
pub use mistake::{Mistake, Place};
pub use page::page;
pub use said::{Origin, Said, layered};
pub use sample::sample;
