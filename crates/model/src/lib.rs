//! Costs and capacity of a broker: values that are measured once and used by simulation, placement
//! and brokers.
//!
//! * [`ServiceModel`]: the cost of a message to a broker.
//! * [`Calibration`]: the service model and the highest rate under a promise, as `srtm calibrate`
//!   found them, and the text of their file.
//! * [`Machine`]: the machine of a measurement.
//!
//! Pure: nothing here measures, and nothing reads or writes a file.

mod calibration;
mod machine;
mod service;

pub use calibration::{Calibration, CalibrationError, Fit, Purpose, Run};
pub use machine::Machine;
pub use service::ServiceModel;
