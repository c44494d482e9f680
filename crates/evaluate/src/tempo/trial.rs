//! One run: the row, its endpoints as processes on their cores, one window, and the results.
//!
//! The CPU time of all processes of a row is added up over the window, the broker's, the
//! subscriber's and all publishers': that is the cost of a message to the whole machine, whoever
//! does the work.

use std::time::Duration;

use serde::Serialize;

use super::delay::Delays;
use super::endpoint::{
    Endpoint, Place, Published, Publishing, Subscribed, Subscribing, Task, Window,
};
use super::way::Row;
use bench::BenchError;
use bench::peers::PeerOptions;
use bench::sys;
use statistics::median;

/// Messages under way of all publishers together, in a run without a rate.
const UNDER_WAY_MESSAGES: u64 = 65_536;

/// The load of a run, and its duration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sending {
    /// Topics, each with one publisher.
    pub topics: u32,
    /// Messages per second of each publisher; `None`: as many as get through.
    pub rate_per_publisher: Option<f64>,
    /// Size of a message.
    pub body_bytes: usize,
    /// Time before the measurement.
    #[serde(rename = "warmup_s", serialize_with = "seconds")]
    pub warmup: Duration,
    /// Length of the measurement.
    #[serde(rename = "measure_s", serialize_with = "seconds")]
    pub measure: Duration,
}

/// The results of a run.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
pub struct Trial {
    /// Messages sent per second of the window, by all publishers.
    pub sent_per_second: f64,
    /// Messages received per second of the window, in all topics.
    pub received_per_second: f64,
    /// The same for each topic.
    pub received_per_second_by_topic: Vec<f64>,
    /// From the mark to the echo, of a random sample.
    pub delays: Delays,
    /// How late the publishers' sends were: at worst its own rows say how much the machine disturbed.
    pub lateness: Delays,
    /// CPU time of all processes per message received.
    pub cpu_us_per_message: f64,
    /// Cores that the row could use.
    pub cores: usize,
    /// Cores that it used in the mean.
    pub cores_used: f64,
    /// Of these, the broker's.
    pub broker_cores_used: f64,
    /// Of these, the subscriber's.
    pub subscriber_cores_used: f64,
}

/// The processes of a run.
struct Cast {
    publishers: Vec<Endpoint>,
    subscriber: Endpoint,
    broker_pid: Option<u32>,
}

/// CPU times of the processes, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CpuTimes {
    broker_ns: u64,
    subscriber_ns: u64,
    publishers_ns: u64,
}

/// Runs `sending` on `row`.
///
/// # Errors
/// When the broker or an endpoint is missing or fails.
pub fn run(row: Row, sending: &Sending, programs: &PeerOptions) -> Result<Trial, BenchError> {
    let between = row.start(programs)?;
    let topics: Vec<String> = (1..=sending.topics)
        .map(|topic| format!("t{topic}"))
        .collect();
    let subscribing = Subscribing {
        way: between.way,
        topics: topics.iter().map(|topic| (topic.clone(), None)).collect(),
        threads: 1,
        work_iterations: 0,
    };
    let place = |core| Place {
        core: Some(core),
        is_background: false,
    };
    let place_of_subscriber = place(row.subscriber_core(programs));
    let subscriber = Endpoint::start(&Task::Subscribe(subscribing), place_of_subscriber)?;
    let under_way = (UNDER_WAY_MESSAGES / u64::from(sending.topics.max(1))).max(1);
    let publish = |topic: String| {
        let publishing = Publishing {
            way: between.way,
            topic,
            rate: sending.rate_per_publisher,
            body_bytes: sending.body_bytes,
            is_marked: true,
            under_way_messages: sending.rate_per_publisher.is_none().then_some(under_way),
            batch_messages: 1,
            connections: 1,
            is_mpub: true,
        };
        // Many publishers stand for machines of their own, and must not take the core from their one subscriber.
        let place = Place {
            is_background: sending.topics > 1,
            ..place(programs.generator_core)
        };
        Endpoint::start(&Task::Publish(publishing), place)
    };
    let mut cast = Cast {
        publishers: topics.into_iter().map(publish).collect::<Result<_, _>>()?,
        subscriber,
        broker_pid: between.broker.as_ref().and_then(|broker| broker.target.pid),
    };
    let window = Window::soon(sending.warmup, sending.measure);
    let used = cast.perform(&window)?;
    let published = cast.publishers.iter_mut();
    let published: Vec<Published> = published
        .map(|publisher| publisher.published(&window))
        .collect::<Result<_, _>>()?;
    let subscribed = cast.subscriber.subscribed(&window)?;
    Ok(Trial::of(&published, &subscribed, used, &window))
}

impl Cast {
    /// Lets all begin; gives the CPU times of the window.
    fn perform(&mut self, window: &Window) -> Result<CpuTimes, BenchError> {
        self.subscriber.begin(window)?;
        for publisher in &mut self.publishers {
            publisher.begin(window)?;
        }
        rest_until(window.start_ns);
        let before = self.cpu_times()?;
        rest_until(window.end_ns);
        Ok(self.cpu_times()?.since(before))
    }

    fn cpu_times(&self) -> Result<CpuTimes, BenchError> {
        let of = |pid: u32| {
            sys::process_cpu_ns(pid).map_err(BenchError::io(format!("CPU time of process {pid}")))
        };
        let mut publishers_ns = 0;
        for publisher in &self.publishers {
            publishers_ns += of(publisher.pid())?;
        }
        Ok(CpuTimes {
            broker_ns: self.broker_pid.map(of).transpose()?.unwrap_or(0),
            subscriber_ns: of(self.subscriber.pid())?,
            publishers_ns,
        })
    }
}

impl CpuTimes {
    fn since(self, before: Self) -> Self {
        Self {
            broker_ns: self.broker_ns.saturating_sub(before.broker_ns),
            subscriber_ns: self.subscriber_ns.saturating_sub(before.subscriber_ns),
            publishers_ns: self.publishers_ns.saturating_sub(before.publishers_ns),
        }
    }
}

impl Trial {
    fn of(
        published: &[Published],
        subscribed: &Subscribed,
        used: CpuTimes,
        window: &Window,
    ) -> Self {
        let seconds = window.seconds();
        let sent: u64 = published.iter().map(|publisher| publisher.sent).sum();
        let received: u64 = subscribed.topics.iter().map(|topic| topic.messages).sum();
        let per_second = |messages: u64| messages as f64 / seconds;
        let delays_ns = published
            .iter()
            .flat_map(|one| one.delays_ns.iter().copied());
        let all_ns = used.broker_ns + used.subscriber_ns + used.publishers_ns;
        let cores = |ns: u64| ns as f64 / 1e9 / seconds;
        let latest = published.iter().map(|publisher| &publisher.lateness);
        let latest = latest.max_by(|a, b| a.p99_us.total_cmp(&b.p99_us));
        Self {
            sent_per_second: per_second(sent),
            received_per_second: per_second(received),
            received_per_second_by_topic: subscribed
                .topics
                .iter()
                .map(|topic| per_second(topic.messages))
                .collect(),
            delays: Delays::of(delays_ns),
            lateness: latest.cloned().unwrap_or_default(),
            cpu_us_per_message: all_ns as f64 / 1000.0 / received.max(1) as f64,
            cores: 2,
            cores_used: cores(all_ns),
            broker_cores_used: cores(used.broker_ns),
            subscriber_cores_used: cores(used.subscriber_ns),
        }
    }
}

/// The median of one figure over rounds.
pub fn middle(trials: &[Trial], figure: impl Fn(&Trial) -> f64) -> f64 {
    median(trials.iter().map(figure))
}

fn rest_until(at_ns: u64) {
    let ahead_ns = at_ns.saturating_sub(sys::monotonic_ns());
    if ahead_ns > 0 {
        sys::pause_for(Duration::from_nanos(ahead_ns));
    }
}

fn seconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::super::endpoint::TopicUse;
    use super::*;

    #[test]
    fn a_trial_adds_up_its_endpoints() {
        let published = [
            Published {
                sent: 1000,
                delays_ns: vec![1_000_000],
                lateness: Delays::of([5_000]),
            },
            Published {
                sent: 3000,
                delays_ns: vec![3_000_000],
                lateness: Delays::of([9_000]),
            },
        ];
        let topic = |messages| TopicUse {
            messages,
            used_ns: 0,
        };
        let subscribed = Subscribed {
            topics: vec![topic(1000), topic(1000)],
        };
        let used = CpuTimes {
            broker_ns: 1_000_000_000,
            subscriber_ns: 500_000_000,
            publishers_ns: 500_000_000,
        };
        let window = Window {
            begin_ns: 0,
            start_ns: 1_000_000_000,
            end_ns: 3_000_000_000,
        };
        let trial = Trial::of(&published, &subscribed, used, &window);
        assert_eq!(trial.sent_per_second, 2000.0);
        assert_eq!(trial.received_per_second, 1000.0);
        assert_eq!(trial.received_per_second_by_topic, [500.0, 500.0]);
        assert_eq!(trial.delays.mean_us, 2000.0);
        assert_eq!(trial.lateness.max_us, 9.0);
        assert_eq!(trial.cpu_us_per_message, 1000.0);
        assert_eq!((trial.cores_used, trial.broker_cores_used), (1.0, 0.5));
    }

    #[test]
    fn a_middle_is_a_median() {
        let trial = |sent_per_second| Trial {
            sent_per_second,
            ..Trial::default()
        };
        let trials = [trial(1.0), trial(9.0), trial(2.0)];
        assert_eq!(middle(&trials, |trial| trial.sent_per_second), 2.0);
    }
}
