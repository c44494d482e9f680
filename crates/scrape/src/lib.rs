//! HTTP answers about everything: made once for all who ask at the same time.
//!
//! To tell of ten thousand topics takes work, wherever it is done. So such questions stand in a [`Lane`]: one answer is made at
//! a time, and all who ask for the same before it is begun get it. Who comes later gets the next one, so an answer tells of
//! everything that had happened when it was asked for. After each answer a lane rests as long as that took.
//!
//! [`Pages`] bounds the memory of answers that their readers take their time with.

mod lane;
mod pages;

pub use lane::{Lane, rendered, share};
pub use pages::Pages;
