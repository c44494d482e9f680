//! What a broker costs and carries: values that are measured once and that simulation, placement and brokers reckon with.
//!
//! * [`ServiceModel`]: what a message costs a broker.
//! * [`Calibration`]: the service model and the highest rate under a promise, as `srtm calibrate` found them, and the text that
//!   keeps them.
//! * [`Machine`]: what something was measured on.
//!
//! Pure: nothing here measures, and nothing reads or writes a file.

mod calibration;
mod machine;
mod service;

pub use calibration::{Calibration, CalibrationError, Fit, Purpose, Run};
pub use machine::Machine;
pub use service::ServiceModel;
