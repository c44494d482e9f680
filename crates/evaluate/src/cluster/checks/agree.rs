//! The simulator beside a live cluster: the same arrivals, placement, limit and service times, and
//! the latencies of both.
//!
//! Brokers emulate their service time, so their capacity is known. Only one thing is measured
//! first: the latency outside the queue, on a load so light that nothing waits.
//!
//! The first half of each run is recorded (`srtm topic profile`), and a simulation of the recording
//! stands beside it, as `srtm plan --trace` makes it. The second half shows how much such traffic
//! differs from itself.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ::workload::trace::{Trace, read_all};
use ::workload::{Cluster as ClusterSpec, Spec, Topic};
use api::view::{Contract, TopicSpec};
use limit::Limit;
use placement::{BrokerIndex, Policy};
use serde::Serialize;
use sim::{Scene, measure};

use super::{ClusterOptions, TOPIC, begin};
use crate::cluster::{Cluster, Setup};
use bench::BenchError;
use bench::cluster::Plan;
use bench::sys::pause_for;
use bench::workload::{Arrivals, Workload};

/// Traffic before the measurement, as the simulator has it.
const SETTLE: Duration = Duration::from_secs(3);

/// Length of a measurement.
const MEASURE: Duration = Duration::from_secs(20);

/// A configuration.
#[derive(Clone, Copy, Debug)]
struct Configuration {
    name: &'static str,
    publishers: u32,
    arrivals: Arrivals,
    batch_messages: u32,
    group_publishers: u32,
    brokers: usize,
    service_us: u32,
    /// Multiple of the mean rate and burst of the limit.
    limit: Option<(f64, f64)>,
}

/// Publishers of the mixed configurations.
const PUBLISHERS: u32 = 200;
/// Messages per second of each publisher.
const RATE: f64 = 10.0;

/// The topic of figure 6a: publishers, headroom and burst of the limit, service time.
const FIGURE_6A: (u32, f64, f64, u32) = (1000, 1.1, 28.0, 34);

/// Poisson publishers at one broker without a limit.
const PLAIN: Configuration = Configuration {
    name: "Poisson, one broker 60 % busy",
    publishers: PUBLISHERS,
    arrivals: Arrivals::Poisson,
    batch_messages: 1,
    group_publishers: 1,
    brokers: 1,
    service_us: 300,
    limit: None,
};

const CONFIGURATIONS: [Configuration; 8] = [
    PLAIN,
    Configuration {
        name: "Poisson, one broker 80 % busy",
        service_us: 400,
        ..PLAIN
    },
    Configuration {
        name: "periodic groups of 20",
        arrivals: Arrivals::Periodic,
        group_publishers: 20,
        service_us: 250,
        ..PLAIN
    },
    Configuration {
        name: "periodic groups of 20, two brokers",
        arrivals: Arrivals::Periodic,
        group_publishers: 20,
        brokers: 2,
        service_us: 400,
        ..PLAIN
    },
    Configuration {
        name: "Poisson batches of 10, two brokers",
        batch_messages: 10,
        brokers: 2,
        service_us: 400,
        ..PLAIN
    },
    Configuration {
        name: "Poisson under a limit",
        service_us: 200,
        limit: Some((1.1, 5.0)),
        ..PLAIN
    },
    Configuration {
        name: "Poisson under a limit split in two",
        brokers: 2,
        service_us: 200,
        limit: Some((1.1, 8.0)),
        ..PLAIN
    },
    Configuration {
        name: "Poisson groups of 10 under a limit split in three",
        group_publishers: 10,
        brokers: 3,
        limit: Some((1.2, 30.0)),
        ..PLAIN
    },
];

#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    messages_live: u64,
    messages_simulated: u64,
    base_us: f64,
    p50_live_us: u64,
    p50_simulated_us: f64,
    p99_live_us: u64,
    p99_simulated_us: f64,
    /// In the second half.
    p50_then_us: u64,
    p50_from_recording_us: f64,
    p99_then_us: u64,
    p99_from_recording_us: f64,
}

/// A live run and where its publishers were.
struct Live {
    messages: u64,
    p50_us: u64,
    p99_us: u64,
    p50_then_us: u64,
    p99_then_us: u64,
    broker_of: Vec<Option<BrokerIndex>>,
    recording: Trace,
}

/// A mixture of traffic, limits and numbers of brokers.
pub(super) fn check(options: &ClusterOptions) -> Result<(), BenchError> {
    compare_all(options, "cluster-agree", &CONFIGURATIONS)
}

/// One Poisson topic under a tight limit over 1 to `--brokers` brokers: the DRL penalty (SRTM-long, figure 6a).
pub(super) fn check_penalty(options: &ClusterOptions) -> Result<(), BenchError> {
    const NAMES: [&str; 6] = ["k = 1", "k = 2", "k = 3", "k = 4", "k = 5", "k = 6"];
    let (publishers, headroom, burst, service_us) = FIGURE_6A;
    let over = |brokers: usize| Configuration {
        name: NAMES[brokers - 1],
        publishers,
        brokers,
        service_us,
        limit: Some((headroom, burst)),
        ..PLAIN
    };
    let all: Vec<Configuration> = (1..=options.brokers.min(NAMES.len())).map(over).collect();
    compare_all(options, "cluster-penalty", &all)
}

fn compare_all(
    options: &ClusterOptions,
    kind: &str,
    configurations: &[Configuration],
) -> Result<(), BenchError> {
    let base_us = base_us(options)?;
    println!("latency outside of the queue: {base_us:.0} us");
    println!(
        "{:<50} {:>9} {:>9} {:>7} {:>9} {:>9} {:>7} {:>9} {:>7} {:>10}",
        "CONFIGURATION", "P50 LIVE", "SIM", "", "P99 LIVE", "SIM", "", "RECORDED", "", "LIVE LATER"
    );
    for configuration in configurations {
        let row = compare(options, configuration, base_us)?;
        let off = |simulated: f64, live: u64| 100.0 * (simulated / live as f64 - 1.0);
        println!(
            "{:<50} {:>9} {:>9.0} {:>+6.1}% {:>9} {:>9.0} {:>+6.1}% {:>9.0} {:>+6.1}% {:>10}",
            row.name,
            row.p50_live_us,
            row.p50_simulated_us,
            off(row.p50_simulated_us, row.p50_live_us),
            row.p99_live_us,
            row.p99_simulated_us,
            off(row.p99_simulated_us, row.p99_live_us),
            row.p99_from_recording_us,
            off(row.p99_from_recording_us, row.p99_live_us),
            row.p99_then_us
        );
        options.keep(kind, &configuration.workload(options.seed), &row)?;
    }
    Ok(())
}

fn compare(
    options: &ClusterOptions,
    configuration: &Configuration,
    base_us: f64,
) -> Result<Row, BenchError> {
    let live = live(options, configuration)?;
    let simulated = |error: sim::SimError| BenchError::Options(error.to_string());
    let spec = configuration.spec(options.seed, base_us);
    let scene = Scene::new(&spec).map_err(simulated)?;
    let measured = measure(&scene, &live.broker_of).map_err(simulated)?;
    let broker_of = live.recorded_places();
    let recorded = Scene::of_recording(&spec, live.recording).map_err(simulated)?;
    let from_recording = measure(&recorded, &broker_of).map_err(simulated)?;
    Ok(Row {
        name: configuration.name,
        messages_live: live.messages,
        messages_simulated: measured.all.messages,
        base_us,
        p50_live_us: live.p50_us,
        p50_simulated_us: measured.all.p50_us,
        p99_live_us: live.p99_us,
        p99_simulated_us: measured.all.p99_us,
        p50_then_us: live.p50_then_us,
        p50_from_recording_us: from_recording.all.p50_us,
        p99_then_us: live.p99_then_us,
        p99_from_recording_us: from_recording.all.p99_us,
    })
}

/// Latency outside of the queue: the median of a load on which nothing waits, less the service.
fn base_us(options: &ClusterOptions) -> Result<f64, BenchError> {
    let light = Configuration {
        name: "light",
        service_us: 1,
        ..PLAIN
    };
    let light = live(options, &light)?;
    Ok(light.p50_us as f64 - 1.0)
}

fn live(options: &ClusterOptions, configuration: &Configuration) -> Result<Live, BenchError> {
    let workload = configuration.workload(options.seed);
    let mut setup = Setup {
        brokers: configuration.brokers,
        service_time: Some(format!("{}us", configuration.service_us)),
        ..options.setup("agree")?
    };
    setup
        .controller_flags
        .extend(["--adaptor", "off"].map(String::from));
    let cluster = Cluster::start(setup)?;
    let limit = configuration.limit(&workload)?;
    let spec = TopicSpec {
        contract: Contract {
            limit,
            ..Contract::default()
        },
        // Evenly over all brokers, whether they are needed or not.
        policy: Policy::Lb,
        ..options.spec(placement::Mode::Measure)?
    };
    cluster.api().put_topic(TOPIC, &spec)?;
    let seconds = (SETTLE + 2 * MEASURE).as_secs_f64() * 2.0;
    let run = begin(&Plan {
        tells_groups: workload.group_publishers > 1,
        ..options.plan(&cluster, workload, seconds + 60.0)
    })?;
    pause_for(SETTLE);
    run.board.take_latency();
    let recorder = Recorder::start(options, &cluster.address())?;
    pause_for(MEASURE);
    let latency = run.board.take_latency().whole;
    pause_for(MEASURE);
    let latency_then = run.board.take_latency().whole;
    let addresses = run.fleet.brokers();
    run.end()?;
    let number = |address: &String| {
        let brokers = (0u32..).zip(&cluster.brokers);
        let mut here = brokers.filter(|(_, broker)| broker.tcp.to_string() == *address);
        here.next().map(|(number, _)| BrokerIndex(number))
    };
    Ok(Live {
        messages: latency.len(),
        p50_us: latency.value_at_quantile(0.5),
        p99_us: latency.value_at_quantile(0.99),
        p50_then_us: latency_then.value_at_quantile(0.5),
        p99_then_us: latency_then.value_at_quantile(0.99),
        recording: recorder.end()?,
        broker_of: addresses
            .iter()
            .map(|address| address.as_ref().and_then(number))
            .collect(),
    })
}

/// `srtm topic profile` at work.
struct Recorder {
    child: Child,
    file: PathBuf,
}

impl Recorder {
    fn start(options: &ClusterOptions, controller: &str) -> Result<Recorder, BenchError> {
        let file = options.work_dir.join("srtm-agree.trace");
        let window = format!("{}s", MEASURE.as_secs());
        let child = Command::new(&options.srtm)
            .args(["topic", "profile", TOPIC, "--window", &window])
            .args(["--controller", &format!("http://{controller}")])
            .arg("--write")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(BenchError::io("start srtm topic profile"))?;
        Ok(Recorder { child, file })
    }

    fn end(mut self) -> Result<Trace, BenchError> {
        let status = self.child.wait().map_err(BenchError::io("wait for srtm"))?;
        if !status.success() {
            let text = format!("srtm topic profile ended with {status}");
            return Err(BenchError::protocol("recording", text));
        }
        let shown = self.file.display().to_string();
        let file = File::open(&self.file).map_err(BenchError::io(format!("open {shown}")))?;
        let trace = read_all(BufReader::new(file));
        trace.map_err(|error| BenchError::protocol("recording", format!("{shown}: {error}")))
    }
}

impl Live {
    /// The brokers of the recording's publishers, who are named by their number.
    fn recorded_places(&self) -> Vec<Option<BrokerIndex>> {
        let publishers = self.recording.header.publishers.iter();
        let place = |name: &str| -> Option<BrokerIndex> {
            let number: usize = name.strip_prefix('s')?.parse().ok()?;
            self.broker_of.get(number).copied().flatten()
        };
        publishers
            .map(|publisher| publisher.name.as_deref().and_then(place))
            .collect()
    }
}

impl Configuration {
    fn workload(&self, seed: u64) -> Workload {
        Workload {
            publishers: self.publishers,
            rate_per_publisher: RATE,
            arrivals: self.arrivals,
            batch_messages: self.batch_messages,
            mpub: self.batch_messages > 1,
            group_publishers: self.group_publishers,
            seed,
            ..Workload::default()
        }
    }

    fn limit(&self, workload: &Workload) -> Result<Option<Limit>, BenchError> {
        let Some((headroom, burst)) = self.limit else {
            return Ok(None);
        };
        let limit = Limit::messages(headroom * workload.offered_per_second(), burst);
        let invalid = |error: limit::InvalidLimit| BenchError::Options(error.to_string());
        limit.map(Some).map_err(invalid)
    }

    fn spec(&self, seed: u64, base_us: f64) -> Spec {
        let workload = self.workload(seed);
        let offered = workload.offered_per_second();
        let (rate, burst) = self.limit.unzip();
        Spec {
            duration: MEASURE,
            topic: Topic {
                limited: self.limit.is_some(),
                rate: rate.map(|headroom| headroom * offered),
                burst,
                // Nothing is fitted: measuring begins where the live run begins.
                window: Duration::from_millis(1),
                ..Topic::default()
            },
            cluster: ClusterSpec {
                brokers: self.brokers as u32,
                cores: 1,
                per_message: Duration::from_micros(u64::from(self.service_us)),
                per_batch: Duration::ZERO,
                base: Duration::from_nanos((base_us * 1e3) as u64),
                ..ClusterSpec::default()
            },
            ..workload.spec()
        }
    }
}
