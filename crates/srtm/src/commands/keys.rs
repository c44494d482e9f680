//! `srtm keys`: a cluster's own authority, certificates and shared secrets, in a folder.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use control::random::random_bytes;
use keys::{FilesOf, KeyFolder, KeysError, Order, Secret, Seen, Usage, Validity};

use crate::error::Failure;
use crate::secure::{CONTROLLER, OPERATOR};
use crate::time::unix_time;

const INIT_EXAMPLES: &str = "\
Examples:
  srtm keys init
  srtm keys init /etc/srtm/keys --brokers b1,b2 --hosts 10.0.0.7,10.0.0.8,srtm.example
  srtm controller --secure /etc/srtm/keys
  srtm broker --secure /etc/srtm/keys --controller 127.0.0.1:4170 --broker-name b1";

const NODE_EXAMPLES: &str = "\
Examples:
  srtm keys node b3 /etc/srtm/keys --hosts 10.0.0.9
  srtm keys node b3 /etc/srtm/keys --hosts 10.0.0.9 --renew      daemons take it up while they run";

const CLIENT_EXAMPLES: &str = "\
Examples:
  srtm keys client sensor-7 /etc/srtm/keys
  srtm topic ls --ca /etc/srtm/keys/ca.pem --cert /etc/srtm/keys/clients/sensor-7.pem --cert-key /etc/srtm/keys/clients/sensor-7.key";

const SHOW_EXAMPLES: &str = "\
Examples:
  srtm keys show
  srtm keys show /etc/srtm/keys";

/// By these each daemon is reached on its own machine.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Certificates count for so many days, unless told otherwise.
pub(crate) const DAYS: u32 = 365;

/// What is done to a folder of keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Makes an authority, shared secrets, and certificates for a controller, brokers and an
    /// operator.
    #[command(after_help = INIT_EXAMPLES)]
    Init(InitFlags),
    /// Adds the certificate of a daemon.
    #[command(after_help = NODE_EXAMPLES)]
    Node(AddFlags),
    /// Adds the certificate of a client.
    #[command(after_help = CLIENT_EXAMPLES)]
    Client(AddFlags),
    /// Shows all certificates, what they are for and when they end.
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ShowFlags),
}

/// Flags of `srtm keys init`.
#[derive(Args, Debug)]
pub(crate) struct InitFlags {
    /// The folder, which must not hold keys yet.
    #[arg(default_value = "keys")]
    folder: PathBuf,
    /// Names of brokers to make certificates for.
    #[arg(
        long,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "b1"
    )]
    brokers: Vec<String>,
    #[command(flatten)]
    made: MadeFlags,
}

/// Flags of `srtm keys node` and `srtm keys client`.
#[derive(Args, Debug)]
pub(crate) struct AddFlags {
    /// Name of the daemon or client: a broker's --broker-name, or controller.
    name: String,
    /// The folder.
    #[arg(default_value = "keys")]
    folder: PathBuf,
    /// Replaces the certificate and its key.
    #[arg(long)]
    renew: bool,
    #[command(flatten)]
    made: MadeFlags,
}

/// What certificates are made for.
#[derive(Args, Debug)]
pub(crate) struct MadeFlags {
    /// Names and IP addresses under which others reach the daemons, beside this machine's own.
    #[arg(long, value_name = "HOST,…", value_delimiter = ',')]
    hosts: Vec<String>,
    /// Days for which the certificates count.
    #[arg(long, value_name = "N", default_value_t = DAYS, value_parser = clap::value_parser!(u32).range(1..=3653))]
    days: u32,
}

/// Flags of `srtm keys show`.
#[derive(Args, Debug)]
pub(crate) struct ShowFlags {
    /// The folder.
    #[arg(default_value = "keys")]
    folder: PathBuf,
}

/// Does what the command says.
pub(crate) fn run(command: &KeysCommand) -> Result<(), Failure> {
    match command {
        KeysCommand::Init(flags) => init(flags),
        KeysCommand::Node(flags) => add(flags, Usage::Node),
        KeysCommand::Client(flags) => add(flags, Usage::Client),
        KeysCommand::Show(flags) => show(&flags.folder),
    }
}

/// Makes the folder at `path`.
///
/// # Errors
/// [`Failure::Usage`] where it holds keys, or cannot be made.
pub(crate) fn make(path: &Path) -> Result<KeyFolder, Failure> {
    let random = [random_bytes()?, random_bytes()?, random_bytes()?];
    KeyFolder::init(path, random, now()).map_err(refused)
}

/// Makes sure of a certificate for `name`, for the loopback addresses and `hosts`, which counts for a month yet.
///
/// # Errors
/// [`Failure::Usage`].
pub(crate) fn ensure(
    folder: &KeyFolder,
    name: &str,
    usage: Usage,
    hosts: &[String],
) -> Result<FilesOf, Failure> {
    let hosts = with_loopback(usage, hosts);
    let order = Order {
        name,
        hosts: &hosts,
        usage,
        validity: Validity::days(now(), DAYS),
    };
    folder.ensure(&order, now()).map_err(refused)
}

fn init(flags: &InitFlags) -> Result<(), Failure> {
    let folder = make(&flags.folder)?;
    let brokers = flags.brokers.iter().map(String::as_str);
    for name in brokers.chain([CONTROLLER]) {
        put(&folder, name, Usage::Node, &flags.made, false)?;
    }
    put(&folder, OPERATOR, Usage::Client, &flags.made, false)?;
    show(&flags.folder)?;
    println!("\nsecrets, the same at all daemons:");
    for secret in Secret::ALL {
        println!("  {}", folder.secret(secret).display());
    }
    println!(
        "\nCopy the folder to each machine, but leave ca.key here: it is needed to add and renew certificates, and by no daemon."
    );
    Ok(())
}

fn add(flags: &AddFlags, usage: Usage) -> Result<(), Failure> {
    let folder = KeyFolder::open(&flags.folder).map_err(refused)?;
    let files = put(&folder, &flags.name, usage, &flags.made, flags.renew)?;
    let seen = Seen::at(&files.certificate).map_err(refused)?;
    print(&files.certificate, &seen);
    Ok(())
}

fn show(folder: &Path) -> Result<(), Failure> {
    let folder = KeyFolder::open(folder).map_err(refused)?;
    for (file, seen) in folder.certificates().map_err(refused)? {
        print(&file, &seen);
    }
    Ok(())
}

fn put(
    folder: &KeyFolder,
    name: &str,
    usage: Usage,
    made: &MadeFlags,
    is_renewed: bool,
) -> Result<FilesOf, Failure> {
    let order = Order {
        name,
        hosts: &with_loopback(usage, &made.hosts),
        usage,
        validity: Validity::days(now(), made.days),
    };
    folder.add(&order, is_renewed).map_err(refused)
}

/// A client is reached by nobody.
fn with_loopback(usage: Usage, hosts: &[String]) -> Vec<String> {
    if usage == Usage::Client {
        return hosts.to_vec();
    }
    let own = LOOPBACK.iter().map(|host| (*host).to_owned());
    let mut all: Vec<String> = own.collect();
    for host in hosts {
        // As a certificate has it.
        let host = host
            .parse::<IpAddr>()
            .map_or_else(|_| host.clone(), |ip| ip.to_string());
        if !all.contains(&host) {
            all.push(host);
        }
    }
    all
}

fn print(file: &Path, seen: &Seen) {
    let left = seen
        .until
        .duration_since(now())
        .map(|left| left.as_secs() / 86_400);
    let ends = match left {
        Ok(days) => format!("{days} days left"),
        Err(_) => String::from("it has ended: renew it"),
    };
    println!("{:<40} {:<16} {ends}", file.display(), seen.name);
    if !seen.hosts.is_empty() {
        println!("    for {}", seen.hosts.join(", "));
    }
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(unix_time().as_secs())
}

fn refused(error: KeysError) -> Failure {
    Failure::Usage(error.to_string())
}
