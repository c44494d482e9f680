//! A sensor that publishes at a rate and goes where the controller places it, printing its counts once a second.
//!
//! ```text
//! cargo run -p client --example sensor -- 127.0.0.1:4180 telemetry sensor-1 10 30 hall-7
//!                                         controller     topic     id       rate seconds group
//! ```

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use client::{PlacedOptions, PlacedPublisher};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |place: usize, default: &str| -> String {
        arguments
            .get(place)
            .map_or(default, String::as_str)
            .to_owned()
    };
    let id = argument(2, "sensor-1");
    let rate: f64 = argument(3, "10").parse()?;
    let seconds: f64 = argument(4, "10").parse()?;
    let options = PlacedOptions {
        rate,
        group: arguments.get(5).cloned(),
        patience: Some(Duration::from_secs(60)),
        ..PlacedOptions::new(argument(0, "127.0.0.1:4180"), argument(1, "telemetry"), &id)
    };
    let publisher = PlacedPublisher::start(options)?;
    let interval = Duration::try_from_secs_f64(1.0 / rate)?;
    // Nobody sends: the channel is the timer.
    let (_never, timer) = channel::<()>();
    for number in 0..(rate * seconds) as u64 {
        publisher.publish(format!("{id} {number}").as_bytes())?;
        if number % (rate.ceil() as u64) == 0 {
            report(&publisher);
        }
        if timer.recv_timeout(interval) == Err(RecvTimeoutError::Disconnected) {
            break;
        }
    }
    publisher.flush()?;
    report(&publisher);
    publisher.close()?;
    Ok(())
}

fn report(publisher: &PlacedPublisher) {
    let traffic = publisher.traffic();
    println!(
        "broker {} published {} acknowledged {} resent {} refused {} moves {} throttled {}",
        publisher.broker().unwrap_or_else(|| "none".to_owned()),
        traffic.published,
        traffic.acknowledged,
        traffic.resent,
        traffic.refused,
        traffic.moves,
        publisher
            .throttled()
            .map_or(0, |(notice, _)| notice.retry_after_us),
    );
}
