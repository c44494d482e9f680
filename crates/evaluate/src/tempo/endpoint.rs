//! Publishers and subscribers as processes of their own, and their conversation with the measuring
//! process.
//!
//! An endpoint is this same program, started with a [`Task`] as JSON. It says `"ready"` when it is
//! connected, is given the [`Window`] (one clock rules the machine), does its work, and answers
//! with one line: its [`Published`] or [`Subscribed`]. It ends when its standard input does, so
//! nothing outlives the measurement.

mod body;
mod credit;
mod outlet;
mod publisher;
mod subscriber;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use publisher::{Published, Publishing};
#[cfg(test)]
pub use subscriber::TopicUse;
pub use subscriber::{Subscribed, Subscribing};

use bench::BenchError;
use bench::sys;

/// How long an endpoint may take to find its counterparts.
const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// How long after the window's end its answer may come.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// What an endpoint is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// Publish one topic.
    Publish(Publishing),
    /// Subscribe topics.
    Subscribe(Subscribing),
}

/// When to work and when to measure, nanoseconds of the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Publishers begin.
    pub begin_ns: u64,
    /// What happens from here on counts.
    pub start_ns: u64,
    /// Publishers end, and nothing counts any more.
    pub end_ns: u64,
}

/// What an endpoint answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    /// It is connected.
    Ready,
    /// A publisher's work is done.
    Published(Published),
    /// A subscriber's work is done.
    Subscribed(Subscribed),
    /// It failed, with a text.
    Failed(String),
}

/// Where an endpoint runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// The only core that it may use; `None`: all.
    pub core: Option<usize>,
    /// Whether it yields to everybody else (nice 19).
    pub is_background: bool,
}

/// An endpoint's process, which ends with this.
#[derive(Debug)]
pub struct Endpoint {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    name: String,
}

impl Window {
    /// A window of `measure` that begins after `warmup`, which begins in a moment.
    pub fn soon(warmup: Duration, measure: Duration) -> Self {
        let begin_ns = sys::monotonic_ns() + 100_000_000;
        let start_ns = begin_ns + warmup.as_nanos() as u64;
        Self {
            begin_ns,
            start_ns,
            end_ns: start_ns + measure.as_nanos() as u64,
        }
    }

    /// Its length in seconds, without the warm-up.
    pub fn seconds(&self) -> f64 {
        self.end_ns.saturating_sub(self.start_ns) as f64 / 1e9
    }
}

impl Endpoint {
    /// Starts an endpoint and waits until it is connected. `relaunch` are the arguments after which this program
    /// understands `tempo`.
    ///
    /// # Errors
    /// When it does not start or finds nobody.
    pub fn start(task: &Task, place: Place) -> Result<Self, BenchError> {
        let task_text = to_line(task)?;
        // The program that is running, whatever its name and place.
        let mut command = Command::new("/proc/self/exe");
        command.args(["tempo", "endpoint"]);
        if place.is_background {
            command.arg("--background");
        }
        command.arg(task_text.trim_end());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(core) = place.core {
            sys::pin_command(&mut command, core);
        }
        let mut child = command
            .spawn()
            .map_err(BenchError::io("start an endpoint"))?;
        let name = match task {
            Task::Publish(publishing) => format!("publisher of {}", publishing.topic),
            Task::Subscribe(_) => "subscriber".to_owned(),
        };
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(&name, "it has no standard input and output"));
        };
        let mut endpoint = Self {
            child,
            input: Some(input),
            output: BufReader::new(output),
            name,
        };
        match endpoint.answer(READY_TIMEOUT)? {
            Answer::Ready => Ok(endpoint),
            other => Err(failed(&endpoint.name, &format!("it began with {other:?}"))),
        }
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it when to work.
    ///
    /// # Errors
    /// When it is gone.
    pub fn begin(&mut self, window: &Window) -> Result<(), BenchError> {
        let line = to_line(window)?;
        let input = self.input.as_mut();
        let written = input.map(|input| input.write_all(line.as_bytes()));
        written
            .unwrap_or(Ok(()))
            .map_err(BenchError::io(format!("tell the {} to begin", self.name)))
    }

    /// Waits for a publisher's answer.
    ///
    /// # Errors
    /// When it failed, is gone, or is silent.
    pub fn published(&mut self, window: &Window) -> Result<Published, BenchError> {
        match self.answer(patience(window))? {
            Answer::Published(published) => Ok(published),
            other => Err(failed(&self.name, &format!("it answered {other:?}"))),
        }
    }

    /// Waits for a subscriber's answer.
    ///
    /// # Errors
    /// When it failed, is gone, or is silent.
    pub fn subscribed(&mut self, window: &Window) -> Result<Subscribed, BenchError> {
        match self.answer(patience(window))? {
            Answer::Subscribed(subscribed) => Ok(subscribed),
            other => Err(failed(&self.name, &format!("it answered {other:?}"))),
        }
    }

    fn answer(&mut self, timeout: Duration) -> Result<Answer, BenchError> {
        // An endpoint writes whole lines and nothing unasked, so nothing is left in the buffer between two answers.
        let is_there = sys::wait_readable(self.output.get_ref(), timeout)
            .map_err(BenchError::io("wait for an endpoint"))?;
        if !is_there {
            let text = format!("it is silent for {} s", timeout.as_secs());
            return Err(failed(&self.name, &text));
        }
        match read_line(&mut self.output)? {
            Some(Answer::Failed(text)) => Err(failed(&self.name, &text)),
            Some(answer) => Ok(answer),
            None => Err(failed(&self.name, "it ended early")),
        }
    }
}

impl Drop for Endpoint {
    /// Ends it: closing its input is enough for one that is well.
    fn drop(&mut self) {
        self.input = None;
        let deadline_ns = sys::monotonic_ns() + 2_000_000_000;
        while sys::monotonic_ns() < deadline_ns {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            sys::pause_for(Duration::from_millis(5));
        }
        // It may have ended between the two calls, which is as good.
        let _already_gone = self.child.kill();
        let _status = self.child.wait();
    }
}

/// The endpoint's side: does the task that `text` says.
///
/// # Errors
/// When there is nobody to answer to; failures of the task are answered.
pub fn serve(text: &str, is_background: bool) -> Result<(), BenchError> {
    if is_background {
        rustix::process::setpriority_process(None, 19)
            .map_err(|error| BenchError::io("run in the background")(error.into()))?;
    }
    let task: Task = serde_json::from_str(text)
        .map_err(|error| BenchError::Options(format!("no task of an endpoint: {error}")))?;
    let done = match task {
        Task::Publish(publishing) => {
            publisher::publish(&publishing, await_window).map(Answer::Published)
        }
        Task::Subscribe(subscribing) => subscriber::subscribe(&subscribing, await_window, |done| {
            say(&Answer::Subscribed(done))?;
            wait_for_the_end()
        })
        .map(|()| Answer::Ready),
    };
    match done {
        // A subscriber has answered already.
        Ok(Answer::Ready) => Ok(()),
        Ok(answer) => {
            say(&answer)?;
            wait_for_the_end()
        }
        Err(error) => say(&Answer::Failed(error.to_string())),
    }
}

/// Says that this endpoint is ready, and waits for its window.
fn await_window() -> Result<Window, BenchError> {
    say(&Answer::Ready)?;
    read_line(&mut std::io::stdin().lock())?
        .ok_or_else(|| failed("measurement", "it ended before it began"))
}

fn wait_for_the_end() -> Result<(), BenchError> {
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .map(drop)
        .map_err(BenchError::io("wait for the end"))
}

fn say(answer: &Answer) -> Result<(), BenchError> {
    let line = to_line(answer)?;
    let mut output = std::io::stdout().lock();
    output
        .write_all(line.as_bytes())
        .and_then(|()| output.flush())
        .map_err(BenchError::io("answer"))
}

fn to_line(value: &impl Serialize) -> Result<String, BenchError> {
    let text = serde_json::to_string(value);
    text.map(|text| text + "\n")
        .map_err(|error| BenchError::Options(format!("not JSON: {error}")))
}

/// The next line as a value; `None` at the end.
fn read_line<T: DeserializeOwned>(input: &mut impl BufRead) -> Result<Option<T>, BenchError> {
    let mut line = String::new();
    let bytes = input
        .read_line(&mut line)
        .map_err(BenchError::io("read an answer"))?;
    if bytes == 0 {
        return Ok(None);
    }
    let read = serde_json::from_str(&line).map(Some);
    read.map_err(|error| failed("endpoint", &format!("{error} in {}", line.trim_end())))
}

fn patience(window: &Window) -> Duration {
    let left_ns = window.end_ns.saturating_sub(sys::monotonic_ns());
    Duration::from_nanos(left_ns) + ANSWER_TIMEOUT
}

fn failed(name: &str, text: &str) -> BenchError {
    BenchError::Broker {
        name: name.to_owned(),
        text: text.to_owned(),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn client_failed(error: client::ClientError) -> BenchError {
    BenchError::protocol("tempo", error.to_string())
}

/// Waits until the instant `at_ns` of the monotonic clock.
fn rest_until(at_ns: u64) {
    let ahead_ns = at_ns.saturating_sub(sys::monotonic_ns());
    if ahead_ns > 0 {
        sys::pause_for(Duration::from_nanos(ahead_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_lines_that_can_be_read_back() {
        let answers = [
            Answer::Ready,
            Answer::Failed("no\nbroker".to_owned()),
            Answer::Published(Published::default()),
            Answer::Subscribed(Subscribed::default()),
        ];
        for answer in answers {
            let line = to_line(&answer).expect("plain data");
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            let read: Answer = read_line(&mut line.as_bytes())
                .expect("as written")
                .expect("a line");
            assert_eq!(format!("{read:?}"), format!("{answer:?}"));
        }
        let end: Option<Answer> = read_line(&mut &b""[..]).expect("the end is no error");
        assert!(end.is_none());
        let wrong = read_line::<Answer>(&mut &b"{}\n"[..]).expect_err("no answer");
        assert!(wrong.to_string().contains("in {}"), "{wrong}");
    }

    #[test]
    fn a_window_is_as_long_as_asked_for() {
        let window = Window::soon(Duration::from_secs(1), Duration::from_millis(2500));
        assert_eq!(window.seconds(), 2.5);
        assert_eq!(window.start_ns - window.begin_ns, 1_000_000_000);
    }
}
