//! A broker as a process that is killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::clocks::now;

const SRTM: &str = env!("CARGO_BIN_EXE_srtm");
/// Until a broker must listen, on a machine with other work.
const START_DEADLINE: Duration = Duration::from_secs(60);
/// Lines of a log that are shown.
const TOLD_LINES: usize = 30;

/// Where a broker listens.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    pub(crate) tcp: String,
    pub(crate) http: String,
}

/// One life of a broker.
#[derive(Debug)]
pub(crate) struct Life {
    child: Child,
    addresses: Receiver<Addresses>,
    /// Gives the log once that has ended.
    log: Option<JoinHandle<Vec<String>>>,
    started: Instant,
}

impl Life {
    /// Starts a broker on `data_path`, which may be killed before it listens.
    pub(crate) fn begin(data_path: &Path, flags: &[&str]) -> Life {
        let mut command = Command::new(SRTM);
        command
            .args(["broker", "--tcp-address", "127.0.0.1:0"])
            .args(["--http-address", "127.0.0.1:0", "--data-path"])
            .arg(data_path)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let started = now();
        let mut child = command.spawn().expect("srtm starts");
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let (tell, addresses) = channel();
        let log = std::thread::spawn(move || {
            read_log(stderr, |found| {
                // Nobody asks any more where the broker was killed meanwhile.
                let _ = tell.send(found);
            })
        });
        Life {
            child,
            addresses,
            log: Some(log),
            started,
        }
    }

    /// Waits until it listens, or for `within` at most.
    pub(crate) fn addresses(&self, within: Duration) -> Option<Addresses> {
        self.addresses.recv_timeout(within).ok()
    }

    /// Waits until it listens; where, and how long that took.
    pub(crate) fn listening(&mut self) -> (Addresses, Duration) {
        match self.addresses(START_DEADLINE) {
            Some(addresses) => (addresses, now() - self.started),
            None => {
                let log = self.kill();
                panic!("the broker does not listen:\n{}", log.join("\n"));
            }
        }
    }

    /// Ends it without a warning; its log.
    pub(crate) fn kill(&mut self) -> Vec<String> {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it ends");
        self.log()
    }

    /// Ends it in order; how it ended, and its log.
    pub(crate) fn stop(&mut self) -> (ExitStatus, Vec<String>) {
        let id = self.child.id().to_string();
        let told = Command::new("kill").args(["-TERM", &id]).status();
        assert!(told.expect("kill runs").success());
        let status = self.child.wait().expect("it ends");
        (status, self.log())
    }

    fn log(&mut self) -> Vec<String> {
        let log = self.log.take().map(|log| log.join().expect("reads"));
        log.unwrap_or_default()
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // Fails where it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a log to its end and keeps its last lines; says where the broker listens as soon as it does.
fn read_log(stderr: BufReader<ChildStderr>, mut tell: impl FnMut(Addresses)) -> Vec<String> {
    let (mut lines, mut tcp) = (Vec::new(), String::new());
    for line in stderr.lines().map_while(Result::ok) {
        if let Some((_, address)) = line.split_once("TCP: listening on ") {
            address.trim().clone_into(&mut tcp);
        }
        if let Some((_, address)) = line.split_once("HTTP: listening on ") {
            tell(Addresses {
                tcp: tcp.clone(),
                http: address.trim().to_owned(),
            });
        }
        if lines.len() == TOLD_LINES {
            lines.remove(0);
        }
        lines.push(line);
    }
    lines
}
