//! The command line as clap sees it: one subcommand per file in `commands`.

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    access, bench, broker, calibrate, config, controller, disk, experiment, keys, limiter, nsqd,
    nsqlookupd, plan, publish, publisher, sim, subscribe, topic, trace, up, whereis,
};
use crate::error::Failure;
use crate::trust_flags::TrustFlags;

/// Real-time pub/sub with rate limits in the broker. Speaks the NSQ protocol.
#[derive(Debug, Parser)]
#[command(
    name = "srtm",
    version,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    trust: TrustFlags,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Starts a controller and brokers on one machine.
    Up(Box<up::UpFlags>),
    /// Starts a broker.
    Broker(Box<broker::Flags>),
    /// Starts a controller without brokers.
    Controller(Box<controller::Flags>),
    /// Limits the TCP traffic of many sites together, with packets from TUN devices or NFQUEUE.
    Limiter(limiter::Flags),
    /// Starts a broker that takes nsqd's flags and writes nsqd's log lines.
    #[command(disable_help_flag = true)]
    Nsqd(NsqdArguments),
    /// Starts a lookup server that takes nsqlookupd's flags.
    #[command(disable_help_flag = true)]
    Nsqlookupd(NsqdArguments),
    /// Makes tokens for access files.
    #[command(subcommand)]
    Access(access::AccessCommand),
    /// Makes and shows what daemons and clients prove themselves by.
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Checks files of settings, shows settings in force, and prints a file to begin with.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Sets, lists, shows and removes the contracts of topics.
    #[command(subcommand)]
    Topic(topic::TopicCommand),
    /// Declares, lists and removes publishers.
    #[command(subcommand)]
    Publisher(publisher::PublisherCommand),
    /// Shows the brokers of a topic, even before the topic exists.
    Where(whereis::Flags),
    /// Measures how much load a broker carries under a promise, and what a message costs it.
    Calibrate(Box<calibrate::Flags>),
    /// Publishes the lines of standard input, or repeats one message.
    Pub(publish::Flags),
    /// Prints the messages of a channel, or a summary of them each second.
    Sub(subscribe::Flags),
    /// Computes how many brokers a load needs, which latency to expect, and what splitting costs.
    Plan(plan::Flags),
    /// Simulates a load on a cluster, in virtual time.
    Sim(sim::Flags),
    /// Runs the experiments of the SRTM and DRL papers in virtual time.
    Experiment(experiment::Flags),
    /// Looks at messages on disk.
    Disk(disk::DiskCommand),
    /// Records, shows and converts traces of workloads.
    #[command(subcommand)]
    Trace(trace::TraceCommand),
    /// Measures SRTM and other brokers.
    #[command(subcommand)]
    Bench(bench::BenchCommand),
}

impl Command {
    /// Whether it asks, computes and prints, and serves nobody.
    fn only_prints(&self) -> bool {
        matches!(
            self,
            Command::Keys(_)
                | Command::Config(_)
                | Command::Topic(_)
                | Command::Publisher(_)
                | Command::Where(_)
                | Command::Plan(_)
                | Command::Sim(_)
                | Command::Disk(_)
                | Command::Trace(_)
                | Command::Experiment(_)
        )
    }

    /// Whether it asks brokers or controllers.
    fn asks_daemons(&self) -> bool {
        matches!(
            self,
            Command::Topic(_)
                | Command::Publisher(_)
                | Command::Where(_)
                | Command::Pub(_)
                | Command::Sub(_)
                | Command::Calibrate(_)
                | Command::Trace(_)
                | Command::Bench(_)
        )
    }
}

/// Handed on as they are: nsqd's flags have one dash or two.
#[derive(Args, Debug)]
struct NsqdArguments {
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "FLAG"
    )]
    arguments: Vec<std::ffi::OsString>,
}

impl Cli {
    /// Whether a daemon could start with these settings; what only its start shows (ports, files of others) is left to that.
    pub(crate) fn check(self) -> Result<(), Failure> {
        match self.command {
            Command::Broker(flags) => broker::check(*flags),
            Command::Controller(flags) => controller::check(&flags),
            Command::Up(flags) => up::check(&flags),
            _ => Ok(()),
        }
    }

    /// Does what the command line says.
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.command.only_prints() {
            ::bench::sys::end_with_closed_output();
        }
        match self.command.asks_daemons() {
            true => self.trust.put_in_force()?,
            false => self.trust.refuse()?,
        }
        match self.command {
            Command::Up(flags) => up::run(*flags),
            Command::Broker(flags) => broker::run(*flags),
            Command::Limiter(flags) => limiter::run(flags),
            Command::Nsqd(arguments) => nsqd::run(arguments.arguments),
            Command::Controller(flags) => controller::run(*flags),
            Command::Nsqlookupd(arguments) => nsqlookupd::run(arguments.arguments),
            Command::Access(command) => access::run(command),
            Command::Keys(command) => keys::run(&command),
            Command::Config(command) => config::run(&command),
            Command::Topic(command) => topic::run(command),
            Command::Publisher(command) => publisher::run(command),
            Command::Where(flags) => whereis::run(&flags),
            Command::Calibrate(flags) => calibrate::run(&flags),
            Command::Pub(flags) => publish::run(&flags),
            Command::Sub(flags) => subscribe::run(&flags),
            Command::Plan(flags) => plan::run(&flags),
            Command::Sim(flags) => sim::run(&flags),
            Command::Experiment(flags) => experiment::run(&flags),
            Command::Disk(command) => disk::run(&command),
            Command::Trace(command) => trace::run(&command),
            Command::Bench(command) => bench::run(&command),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_subcommand_shows_examples() {
        for command in Cli::command()
            .get_subcommands()
            .filter(|command| !command.get_name().starts_with("nsq"))
        {
            let leaves: Vec<_> = match command.get_subcommands().count() {
                0 => vec![command],
                _ => command.get_subcommands().collect(),
            };
            for leaf in leaves {
                let help = leaf.clone().render_long_help().to_string();
                assert!(
                    help.contains("Example"),
                    "srtm {} --help has no examples",
                    leaf.get_name()
                );
            }
        }
    }
}
