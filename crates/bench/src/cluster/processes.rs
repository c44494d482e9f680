//! A cluster of real processes on the loopback interface, to be killed, stopped and started again at will.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::ControllerApi;
use crate::error::BenchError;
use crate::sys::{Signal, monotonic_ns, pause_for, signal};

/// A process must answer within this time of its start.
const START_TIMEOUT: Duration = Duration::from_secs(15);
/// First port of the cluster: controller, then two for each broker.
const BASE_PORT: u16 = 24_180;

/// How the processes are started.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The srtm program.
    pub program: PathBuf,
    /// Brokers.
    pub brokers: usize,
    /// Emulated service time of each broker, in the words of its flag.
    pub service_time: Option<String>,
    /// Further flags of the controller.
    pub controller_flags: Vec<String>,
    /// Further flags of the brokers.
    pub broker_flags: Vec<String>,
    /// Folder for the controller's store and the logs.
    pub folder: PathBuf,
}

/// A running cluster; its processes are killed with it.
#[derive(Debug)]
pub struct Cluster {
    setup: Setup,
    controller: Option<Child>,
    /// The brokers, dead ones included.
    pub brokers: Vec<Broker>,
}

/// A broker's process.
#[derive(Debug)]
pub struct Broker {
    /// Name.
    pub name: String,
    /// Where NSQ clients connect.
    pub tcp: SocketAddr,
    /// Where its HTTP is.
    pub http: SocketAddr,
    child: Option<Child>,
}

impl Cluster {
    /// Starts all processes and waits until the controller knows all brokers.
    ///
    /// # Errors
    /// Where a process does not start or does not answer.
    pub fn start(setup: Setup) -> Result<Cluster, BenchError> {
        std::fs::create_dir_all(&setup.folder)
            .map_err(BenchError::io("make the cluster's folder"))?;
        let brokers = (0..setup.brokers as u16).map(|number| Broker {
            name: format!("b{}", number + 1),
            tcp: local(BASE_PORT + 10 + 2 * number),
            http: local(BASE_PORT + 11 + 2 * number),
            child: None,
        });
        let brokers: Vec<Broker> = brokers.collect();
        let mut cluster = Cluster {
            setup,
            controller: None,
            brokers,
        };
        cluster.start_controller()?;
        for number in 0..cluster.brokers.len() {
            cluster.start_broker(number)?;
        }
        let count = cluster.brokers.len();
        let api = cluster.api();
        let all_up = || {
            let brokers = api.brokers().unwrap_or_default();
            brokers.iter().filter(|broker| broker.state == "up").count() == count
        };
        until(START_TIMEOUT, all_up)
            .then_some(cluster)
            .ok_or_else(|| BenchError::protocol("cluster", "not all brokers came up"))
    }

    /// The controller's HTTP.
    pub fn api(&self) -> ControllerApi {
        ControllerApi::new(&self.address())
    }

    /// The controller's HTTP address.
    pub fn address(&self) -> String {
        local(BASE_PORT).to_string()
    }

    /// Starts the controller, again if need be, and waits until it answers.
    ///
    /// # Errors
    /// Where it does not.
    pub fn start_controller(&mut self) -> Result<(), BenchError> {
        let mut command = self.command("controller");
        command
            .args(["controller", "--http", &local(BASE_PORT).to_string()])
            .args(["--link-address", &local(BASE_PORT + 1).to_string()])
            .args(["--lookup-tcp-address", &local(BASE_PORT + 2).to_string()])
            .args(["--lookup-http-address", &local(BASE_PORT + 3).to_string()])
            .arg("--data-dir")
            .arg(&self.setup.folder)
            .args(&self.setup.controller_flags);
        self.controller = Some(spawn(command)?);
        until(START_TIMEOUT, || {
            TcpStream::connect(local(BASE_PORT)).is_ok()
        })
        .then_some(())
        .ok_or_else(|| BenchError::protocol("controller", "does not answer"))
    }

    /// Kills the controller.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn kill_controller(&mut self) -> Result<(), BenchError> {
        kill(&mut self.controller)
    }

    /// Starts a broker, again if need be, and waits until it listens.
    ///
    /// # Errors
    /// Where it does not.
    pub fn start_broker(&mut self, number: usize) -> Result<(), BenchError> {
        let Broker {
            name, tcp, http, ..
        } = &self.brokers[number];
        let (tcp, http) = (*tcp, *http);
        let mut command = self.command(name);
        command
            .args([
                "broker",
                "--broker-name",
                name,
                "--node-id",
                &number.to_string(),
            ])
            .args([
                "--tcp-address",
                &tcp.to_string(),
                "--http-address",
                &http.to_string(),
            ])
            .args(["--broadcast-address", "127.0.0.1", "--threads", "1"])
            .args(["--controller", &local(BASE_PORT + 1).to_string()])
            .args(&self.setup.broker_flags);
        if let Some(time) = &self.setup.service_time {
            command.args(["--emulate-service-time", time]);
        }
        self.brokers[number].child = Some(spawn(command)?);
        until(START_TIMEOUT, || TcpStream::connect(tcp).is_ok())
            .then_some(())
            .ok_or_else(|| BenchError::protocol("broker", "does not listen"))
    }

    /// Kills a broker (SIGKILL).
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn kill_broker(&mut self, number: usize) -> Result<(), BenchError> {
        kill(&mut self.brokers[number].child)
    }

    /// Stops a broker's process or lets it go on.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn signal_broker(&self, number: usize, which: Signal) -> Result<(), BenchError> {
        let Some(child) = &self.brokers[number].child else {
            return Ok(());
        };
        signal(child.id(), which).map_err(BenchError::io("signal a broker"))
    }

    /// The program, its log beside the store.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.setup.program);
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.setup.folder.join(format!("{name}.log")));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(log.map_or_else(|_| Stdio::null(), Stdio::from));
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Processes that have ended already need no killing.
        for broker in &mut self.brokers {
            let _ = kill(&mut broker.child);
        }
        let _ = kill(&mut self.controller);
    }
}

/// A folder of its own for a cluster within `parent`, empty.
///
/// # Errors
/// Where it cannot be made.
pub fn empty_folder(parent: &Path, name: &str) -> Result<PathBuf, BenchError> {
    let folder = parent.join(format!("srtm-cluster-{}-{name}", std::process::id()));
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(BenchError::io("empty the cluster's folder"))?;
    }
    std::fs::create_dir_all(&folder).map_err(BenchError::io("make the cluster's folder"))?;
    Ok(folder)
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn spawn(mut command: Command) -> Result<Child, BenchError> {
    command.spawn().map_err(BenchError::io("start srtm"))
}

fn kill(child: &mut Option<Child>) -> Result<(), BenchError> {
    if let Some(mut child) = child.take() {
        child.kill().map_err(BenchError::io("kill a process"))?;
        child
            .wait()
            .map_err(BenchError::io("wait for a killed process"))?;
    }
    Ok(())
}

/// Waits until `is_true`, at most so long.
pub fn until(at_most: Duration, mut is_true: impl FnMut() -> bool) -> bool {
    let end_ns = monotonic_ns() + at_most.as_nanos() as u64;
    loop {
        if is_true() {
            return true;
        }
        if monotonic_ns() >= end_ns {
            return false;
        }
        pause_for(Duration::from_millis(20));
    }
}
