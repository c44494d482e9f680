//! `srtm up`: a controller and brokers on one machine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use access::InForce;
use broker::Config;
use clap::Args;
use control::ControlHandle;
use control::handle::Command;
use realtime::{Realtime, RealtimeError};
use tokio::sync::mpsc;

use crate::announce_flags::{AnnouncePortFlags, AnnouncePorts};
use crate::broker_flags::{RealtimeFlags, ScheduleFlags};
use crate::byte_size::ByteSize;
use crate::children::{Children, Proof, Template};
use crate::commands::demo::Demo;
use crate::configuration::ConfigFlag;
use crate::control_flags::ControlFlags;
use crate::controller_daemon::{ControllerDaemon, PortFlags, Ports};
use crate::controller_tls_flags::ControllerTls;
use crate::daemon::{CUT_SHORT, Signals, runtime};
use crate::drained::Drained;
use crate::duration::GoDuration;
use crate::error::Failure;
use crate::key_place::KeyPlace;
use crate::link_key::KeyFile;
use crate::{log, secure};

const EXAMPLES: &str = "\
Examples:
  srtm up
  srtm up --brokers 3 --data-dir /var/lib/srtm
  srtm up --brokers 2 --max-brokers 6 --emulate-service-time 40us --profile-window 10s
  srtm up --brokers 3 --end-drained-after 10m
  srtm up --brokers 2 --max-brokers 4 --memory-budget 2GiB                           512MiB for each broker
  srtm up --brokers 2 --realtime --cpus 2,3
  srtm up --brokers 2 --share-period 5ms --announce-base-port 4151 --announce-key @/etc/srtm.key
  srtm up --brokers 3 --data-dir /var/lib/srtm --secure                              TLS everywhere, with keys made for it
  srtm up --brokers 3 --demo";

/// Brokers that `srtm up` starts at most, unless told otherwise.
const BROKERS_MAX: u32 = 64;

/// Flags of `srtm up`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UpFlags {
    #[command(flatten)]
    _config: ConfigFlag,
    /// Number of brokers to start.
    #[arg(long, value_name = "N", default_value_t = 1)]
    brokers: u32,
    /// Most brokers to run when a promise needs more than --brokers [default: the value of
    /// --brokers].
    #[arg(long, value_name = "N")]
    max_brokers: Option<u32>,
    #[command(flatten)]
    ports: PortFlags,
    /// Port of the first broker for NSQ clients, on the address of --http. Each broker takes two
    /// ports; with 0 the system chooses all of them.
    #[arg(long, value_name = "PORT", default_value_t = 4150)]
    tcp_base_port: u16,
    /// Folder to keep contracts, publishers, topics and channels in over restarts [default: nothing
    /// is kept].
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// Makes each message take this long without using a core, to emulate brokers of known
    /// capacity.
    #[arg(long, value_name = "DURATION")]
    emulate_service_time: Option<GoDuration>,
    /// How long a stopping broker waits for connected consumers that finish no message; with --data-dir,
    /// how long in all.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(Config::default().drain_timeout))]
    drain_timeout: GoDuration,
    /// Ends a broker that an operator drains as soon as it is empty, and after this time at the
    /// latest; starts it again when the operator resumes it [default: it goes on running].
    #[arg(long, value_name = "DURATION")]
    end_drained_after: Option<GoDuration>,
    /// Encrypts everything: HTTP, NSQ clients and what the daemons say to one another, with the keys
    /// of FOLDER, which are made where they are missing. Without FOLDER they are in `keys` in
    /// --data-dir, or in a temporary folder. Clients need a certificate of that folder.
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, require_equals = true, group = "proof")]
    secure: Option<Option<PathBuf>>,
    /// Runs sensors whose bursts grow, and prints how the service keeps its promise.
    #[arg(long)]
    demo: bool,
    /// Memory for messages and for input and output buffers, of all brokers together. It is divided
    /// equally by the most brokers that may run [default: half the memory of the machine or the
    /// control group].
    #[arg(long, value_name = "SIZE")]
    memory_budget: Option<ByteSize>,
    #[command(flatten)]
    realtime: RealtimeFlags,
    #[command(flatten)]
    schedule: ScheduleFlags,
    #[command(flatten)]
    announce: AnnouncePortFlags,
    #[command(flatten)]
    control: ControlFlags,
    /// Least severe level to log: debug, info, warn, error or fatal.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: String,
}

/// Each broker may hold so much, unless told otherwise.
const MEMORY_LEAST_BYTES: u64 = 64 << 20;

/// Whether these settings fit together.
pub(crate) fn check(flags: &UpFlags) -> Result<(), Failure> {
    let most = most_brokers(flags)?;
    flags.control.settings()?;
    memory_budget(flags.memory_budget, most)?;
    flags.realtime.realtime()?;
    let ports = flags.ports.ports(flags.secure.is_some())?;
    let announce = flags.announce.ports(ports.http.ip());
    may_start(
        &flags.schedule,
        announce.as_ref(),
        ports.admission.access,
        most,
    )
}

/// How many brokers may run.
fn most_brokers(flags: &UpFlags) -> Result<u32, Failure> {
    let most = flags.max_brokers.unwrap_or(flags.brokers);
    if flags.brokers == 0 || flags.brokers > most || most > BROKERS_MAX {
        return Err(Failure::Usage(format!(
            "--brokers {} --max-brokers {most} is out of range; start 1 to {BROKERS_MAX} brokers, and no more than --max-brokers",
            flags.brokers
        )));
    }
    Ok(most)
}

/// Starts, shows where to look, and waits for a signal.
pub(crate) fn run(flags: UpFlags) -> Result<(), Failure> {
    let most = most_brokers(&flags)?;
    let level = log::parse_level(&flags.log_level)
        .map_err(|reason| Failure::Usage(format!("--log-level: {reason}")))?;
    log::start(&level, "[srtm] ");
    let settings = flags.control.settings()?;
    let memory_budget = memory_budget(flags.memory_budget, most)?;
    let realtime = flags.realtime.realtime()?;
    if let Some(realtime) = &realtime {
        may_be_realtime(realtime, most)?;
    }
    let ports = flags.ports.ports(flags.secure.is_some())?;
    let announce = flags.announce.ports(ports.http.ip());
    let access = ports.admission.access.clone();
    may_start(&flags.schedule, announce.as_ref(), access, most)?;
    runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        let (wish, wanted) = mpsc::channel(16);
        // A wish that finds the queue full repeats itself.
        let spawner = Box::new(move |topic: &str, _| drop(wish.try_send(topic.to_owned())));
        let data_dir = flags.data_dir.clone();
        let place = flags.keys(most, &ports)?;
        let (key, tls) = flags.proof(place.as_ref())?;
        let controller =
            ControllerDaemon::start(settings, ports, key, tls, data_dir, Some(spawner)).await?;
        let template = flags.template(
            &controller,
            place.as_ref(),
            realtime,
            announce.clone(),
            memory_budget,
        );
        let mut children = Children::new(template, most);
        for _ in 0..flags.brokers {
            children.start_one()?;
        }
        tokio::select! {
            () = signals.next() => {}
            () = all_up(&controller.handle, flags.brokers) => {
                let announce = Announcing::of(announce.as_ref(), flags.brokers)?;
                println!(
                    "{}{}",
                    places(&controller.ports, announce.as_ref(), flags.demo),
                    with_keys(&controller.ports, place.as_ref())
                );
                serve(&flags, &controller, &mut children, wanted, &mut signals).await?;
            }
        }
        tell_what_is_held(&controller.handle).await;
        tracing::info!("stopping: brokers drain; a second signal stops at once");
        let stopping = async {
            let has_lost = children.stop().await;
            controller.stop().await;
            has_lost
        };
        let has_lost = tokio::select! {
            has_lost = stopping => has_lost,
            () = signals.next() => {
                tracing::warn!("stopped by a second signal: queued messages are lost");
                children.kill().await;
                std::process::exit(CUT_SHORT);
            }
        };
        tracing::info!("bye");
        ended(has_lost)
    })
}

fn ended(has_lost: bool) -> Result<(), Failure> {
    match has_lost {
        false => Ok(()),
        true => Err(Failure::Lost {
            what: String::from("messages of brokers"),
        }),
    }
}

/// Brokers that refuse their settings, or have no port, would be started again and again.
fn may_start(
    schedule: &ScheduleFlags,
    announce: Option<&AnnouncePorts>,
    access: Option<InForce>,
    brokers: u32,
) -> Result<(), Failure> {
    let mut config = Config {
        access,
        ..Config::default()
    };
    schedule.put(&mut config);
    config.announce = announce
        .map(|ports| ports.config(brokers - 1))
        .transpose()?;
    Ok(config.validate()?)
}

/// Brokers that may not, or have no CPU, would be started again and again.
fn may_be_realtime(realtime: &Realtime, brokers: u32) -> Result<(), Failure> {
    let cpus = realtime.cpus().len();
    if cpus > 0 && cpus < brokers as usize {
        return Err(Failure::Usage(format!(
            "--cpus names {cpus} CPUs for {brokers} brokers of one thread each; name one CPU for each broker"
        )));
    }
    let refused = |error: RealtimeError| Failure::Usage(format!("--realtime: {error}"));
    realtime.check().map_err(refused)
}

/// Until a signal, or the demo's end.
async fn serve(
    flags: &UpFlags,
    controller: &ControllerDaemon,
    children: &mut Children,
    wanted: mpsc::Receiver<String>,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let drained = flags
        .end_drained_after
        .map(|longest| Drained::new(longest.0));
    let handle = &controller.handle;
    if !flags.demo {
        tokio::select! {
            () = signals.next() => {}
            () = children.serve(wanted, handle, drained) => {}
        }
        return Ok(());
    }
    let demo = Demo::start(controller.ports.http, controller.handle.clone()).await?;
    tokio::select! {
        () = signals.next() => {}
        () = children.serve(wanted, handle, drained) => {}
        () = demo.print() => {}
    }
    tokio::task::block_in_place(|| demo.end())
}

/// Says what a stop may lose.
async fn tell_what_is_held(handle: &ControlHandle) {
    let Ok(views) = handle.ask(Command::Brokers).await else {
        return;
    };
    for view in views.into_iter().filter(|view| view.holds > 0) {
        tracing::warn!(
            "broker {} holds {} messages; those that its connected consumers do not finish are lost",
            view.broker,
            view.holds
        );
    }
}

/// Completes when so many brokers have said hello.
async fn all_up(handle: &ControlHandle, brokers: u32) {
    let mut interval = tokio::time::interval(Duration::from_millis(50));
    loop {
        interval.tick().await;
        if let Ok(views) = handle.ask(Command::Brokers).await
            && views.iter().filter(|view| view.state == "up").count() >= brokers as usize
        {
            return;
        }
    }
}

impl UpFlags {
    /// The folder of keys for so many brokers, where there is to be one.
    fn keys(&self, brokers: u32, ports: &Ports) -> Result<Option<KeyPlace>, Failure> {
        let Some(folder) = &self.secure else {
            return Ok(None);
        };
        if self.announce.is_given() {
            return Err(Failure::Usage(String::from(
                "--secure and --announce-base-port exclude each other: Tempo's connections are not encrypted",
            )));
        }
        if self.demo {
            return Err(Failure::Usage(String::from(
                "--secure and --demo exclude each other: the demo's sensors speak without TLS",
            )));
        }
        let hosts = (ports.http.ip(), &ports.admission.hosts[..]);
        KeyPlace::open(folder.as_deref(), self.data_dir.as_deref(), brokers, hosts).map(Some)
    }

    /// What the controller proves itself by.
    fn proof(&self, place: Option<&KeyPlace>) -> Result<(KeyFile, ControllerTls), Failure> {
        let Some(place) = place else {
            let named = self.ports.link_key.as_deref();
            let key = KeyFile::open(named, self.data_dir.as_deref())?;
            return Ok((key, ControllerTls::default()));
        };
        let secure = secure::open(&place.path())?;
        Ok((secure.key_file()?, ControllerTls::of(&secure)?))
    }

    fn template(
        &self,
        controller: &ControllerDaemon,
        place: Option<&KeyPlace>,
        realtime: Option<Realtime>,
        announce: Option<AnnouncePorts>,
        memory_budget: ByteSize,
    ) -> Template {
        Template {
            ip: controller.ports.http.ip(),
            http_hosts: controller.ports.admission.hosts.clone(),
            access: self.ports.access.clone(),
            tcp_base_port: self.tcp_base_port,
            link: controller.ports.link,
            proof: match place {
                None => Proof::LinkKey(controller.key.path.clone()),
                Some(place) => Proof::Secure(place.path()),
            },
            data_dir: self.data_dir.clone(),
            service_time: self.emulate_service_time,
            realtime,
            schedule: self.schedule.clone(),
            announce,
            drain_timeout: self.drain_timeout,
            memory_budget,
            log_level: self.log_level.clone(),
        }
    }
}

/// What each of so many brokers may hold: its part of `all`, or of what one may that has the machine for itself.
fn memory_budget(all: Option<ByteSize>, brokers: u32) -> Result<ByteSize, Failure> {
    let defaults = Config::default();
    let part = |all: u64| all / u64::from(brokers.max(1));
    let Some(all) = all else {
        let part = part(defaults.memory_budget_bytes);
        return Ok(ByteSize(part.max(MEMORY_LEAST_BYTES)));
    };
    let config = Config {
        memory_budget_bytes: part(all.0),
        ..defaults
    };
    let refused = |error| {
        let part = ByteSize(part(all.0));
        Failure::Usage(format!(
            "--memory-budget {all} is {part} for each of {brokers} brokers: {error}"
        ))
    };
    config.validate().map_err(refused)?;
    Ok(ByteSize(config.memory_budget_bytes))
}

/// Where the brokers that were started take announcements.
struct Announcing {
    first: SocketAddr,
    last: SocketAddr,
    is_signed: bool,
}

impl Announcing {
    fn of(ports: Option<&AnnouncePorts>, brokers: u32) -> Result<Option<Announcing>, Failure> {
        let Some(ports) = ports else { return Ok(None) };
        Ok(Some(Announcing {
            first: ports.address(0)?,
            last: ports.address(brokers - 1)?,
            is_signed: ports.is_signed(),
        }))
    }
}

/// How to ask where everything is encrypted.
fn with_keys(ports: &Ports, place: Option<&KeyPlace>) -> String {
    let Some(place) = place else {
        return String::new();
    };
    let operator = place.operator();
    let [ca, cert, key] =
        [&operator.authorities, &operator.certificate, &operator.key].map(|file| file.display());
    format!(
        "everything is encrypted, and whoever asks needs a certificate:
                export SRTM_CA={ca} SRTM_CERT={cert} SRTM_CERT_KEY={key}
                curl --cacert {ca} --cert {cert} --key {key} https://{}/v1/topics
",
        ports.http
    )
}

/// Where to look and what to try.
fn places(ports: &Ports, announcing: Option<&Announcing>, is_demo: bool) -> String {
    let Ports {
        http, lookup_http, ..
    } = ports;
    let topic = if is_demo { "sensors" } else { "temperature" };
    let (mut announcements, mut peer) = (String::new(), String::new());
    if let Some(Announcing {
        first,
        last,
        is_signed,
    }) = announcing
    {
        let further = match last == first {
            true => String::new(),
            false => format!(" to {last}, one broker each"),
        };
        let key = if *is_signed { " --key …" } else { "" };
        announcements = format!("announcements   {first}{further}\n");
        peer = format!("                srtm sub {topic} --peer {first}{key}\n");
    }
    let scheme = match ports.is_encrypted {
        true => "https",
        false => "http",
    };
    let lookup_http = match ports.is_encrypted {
        true => format!("https://{lookup_http}"),
        false => lookup_http.to_string(),
    };
    format!(
        "
control API     {scheme}://{http}/v1/topics   brokers: /v1/brokers   events: /v1/events
metrics         {scheme}://{http}/metrics
NSQ consumers   --lookupd-http-address={lookup_http}
{announcements}
try             srtm topic show {topic}
                srtm where {topic}
                srtm topic set {topic} --rate 1500 --burst 50 --slo-p99 2ms
                srtm publisher ls {topic}
{peer}
Ctrl-C drains and stops.
"
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn brokers_divide_what_all_may_hold() {
        let part = |all: &str, brokers| {
            let all = all.parse().expect("a size");
            memory_budget(Some(all), brokers).map(|part| part.0)
        };
        assert_eq!(part("2GiB", 1).ok(), Some(2 << 30));
        assert_eq!(part("2GiB", 4).ok(), Some(512 << 20));
        let text = part("64MiB", 4).expect_err("too little").to_string();
        for said in ["--memory-budget 64MiB", "16MiB", "each of 4 brokers"] {
            assert!(text.contains(said), "{text}");
        }
        let whole = Config::default().memory_budget_bytes;
        let default = |brokers| memory_budget(None, brokers).expect("good").0;
        assert_eq!(default(1), whole.max(MEMORY_LEAST_BYTES));
        assert_eq!(default(u32::MAX), MEMORY_LEAST_BYTES);
    }

    #[derive(clap::Parser)]
    struct WithPorts {
        #[command(flatten)]
        ports: PortFlags,
    }

    #[test]
    fn places_name_announce_ports_where_there_are_any() {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let ports = WithPorts::parse_from(["srtm"]).ports.ports(false);
        let ports = ports.expect("nobody is let in by default");
        let announcing = |last, is_signed| Announcing {
            first: at(5001),
            last: at(last),
            is_signed,
        };
        let plain = places(&ports, None, false);
        assert!(plain.contains("http://127.0.0.1:4180/v1/topics") && !plain.contains("peer"));
        let alone = places(&ports, Some(&announcing(5001, false)), true);
        assert!(
            alone.contains("\nannouncements   127.0.0.1:5001\n"),
            "{alone}"
        );
        let several = places(&ports, Some(&announcing(5003, true)), false);
        let lines = [
            "announcements   127.0.0.1:5001 to 127.0.0.1:5003, one broker each",
            "                srtm sub temperature --peer 127.0.0.1:5001 --key …",
        ];
        for line in lines {
            assert!(several.lines().any(|each| each == line), "{several}");
        }
        // Nothing else differs.
        let rest = several.lines().filter(|line| !lines.contains(line));
        assert!(rest.eq(plain.lines()), "{several}");
    }
}
