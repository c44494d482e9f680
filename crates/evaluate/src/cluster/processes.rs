//! A cluster of real processes on the loopback interface, to be killed, stopped and started again at will.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::broker_port::BrokerPort;
use api::Controller;
use bench::BenchError;
use bench::sys::{Signal, monotonic_ns, pause_for, signal};

/// A process must answer within this time of its start.
const START_TIMEOUT: Duration = Duration::from_secs(15);

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
    /// Whether brokers keep their topics and limits over restarts, too.
    pub brokers_keep: bool,
    /// Whether there is a controller; without one brokers are on their own.
    pub has_controller: bool,
    /// Folder for the controller's store and the logs.
    pub folder: PathBuf,
}

/// A running cluster; its processes are killed with it.
#[derive(Debug)]
pub struct Cluster {
    setup: Setup,
    ports: Ports,
    controller: Option<Child>,
    /// The brokers, dead ones included.
    pub brokers: Vec<Broker>,
}

/// Where the controller listens.
#[derive(Debug)]
struct Ports {
    http: SocketAddr,
    link: SocketAddr,
    lookup_tcp: SocketAddr,
    lookup_http: SocketAddr,
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
        let [http, link, lookup_tcp, lookup_http] = free_addresses()?;
        let mut cluster = Cluster {
            ports: Ports {
                http,
                link,
                lookup_tcp,
                lookup_http,
            },
            controller: None,
            brokers: Vec::new(),
            setup,
        };
        if cluster.setup.has_controller {
            cluster.start_controller()?;
        }
        for _ in 0..cluster.setup.brokers {
            cluster.add_broker()?;
        }
        if !cluster.setup.has_controller {
            return Ok(cluster);
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

    /// Starts one more broker and waits until it listens; its number.
    ///
    /// # Errors
    /// Where it does not.
    pub fn add_broker(&mut self) -> Result<usize, BenchError> {
        let number = self.brokers.len();
        let [tcp, http] = free_addresses()?;
        self.brokers.push(Broker {
            name: format!("b{}", number + 1),
            tcp,
            http,
            child: None,
        });
        self.start_broker(number)?;
        Ok(number)
    }

    /// The controller's HTTP.
    pub fn api(&self) -> Controller {
        Controller::new(&self.address())
    }

    /// The controller's HTTP address.
    pub fn address(&self) -> String {
        self.ports.http.to_string()
    }

    /// Where consumers ask for brokers.
    pub fn lookup(&self) -> SocketAddr {
        self.ports.lookup_http
    }

    /// Starts the controller, again if need be, and waits until it answers.
    ///
    /// # Errors
    /// Where it does not.
    pub fn start_controller(&mut self) -> Result<(), BenchError> {
        let mut command = self.command("controller");
        command
            .args(["controller", "--http", &self.ports.http.to_string()])
            .args(["--link-address", &self.ports.link.to_string()])
            .args(["--lookup-tcp-address", &self.ports.lookup_tcp.to_string()])
            .args(["--lookup-http-address", &self.ports.lookup_http.to_string()])
            .arg("--data-dir")
            .arg(&self.setup.folder)
            .args(&self.setup.controller_flags);
        self.controller = Some(spawn(command)?);
        until(START_TIMEOUT, || {
            TcpStream::connect(self.ports.http).is_ok()
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
            .args(["broker", "--node-id", &number.to_string()])
            .args([
                "--tcp-address",
                &tcp.to_string(),
                "--http-address",
                &http.to_string(),
            ])
            .args(["--broadcast-address", "127.0.0.1", "--threads", "1"])
            .args(&self.setup.broker_flags);
        if self.setup.has_controller {
            let link = self.ports.link.to_string();
            command.args(["--broker-name", name, "--controller", &link]);
            // The controller has made it.
            command
                .arg("--link-key")
                .arg(self.setup.folder.join("link.key"));
        }
        if self.setup.brokers_keep {
            command.arg("--data-path").arg(self.setup.folder.join(name));
        }
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
        signal_child(self.brokers[number].child.as_ref(), which)
    }

    /// Stops the controller's process or lets it go on.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn signal_controller(&self, which: Signal) -> Result<(), BenchError> {
        signal_child(self.controller.as_ref(), which)
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

impl Broker {
    /// Its HTTP.
    pub fn port(&self) -> BrokerPort {
        BrokerPort::new(self.http)
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

/// Addresses that nobody listens on: bound all at once, then let go.
fn free_addresses<const N: usize>() -> Result<[SocketAddr; N], BenchError> {
    let mut addresses = [SocketAddr::from(([127, 0, 0, 1], 0)); N];
    let mut listeners = Vec::new();
    for address in &mut addresses {
        let listener = TcpListener::bind(*address).map_err(BenchError::io("find a port"))?;
        *address = listener
            .local_addr()
            .map_err(BenchError::io("find a port"))?;
        listeners.push(listener);
    }
    Ok(addresses)
}

fn spawn(mut command: Command) -> Result<Child, BenchError> {
    command.spawn().map_err(BenchError::io("start srtm"))
}

fn signal_child(child: Option<&Child>, which: Signal) -> Result<(), BenchError> {
    let Some(child) = child else {
        return Ok(());
    };
    signal(child.id(), which).map_err(BenchError::io("signal a process"))
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
