//! The brokers of `srtm up`: child processes, restarted when they die, drained together or, where
//! an operator takes one out, ended once it holds nothing.
//!
//! A child stops when its standard input ends, so one Ctrl-C drains all in order and none outlives
//! its parent, even a parent that was killed.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use api::view::BrokerView;
use control::ControlHandle;
use realtime::Realtime;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::access_flags::AccessFlags;
use crate::announce_flags::AnnouncePorts;
use crate::broker_flags::ScheduleFlags;
use crate::byte_size::ByteSize;
use crate::configuration::VARIABLE_START;
use crate::drained::{Drained, Verdict};
use crate::duration::GoDuration;
use crate::error::{Failure, LOST};

/// A broker that died is started again after this long, and after twice as long each time that it dies young.
const RESTART_DELAY: Duration = Duration::from_secs(1);
/// The longest such delay.
const RESTART_DELAY_MAX: Duration = Duration::from_secs(30);
/// A broker that lived so long is not young.
const YOUNG: Duration = Duration::from_secs(30);
/// Children that drain are told of so often.
const DRAIN_TOLD_INTERVAL: Duration = Duration::from_secs(10);
/// Brokers that are being taken out are looked at so often.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// What all brokers of a machine have in common.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    /// Address that they listen on.
    pub(crate) ip: IpAddr,
    /// Further names by which their HTTP may be asked to change something.
    pub(crate) http_hosts: Vec<String>,
    /// Who may do what at them.
    pub(crate) access: AccessFlags,
    /// Port of the first for NSQ clients; 0 lets the system choose all.
    pub(crate) tcp_base_port: u16,
    /// Where they dial.
    pub(crate) link: SocketAddr,
    /// What they prove there.
    pub(crate) proof: Proof,
    /// Folder for theirs.
    pub(crate) data_dir: Option<PathBuf>,
    /// Time that each message takes, if emulated.
    pub(crate) service_time: Option<GoDuration>,
    /// How their threads are scheduled: each broker has one, the first on the first CPU.
    pub(crate) realtime: Option<Realtime>,
    /// How topics share that thread.
    pub(crate) schedule: ScheduleFlags,
    /// Their ports for announcements, if they take part in them.
    pub(crate) announce: Option<AnnouncePorts>,
    /// How long one that ends waits while no message is finished.
    pub(crate) drain_timeout: GoDuration,
    /// Memory that each may hold.
    pub(crate) memory_budget: ByteSize,
    /// Log level.
    pub(crate) log_level: String,
}

/// What brokers prove to their controller.
#[derive(Clone, Debug)]
pub(crate) enum Proof {
    /// The key in this file.
    LinkKey(PathBuf),
    /// Everything in this folder of keys; all that is said is encrypted.
    Secure(PathBuf),
}

/// The brokers.
pub(crate) struct Children {
    template: Template,
    most: u32,
    /// By number what ends it.
    stopping: Vec<tokio::sync::oneshot::Sender<()>>,
    /// Those that were taken out and have ended.
    ended: BTreeSet<u32>,
    /// Says whether its broker lost messages when it ended.
    keepers: JoinSet<bool>,
    /// Set when brokers are to end at once.
    cut_short: watch::Sender<bool>,
}

impl Children {
    /// None yet, `most` at most.
    pub(crate) fn new(template: Template, most: u32) -> Children {
        Children {
            template,
            most,
            stopping: Vec::new(),
            ended: BTreeSet::new(),
            keepers: JoinSet::new(),
            cut_short: watch::Sender::new(false),
        }
    }

    /// Starts one more.
    pub(crate) fn start_one(&mut self) -> Result<(), Failure> {
        let number = self.stopping.len() as u32;
        if number >= self.most {
            return Err(Failure::Usage(format!(
                "{number} brokers run and --max-brokers {} allows no more",
                self.most
            )));
        }
        let stop = self.start(number)?;
        self.stopping.push(stop);
        Ok(())
    }

    /// Starts another each time that somebody asks, while that is allowed. With `drained`, ends those that were taken out, and
    /// starts them again when they are wanted back.
    pub(crate) async fn serve(
        &mut self,
        mut wanted: mpsc::Receiver<String>,
        handle: &ControlHandle,
        mut drained: Option<Drained>,
    ) {
        let mut looks = tokio::time::interval(LOOK_INTERVAL);
        loop {
            tokio::select! {
                Some(topic) = wanted.recv() => self.room_wanted(&topic, handle).await,
                _ = looks.tick() => if let Some(drained) = &mut drained {
                    // A controller that does not answer is asked again.
                    let brokers = handle.ask(control::handle::Command::Brokers).await;
                    for view in brokers.unwrap_or_default() {
                        self.look(&view, drained);
                    }
                },
            }
        }
    }

    /// A broker that was taken out is the first to come back.
    async fn room_wanted(&mut self, topic: &str, handle: &ControlHandle) {
        if let Some(&number) = self.ended.first() {
            let name = Template::name(number);
            tracing::info!("topic {topic} needs more capacity: taking broker {name} back");
            let resumed = handle.ask(|reply| control::handle::Command::ResumeBroker(name, reply));
            if let Err(error) = resumed.await {
                tracing::warn!("topic {topic} needs more capacity: {error}");
            }
            return;
        }
        match self.start_one() {
            Ok(()) => tracing::info!("topic {topic} needs more capacity: starting another broker"),
            Err(error) => tracing::warn!("topic {topic} needs more capacity: {error}"),
        }
    }

    fn look(&mut self, view: &BrokerView, drained: &mut Drained) {
        let mut numbers = 0..self.stopping.len() as u32;
        let Some(number) = numbers.find(|&number| Template::name(number) == view.broker) else {
            return;
        };
        if self.ended.contains(&number) {
            if !view.is_draining {
                self.start_again(number);
            }
        } else if drained.look(view, Instant::now()) == Verdict::End {
            let (nobody, _) = tokio::sync::oneshot::channel();
            let stop = std::mem::replace(&mut self.stopping[number as usize], nobody);
            // A keeper that has ended needs no telling.
            let _ = stop.send(());
            self.ended.insert(number);
        }
    }

    fn start_again(&mut self, number: u32) {
        match self.start(number) {
            Ok(stop) => {
                tracing::info!("broker {} was restarted", Template::name(number));
                self.stopping[number as usize] = stop;
                self.ended.remove(&number);
            }
            Err(error) => tracing::error!("broker {}: {error}", Template::name(number)),
        }
    }

    fn start(&mut self, number: u32) -> Result<tokio::sync::oneshot::Sender<()>, Failure> {
        let first = self.template.spawn(number)?;
        let (stop, stopped) = tokio::sync::oneshot::channel();
        self.keepers.spawn(keep(
            self.template.clone(),
            number,
            first,
            stopped,
            self.cut_short.subscribe(),
        ));
        Ok(stop)
    }

    /// Drains and ends all together; says whether any broker has lost messages by ending.
    pub(crate) async fn stop(&mut self) -> bool {
        for stop in self.stopping.drain(..) {
            // A keeper that has ended needs no telling.
            let _ = stop.send(());
        }
        let mut has_lost = false;
        while let Some(ended) = self.keepers.join_next().await {
            match ended {
                Ok(lost) => has_lost |= lost,
                Err(error) => tracing::error!(%error, "the task that keeps a broker failed"),
            }
        }
        has_lost
    }

    /// Ends those that drain at once.
    pub(crate) async fn kill(&mut self) {
        self.cut_short.send_replace(true);
        self.stop().await;
    }
}

impl Template {
    /// Name of a broker.
    pub(crate) fn name(number: u32) -> String {
        format!("b{}", number + 1)
    }

    /// Port for NSQ clients; the one above it is for HTTP. Brokers beyond the fifth leave out the ports of
    /// lookup and controller.
    pub(crate) fn port(&self, number: u32) -> Option<u16> {
        let beyond = if number >= 5 { 40 } else { 0 };
        u16::try_from(u32::from(self.tcp_base_port) + 2 * number + beyond).ok()
    }

    fn spawn(&self, number: u32) -> Result<Child, Failure> {
        let name = Template::name(number);
        let starting = format!("starting broker {name}");
        let program = std::env::current_exe().map_err(Failure::io(starting.clone()))?;
        let mut command = Command::new(program);
        // What the environment says is said to `srtm up`, which tells each of its brokers what it is to know.
        for (name, _) in std::env::vars_os() {
            let is_setting = name
                .to_str()
                .is_some_and(|name| name.starts_with(VARIABLE_START));
            if is_setting {
                command.env_remove(name);
            }
        }
        command.arg("broker").args(self.arguments(number)?);
        match &self.proof {
            Proof::LinkKey(file) => command.arg("--link-key").arg(file),
            Proof::Secure(folder) => command.arg("--secure").arg(folder),
        };
        if let Some(folder) = &self.data_dir {
            let own = folder.join(&name);
            std::fs::create_dir_all(&own)
                .map_err(Failure::io(format!("making {}", own.display())))?;
            command.arg("--calibration").arg(folder);
            command.arg("--data-path").arg(own);
        }
        // A group of its own, so that Ctrl-C reaches the parent alone.
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0);
        command.spawn().map_err(Failure::io(starting))
    }

    /// The flags of broker `number` but for its folders: at every start the same.
    fn arguments(&self, number: u32) -> Result<Vec<String>, Failure> {
        let name = Template::name(number);
        let (tcp, http) = match (self.tcp_base_port, self.port(number)) {
            (0, _) => (0, 0),
            (_, Some(port)) if port < u16::MAX => (port, port + 1),
            _ => {
                let base = self.tcp_base_port;
                return Err(Failure::Usage(format!(
                    "--tcp-base-port {base} leaves no port for {name}; use a lower one"
                )));
            }
        };
        let listen = |port| SocketAddr::new(self.ip, port);
        let mut arguments = vec![
            String::from("--stop-with-stdin"),
            String::from("--threads=1"),
            format!("--broker-name={name}"),
            format!("--node-id={number}"),
            format!("--controller={}", self.link),
            format!("--tcp-address={}", listen(tcp)),
            format!("--http-address={}", listen(http)),
            format!("--broadcast-address={}", self.ip),
            format!("--drain-timeout={}", self.drain_timeout),
            format!("--memory-budget={}", self.memory_budget),
            format!("--log-level={}", self.log_level),
        ];
        arguments.extend(self.schedule.arguments());
        let hosts = self.http_hosts.iter();
        arguments.extend(hosts.map(|host| format!("--http-host={host}")));
        if let Some(path) = self.access.path() {
            arguments.push(format!("--access={}", path.display()));
        }
        if self.access.is_insecure() {
            arguments.push(String::from("--insecure"));
        }
        if let Some(time) = self.service_time {
            arguments.push(format!("--emulate-service-time={time}"));
        }
        if let Some(realtime) = &self.realtime {
            arguments.extend(scheduling_flags(realtime, number));
        }
        if let Some(announce) = &self.announce {
            arguments.extend(announce.arguments(number)?);
            // Another broker's announcements may have the port that gossip would take by itself.
            arguments.push(format!("--gossip-address={}", listen(0)));
        }
        Ok(arguments)
    }
}

/// The flags of broker `number` for its one thread.
fn scheduling_flags(realtime: &Realtime, number: u32) -> Vec<String> {
    let priority = realtime.priority().to_string();
    let mut flags = vec![
        String::from("--realtime"),
        String::from("--realtime-priority"),
        priority,
    ];
    if let Some(cpu) = realtime.cpus().get(number as usize) {
        flags.extend([String::from("--cpus"), cpu.to_string()]);
    }
    flags
}

/// Keeps one broker running until told to stop, then drains it; says whether it lost messages by that.
async fn keep(
    template: Template,
    number: u32,
    mut child: Child,
    mut stopped: tokio::sync::oneshot::Receiver<()>,
    cut_short: watch::Receiver<bool>,
) -> bool {
    let name = Template::name(number);
    let mut delay = RESTART_DELAY;
    // Waiting for a child would close its input, which tells it to end.
    let mut input = child.stdin.take();
    loop {
        let started = tokio::time::Instant::now();
        tokio::select! {
            _ = &mut stopped => {
                return drain(&name, child, input, cut_short).await;
            }
            ended = child.wait() => match ended {
                Ok(status) => tracing::error!("broker {name} ended: {status}"),
                Err(error) => tracing::error!("broker {name}: {error}"),
            },
        }
        delay = if started.elapsed() < YOUNG {
            (delay * 2).min(RESTART_DELAY_MAX)
        } else {
            RESTART_DELAY
        };
        loop {
            tracing::info!("restarting broker {name} in {delay:?}");
            tokio::select! {
                _ = &mut stopped => return false,
                () = tokio::time::sleep(delay) => {}
            }
            match template.spawn(number) {
                Ok(again) => {
                    child = again;
                    input = child.stdin.take();
                    break;
                }
                Err(error) => tracing::error!("broker {name}: {error}"),
            }
        }
    }
}

/// Tells a broker to end and waits until it has, for as long as that takes: it knows how long its consumers make progress.
/// Says whether it lost messages.
async fn drain(
    name: &str,
    mut child: Child,
    input: Option<ChildStdin>,
    mut cut_short: watch::Receiver<bool>,
) -> bool {
    drop(input);
    let first = Instant::now() + DRAIN_TOLD_INTERVAL;
    let mut told = tokio::time::interval_at(first, DRAIN_TOLD_INTERVAL);
    loop {
        tokio::select! {
            ended = child.wait() => return has_lost(name, ended),
            Ok(_) = cut_short.wait_for(|&is_cut| is_cut) => {}
            _ = told.tick() => {
                tracing::info!("broker {name} is draining: its consumers still finish messages");
                continue;
            }
        }
        // It may have ended just now.
        let _ = child.kill().await;
        return false;
    }
}

fn has_lost(name: &str, ended: std::io::Result<ExitStatus>) -> bool {
    match ended {
        Ok(status) if status.success() => false,
        Ok(status) if status.code() == Some(i32::from(LOST)) => {
            tracing::error!("broker {name} lost messages when it ended; its lines above say which");
            true
        }
        Ok(status) => {
            tracing::warn!("broker {name} ended: {status}");
            false
        }
        Err(error) => {
            tracing::warn!("broker {name}: {error}");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use realtime::Priority;

    use super::*;
    use crate::announce_flags::AnnouncePortFlags;
    use crate::broker_flags::BrokerFlags;
    use crate::link_key::KeyFile;

    #[derive(Debug, Parser)]
    struct Up {
        #[command(flatten)]
        schedule: ScheduleFlags,
        #[command(flatten)]
        announce: AnnouncePortFlags,
    }

    #[derive(Debug, Parser)]
    struct Broker {
        #[command(flatten)]
        flags: BrokerFlags,
        #[arg(long)]
        log_level: String,
        #[arg(long)]
        stop_with_stdin: bool,
    }

    fn template(arguments: &[&str]) -> Template {
        let up = Up::try_parse_from(["up"].iter().chain(arguments));
        let up = up.expect("valid flags");
        let ip = IpAddr::from([127, 0, 0, 1]);
        Template {
            ip,
            http_hosts: vec!["one.example".to_owned(), "two.example".to_owned()],
            access: AccessFlags::default(),
            tcp_base_port: 5000,
            link: SocketAddr::new(ip, 4999),
            proof: Proof::LinkKey(PathBuf::from("link.key")),
            data_dir: None,
            service_time: "40us".parse().ok(),
            realtime: None,
            schedule: up.schedule,
            announce: up.announce.ports(ip),
            drain_timeout: GoDuration(Duration::from_secs(7)),
            memory_budget: ByteSize(96 << 20),
            log_level: "warn".to_owned(),
        }
    }

    fn config(template: &Template, number: u32) -> broker::Config {
        let arguments = template.arguments(number).expect("there are ports");
        let file = KeyFile::open(None, None).expect("made");
        let file = format!("--link-key={}", file.path.display());
        let all = [vec!["broker".to_owned(), file], arguments].concat();
        let broker = Broker::try_parse_from(all).expect("valid flags");
        assert!(broker.stop_with_stdin && broker.log_level == "warn");
        broker.flags.into_config().expect("nothing from a folder")
    }

    #[test]
    fn brokers_are_told_what_they_have_in_common_and_what_is_their_own() {
        let plain = config(&template(&[]), 0);
        let default = broker::Config::default();
        assert_eq!(plain.share_period, default.share_period);
        assert_eq!(plain.on_overrun, default.on_overrun);
        assert!(plain.announce.is_none());
        let template = template(&[
            "--share-period=3ms",
            "--on-overrun=report",
            "--announce-base-port=6000",
            "--announce-key=secret",
            "--announce-interval=250ms",
        ]);
        for number in 0..3 {
            let config = config(&template, number);
            config.validate().expect("in range");
            let port = 5000 + 2 * number as u16;
            assert_eq!(config.tcp_address.port(), port);
            assert_eq!(config.http_address.expect("served").port(), port + 1);
            assert_eq!(config.http_hosts, ["one.example", "two.example"]);
            assert_eq!((config.threads, config.node_id), (1, number as u16));
            assert_eq!(config.drain_timeout, Duration::from_secs(7));
            assert_eq!(config.memory_budget_bytes, 96 << 20);
            let link = config.controller.expect("there is one");
            assert_eq!(link.addresses, ["127.0.0.1:4999"]);
            assert_eq!(link.broker_name, Template::name(number));
            let model = config.service_time.expect("emulated");
            assert_eq!(model.per_message_ns, 40_000.0);
            assert_eq!(config.share_period, Duration::from_millis(3));
            assert_eq!(config.on_overrun, kernel::OnOverrun::Report);
            let announce = config.announce.expect("takes part");
            assert_eq!(announce.address.port(), 6000 + number as u16);
            assert_eq!(announce.interval, Duration::from_millis(250));
            assert!(announce.key.is_some());
        }
    }

    #[test]
    fn each_broker_has_a_cpu_of_its_own() {
        let realtime = |cpus| Realtime::new(Priority::default(), cpus).expect("valid");
        let pinned = realtime(vec![4, 2]);
        let expected = ["--realtime", "--realtime-priority", "10", "--cpus", "2"];
        assert_eq!(scheduling_flags(&pinned, 1), expected);
        let free = realtime(Vec::new());
        assert_eq!(scheduling_flags(&free, 1), expected[..3]);
    }
}
