//! What queues that are longer than memory cost: messages go out to disk and come back, at `srtm nsqd` and at nsqd with the same flags.
//!
//! Each round starts one broker after the other with an empty folder. A channel is made; all messages are published in batches, so
//! that all but `--mem-queue-size` of them are on disk; then one consumer takes and finishes all. Both phases count: from the first
//! byte to the last OK, and from SUB to the last message.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bench::BenchError;
use bench::peers::PeerOptions;
use bench::report::{Results, table};
use bench::sys;
use clap::Args;
use serde::Serialize;
use wire::command::{put_fin, put_identify, put_mpub, put_rdy, put_sub};
use wire::{Frame, FrameDecoded, decode_frame};

const TOPIC: &str = "overflow";
const CHANNEL: &str = "consumer";
const FRAME_BYTES_MAX: u32 = 64 << 20;
/// How long a broker may take to listen, and to end.
const PATIENCE_NS: u64 = 30_000_000_000;
const POLL: Duration = Duration::from_millis(10);
/// Batches on their way at once.
const BATCHES_WAITING: usize = 8;
/// Messages at the consumer at once.
const READY: u32 = 2_500;

/// Options of `srtm-evaluate overflow`.
#[derive(Debug, Clone, Args)]
pub struct OverflowOptions {
    #[command(flatten)]
    programs: PeerOptions,
    #[command(flatten)]
    load: Load,
    /// How often each broker is measured, in turn.
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: u32,
    /// File that results are appended to.
    #[arg(
        long,
        default_value = "bench/results/overflow.jsonl",
        value_name = "FILE"
    )]
    results: PathBuf,
}

/// What is published.
#[derive(Debug, Clone, Serialize, Args)]
struct Load {
    /// Messages.
    #[arg(long, default_value_t = 200_000)]
    messages: usize,
    /// Bytes of each.
    #[arg(long, default_value_t = 1024)]
    body_bytes: usize,
    /// Messages of an MPUB.
    #[arg(long, default_value_t = 100)]
    batch_messages: usize,
    /// `-mem-queue-size` of both brokers.
    #[arg(long, default_value_t = 1000)]
    mem_queue_size: usize,
}

/// What a round of one broker came to.
#[derive(Debug, Clone, Copy, Serialize)]
struct Outcome {
    publish_mb_per_s: f64,
    consume_mb_per_s: f64,
    /// Of both phases together.
    mb_per_s: f64,
    broker_cpu_us_per_message: f64,
}

/// Measures both brokers and prints medians and their ratios.
///
/// # Errors
/// When a program is missing, a broker fails, or messages are lost.
pub fn measure(options: &OverflowOptions) -> Result<(), BenchError> {
    let load = &options.load;
    if load.messages == 0
        || load.batch_messages == 0
        || !load.messages.is_multiple_of(load.batch_messages)
    {
        let text = "--messages must be a multiple of --batch-messages, above 0";
        return Err(BenchError::Options(text.to_owned()));
    }
    sys::pin_to_core(options.programs.generator_core).map_err(BenchError::io("run on one core"))?;
    let results = Results::new(Some(&options.results));
    let srtm = (options.programs.srtm.clone(), &["nsqd"][..]);
    let nsqd = (options.programs.bin_dir.join("nsqd"), &[][..]);
    let peers = [("srtm", srtm), ("nsqd", nsqd)];
    let mut outcomes: [Vec<Outcome>; 2] = [Vec::new(), Vec::new()];
    for round in 0..options.rounds {
        for ((name, (program, words)), outcomes) in peers.iter().zip(&mut outcomes) {
            let outcome = Running::start(name, program, words, options)?.run(load)?;
            results.append("overflow", name, round, load, &outcome)?;
            outcomes.push(outcome);
        }
    }
    let rows = peers.iter().zip(&outcomes).map(|((name, _), outcomes)| {
        let figures = FIGURES.map(|(_, pick)| format!("{:.1}", median(outcomes, pick)));
        [vec![(*name).to_owned()], figures.to_vec()].concat()
    });
    let mut rows: Vec<Vec<String>> = rows.collect();
    let ratios = FIGURES.map(|(_, pick)| {
        let [ours, theirs] = [0, 1].map(|index| median(&outcomes[index], pick));
        format!("{:.2}", ours / theirs)
    });
    rows.push([vec![String::from("ratio")], ratios.to_vec()].concat());
    let header = [&["broker"][..], &FIGURES.map(|(name, _)| name)].concat();
    print!("{}", table(&header, &rows));
    Ok(())
}

type Pick = fn(&Outcome) -> f64;

const FIGURES: [(&str, Pick); 4] = [
    ("publish MB/s", |outcome| outcome.publish_mb_per_s),
    ("consume MB/s", |outcome| outcome.consume_mb_per_s),
    ("both MB/s", |outcome| outcome.mb_per_s),
    ("CPU us/message", |outcome| {
        outcome.broker_cpu_us_per_message
    }),
];

fn median(outcomes: &[Outcome], pick: Pick) -> f64 {
    statistics::median(outcomes.iter().map(pick))
}

/// A broker on its core.
struct Running {
    child: Child,
    tcp: SocketAddr,
    http: SocketAddr,
}

impl Running {
    fn start(
        name: &str,
        program: &PathBuf,
        words: &[&str],
        options: &OverflowOptions,
    ) -> Result<Running, BenchError> {
        let failed = |text: String| BenchError::Broker {
            name: name.to_owned(),
            text,
        };
        let folder = options.programs.work_dir.join(format!("overflow-{name}"));
        // What a former run left is of no use.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(BenchError::io("make the working folder"))?;
        let log = File::create(folder.join("log")).map_err(BenchError::io("make the log file"))?;
        let program = fs::canonicalize(program)
            .map_err(|_| failed(format!("not found: {}", program.display())))?;
        let (tcp, http) = (free_address()?, free_address()?);
        let queue = options.load.mem_queue_size;
        let mut command = Command::new(program);
        command
            .args(words)
            .args([
                format!("-tcp-address={tcp}"),
                format!("-http-address={http}"),
            ])
            .args([
                format!("-mem-queue-size={queue}"),
                String::from("-data-path=."),
            ])
            .args([
                "-max-body-size=64000000",
                "-max-rdy-count=10000",
                "-log-level=error",
            ])
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        sys::pin_command(&mut command, options.programs.broker_core);
        let child = command
            .spawn()
            .map_err(BenchError::io(format!("start {name}")))?;
        let mut running = Running { child, tcp, http };
        let deadline_ns = sys::monotonic_ns() + PATIENCE_NS;
        while TcpStream::connect(http).is_err() || TcpStream::connect(tcp).is_err() {
            if running.child.try_wait().is_ok_and(|ended| ended.is_some())
                || sys::monotonic_ns() > deadline_ns
            {
                return Err(failed(format!("does not listen; see {}", folder.display())));
            }
            sys::pause_for(POLL);
        }
        Ok(running)
    }

    fn run(&mut self, load: &Load) -> Result<Outcome, BenchError> {
        self.order(&format!("/topic/create?topic={TOPIC}"))?;
        self.order(&format!("/channel/create?topic={TOPIC}&channel={CHANNEL}"))?;
        let cpu_before = self.cpu_ns()?;
        let published_ns = self.publish(load)?;
        let consumed_ns = self.consume(load)?;
        let cpu_ns = self.cpu_ns()? - cpu_before;
        let megabytes = (load.messages * load.body_bytes) as f64 / 1e6;
        let rate = |ns: u64| megabytes / (ns as f64 / 1e9);
        Ok(Outcome {
            publish_mb_per_s: rate(published_ns),
            consume_mb_per_s: rate(consumed_ns),
            mb_per_s: rate(published_ns + consumed_ns),
            broker_cpu_us_per_message: cpu_ns as f64 / 1e3 / load.messages as f64,
        })
    }

    fn cpu_ns(&self) -> Result<u64, BenchError> {
        sys::process_cpu_ns(self.child.id()).map_err(BenchError::io("read the broker's CPU time"))
    }

    fn order(&self, target: &str) -> Result<(), BenchError> {
        let failed = || BenchError::io(format!("POST {target}"));
        let mut stream = TcpStream::connect(self.http).map_err(failed())?;
        let head = format!(
            "POST {target} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
            self.http
        );
        stream.write_all(head.as_bytes()).map_err(failed())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(failed())?;
        match answer.starts_with("HTTP/1.1 200") {
            true => Ok(()),
            false => Err(BenchError::protocol("http", format!("{target}: {answer}"))),
        }
    }

    /// Publishes all; nanoseconds until the last OK.
    fn publish(&self, load: &Load) -> Result<u64, BenchError> {
        let mut connection = Connection::open(self.tcp)?;
        let bodies = vec![vec![0x5a; load.body_bytes]; load.batch_messages];
        let mut batch = Vec::new();
        put_mpub(&mut batch, TOPIC, &bodies);
        let begin_ns = sys::monotonic_ns();
        let mut waiting = 0;
        for _ in 0..load.messages / load.batch_messages {
            connection.write(&batch)?;
            waiting += 1;
            while waiting >= BATCHES_WAITING {
                waiting -= connection.read(is_ok)?;
            }
        }
        while waiting > 0 {
            waiting -= connection.read(is_ok)?;
        }
        Ok(sys::monotonic_ns() - begin_ns)
    }

    /// Takes and finishes all; nanoseconds until the last one.
    fn consume(&self, load: &Load) -> Result<u64, BenchError> {
        let begin_ns = sys::monotonic_ns();
        let mut connection = Connection::open(self.tcp)?;
        let mut out = Vec::new();
        put_sub(&mut out, TOPIC, CHANNEL);
        put_rdy(&mut out, READY);
        connection.write(&out)?;
        let mut consumed = 0;
        while consumed < load.messages {
            out.clear();
            consumed += connection.read(|frame| match frame {
                Frame::Message { id, body, .. } if body.len() == load.body_bytes => {
                    put_fin(&mut out, id);
                    Ok(1)
                }
                Frame::Response(_) => Ok(0),
                other => Err(BenchError::protocol("nsq", format!("{other:?}"))),
            })?;
            connection.write(&out)?;
        }
        Ok(sys::monotonic_ns() - begin_ns)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A data folder that is thrown away needs no orderly end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection whose frames are read as many at a time as have come.
struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    filled: usize,
}

impl Connection {
    fn open(address: SocketAddr) -> Result<Connection, BenchError> {
        let stream = TcpStream::connect(address).map_err(BenchError::io("connect"))?;
        stream
            .set_nodelay(true)
            .map_err(BenchError::io("connect"))?;
        let mut connection = Connection {
            stream,
            input: vec![0; 1 << 20],
            filled: 0,
        };
        let mut out = wire::MAGIC_V2.to_vec();
        // A heartbeat would need an answer.
        put_identify(&mut out, br#"{"heartbeat_interval":60000}"#);
        connection.write(&out)?;
        while connection.read(is_ok)? == 0 {}
        Ok(connection)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        self.stream
            .write_all(bytes)
            .map_err(BenchError::io("write"))
    }

    /// Waits for frames and gives each to `take`; the sum of what that says.
    fn read(
        &mut self,
        mut take: impl FnMut(Frame<'_>) -> Result<usize, BenchError>,
    ) -> Result<usize, BenchError> {
        let count = self.stream.read(&mut self.input[self.filled..]);
        let count = count.map_err(BenchError::io("read"))?;
        if count == 0 {
            return Err(BenchError::protocol("nsq", "the broker hung up"));
        }
        self.filled += count;
        let (mut at, mut sum) = (0, 0);
        while let FrameDecoded::Complete { frame, consumed } =
            decode_frame(&self.input[at..self.filled], FRAME_BYTES_MAX)
                .map_err(|error| BenchError::protocol("nsq", error.to_string()))?
        {
            sum += take(frame)?;
            at += consumed;
        }
        self.input.copy_within(at..self.filled, 0);
        self.filled -= at;
        Ok(sum)
    }
}

fn is_ok(frame: Frame<'_>) -> Result<usize, BenchError> {
    match frame {
        Frame::Response(b"OK") => Ok(1),
        Frame::Response(_) => Ok(0),
        other => Err(BenchError::protocol("nsq", format!("{other:?}"))),
    }
}

/// A loopback address that was free a moment ago.
fn free_address() -> Result<SocketAddr, BenchError> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(BenchError::io("find a free port"))?;
    listener
        .local_addr()
        .map_err(BenchError::io("find a free port"))
}
