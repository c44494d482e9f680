//! `srtm topic`: contracts of topics, over a controller's HTTP port or that of a broker on its own.

mod at_broker;
mod at_controller;
mod profile;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use kernel::{CpuShare, KernelError};
use limit::{Burst, Gossip, InvalidLimit, JudgedBy, Limit, OnExceed, Rate, SharePolicy, Unit};
use link::{Durability, OnFull};
use placement::{Mode, Policy};
use wire::TopicName;

use crate::duration::GoDuration;
use crate::error::Failure;
use crate::servers::CONTROLLER;
use crate::token_flags::TokenFlags;

const SET_EXAMPLES: &str = "\
Examples:
  srtm topic set temperature --rate 1000 --burst 50
  srtm topic set temperature --rate 11000 --burst 400 --slo-p99 1ms
  srtm topic set temperature --rate 11000 --burst 400 --slo-p99 1ms --policy max-min --fit measure
  srtm topic set alarms --cpu-share 0.2
  srtm topic set events --on-full drop_oldest
  srtm topic set orders --durability fsync
  srtm topic set temperature --rate 1000 --burst 50 --share-policy fps
  srtm topic set temperature --rate 1000 --burst 50 --share-policy fps --gossip-interval 100ms --gossip-branches 5 --ewma 0.2
  srtm topic set frames --rate 1e6 --burst 65536 --unit bytes --on-exceed drop
  srtm topic set frames --rate 1000 --burst 50 --broker http://127.0.0.1:4151
  srtm topic set temperature --rate 1000 --burst 50 --token @operator.token";
const LS_EXAMPLES: &str = "Examples:\n  srtm topic ls\n  srtm topic ls --controller http://10.0.0.7:4180\n  srtm topic ls --broker http://10.0.0.7:4151";
const SHOW_EXAMPLES: &str =
    "Examples:\n  srtm topic show temperature\n  srtm topic show temperature --json";
const PROFILE_EXAMPLES: &str = "\
Examples:
  srtm topic profile temperature
  srtm topic profile temperature --broker http://127.0.0.1:4151
  srtm topic profile temperature --broker http://127.0.0.1:4151 --window 5m --write temperature.trace
  srtm topic profile temperature --trace temperature.trace --percentile 99.9 --target 2ms";
const RM_EXAMPLES: &str = "Examples:\n  srtm topic rm temperature\n  srtm topic rm temperature --with-messages --broker http://127.0.0.1:4151";

/// What to do with topics.
#[derive(Debug, Subcommand)]
pub(crate) enum TopicCommand {
    /// Sets the contract of a topic: its limit over the whole cluster, its CPU share, and its
    /// promise. It replaces the former contract, so give all parts that are to stay.
    #[command(after_help = SET_EXAMPLES)]
    Set(SetFlags),
    /// Lists topics with their limits and states.
    #[command(after_help = LS_EXAMPLES)]
    Ls(Whom),
    /// Shows a topic: its contract, its brokers and their shares, and the fit to its promise.
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ShowFlags),
    /// Finds the limit that a topic's traffic needs, from a recording or a trace file.
    #[command(after_help = PROFILE_EXAMPLES)]
    Profile(profile::ProfileFlags),
    /// Removes the contract and the publishers of a topic. Messages stay, unless --with-messages is
    /// given.
    #[command(after_help = RM_EXAMPLES)]
    Rm(RemoveFlags),
}

/// Flags of `srtm topic set`.
#[derive(Args, Debug)]
pub(crate) struct SetFlags {
    /// The topic.
    name: TopicName,
    /// Limit: messages (or bytes) per second.
    #[arg(long, value_name = "R", requires = "burst")]
    rate: Option<Rate>,
    /// Limit: messages (or bytes) that may leave at once after a pause.
    #[arg(long, value_name = "B", requires = "rate")]
    burst: Option<Burst>,
    /// What the limit counts: messages or bytes.
    #[arg(long, default_value = "messages")]
    unit: Unit,
    /// What to do with messages beyond the limit: delay, drop or reject.
    #[arg(long, value_name = "ACTION", default_value = "delay")]
    on_exceed: OnExceed,
    /// Time that the limit is applied to: arrival at the kernel, or release, with which a late
    /// broker does not catch up.
    #[arg(long, value_name = "INSTANT", default_value = "arrival")]
    judged_by: JudgedBy,
    /// How brokers share the limit. lease: the controller grants shares (TB Adaptor). By gossip
    /// among the brokers: fps (by flows), gtb (one bucket at all brokers), grd (random drop; needs
    /// --on-exceed drop or reject).
    #[arg(long, value_name = "POLICY", default_value = "lease")]
    share_policy: SharePolicy,
    /// Length of an estimate interval, for a limit shared by gossip, 10ms to 10s [default: that of
    /// the controller, or 50ms].
    #[arg(long, value_name = "DURATION")]
    gossip_interval: Option<GoDuration>,
    /// Brokers that each broker tells its demand per interval [default: that of the controller, or
    /// 3].
    #[arg(long, value_name = "N")]
    gossip_branches: Option<u16>,
    /// Weight of an old estimate after one second, from 0 (no averaging) to below 1 [default: 0.1].
    #[arg(long, value_name = "PART")]
    ewma: Option<f64>,
    /// Promise: 99 % of the messages take at most this long, end to end.
    #[arg(long, value_name = "DURATION")]
    slo_p99: Option<GoDuration>,
    /// Policy that distributes publishers over brokers.
    #[arg(long, default_value_t, value_parser = policies())]
    policy: Policy,
    /// How to fit the distribution to the promise: replay (simulate one recorded window) or measure
    /// (try it window by window).
    #[arg(long, default_value = "replay")]
    fit: Mode,
    /// Infers correlation groups from arrivals where publishers name none.
    #[arg(long)]
    infer_groups: bool,
    /// CPU share of the topic, on each thread of a broker: above 0 and at most 1, or none for an
    /// equal part of what the others leave. All CPU shares together are at most 1.
    #[arg(long, value_name = "PART|none")]
    cpu_share: Option<PartOrNone>,
    /// What to do when a channel is full: block (publishers wait) or drop_oldest [default: block,
    /// but drop the oldest if the channel has had no consumer for long].
    #[arg(long, value_name = "ACTION")]
    on_full: Option<OnFull>,
    /// Where a message is once it is accepted: memory, disk (it outlives the broker) or fsync (it
    /// outlives the machine) [default: memory].
    #[arg(long, value_name = "WORD")]
    durability: Option<Durability>,
    #[command(flatten)]
    whom: Whom,
}

/// A share, or none. Wrapped because clap reads an `Option` as a flag that may be absent.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PartOrNone(Option<CpuShare>);

/// Flags of `srtm topic show`.
#[derive(Args, Debug)]
pub(crate) struct ShowFlags {
    /// The topic.
    name: TopicName,
    /// Prints the answer as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    whom: Whom,
}

/// Flags of `srtm topic rm`.
#[derive(Args, Debug)]
pub(crate) struct RemoveFlags {
    /// The topic.
    name: TopicName,
    /// Deletes the topic with its channels and messages; only with --broker.
    #[arg(long, requires = "broker")]
    with_messages: bool,
    #[command(flatten)]
    whom: Whom,
}

/// Who is asked.
#[derive(Args, Debug)]
pub(crate) struct Whom {
    /// URL of the controller; several, of which one leads, have commas between them.
    #[arg(long, value_name = "URL", default_value = CONTROLLER)]
    controller: String,
    /// URL of a broker that has no controller.
    #[arg(long, value_name = "URL", conflicts_with = "controller")]
    broker: Option<String>,
    #[command(flatten)]
    token: TokenFlags,
}

/// Does what the command says.
pub(crate) fn run(command: TopicCommand) -> Result<(), Failure> {
    match command {
        TopicCommand::Set(flags) => {
            refuse_what_is_not_there(&flags)?;
            match &flags.whom.broker {
                Some(broker) => at_broker::set(broker, &flags),
                None => at_controller::set(&flags.whom.controller, &flags),
            }
        }
        TopicCommand::Ls(whom) => match &whom.broker {
            Some(broker) => at_broker::ls(broker, &whom.token),
            None => at_controller::ls(&whom.controller, &whom.token),
        },
        TopicCommand::Show(flags) => match &flags.whom.broker {
            Some(broker) => at_broker::show(broker, &flags),
            None => at_controller::show(&flags.whom.controller, &flags),
        },
        TopicCommand::Profile(flags) => profile::run(&flags),
        TopicCommand::Rm(flags) => match &flags.whom.broker {
            Some(broker) => at_broker::rm(broker, &flags),
            None => at_controller::rm(&flags.whom.controller, &flags),
        },
    }
}

/// The words of policies, and what they stand for.
fn policies() -> impl TypedValueParser<Value = Policy> {
    let words = PossibleValuesParser::new(Policy::ALL.map(Policy::as_str));
    words.try_map(|word| word.parse::<Policy>())
}

fn refuse_what_is_not_there(flags: &SetFlags) -> Result<(), Failure> {
    let not_there = |flag: &str, why: &str| Err(Failure::Usage(format!("{flag}: {why}")));
    if flags.whom.broker.is_some() && flags.slo_p99.is_some() {
        let why = "a broker on its own cannot place publishers to keep a promise; use --controller";
        return not_there("--slo-p99", why);
    }
    let declares = flags.rate.is_some()
        || flags.cpu_share.is_some()
        || flags.on_full.is_some()
        || flags.durability.is_some();
    if flags.whom.broker.is_some() && !declares {
        let why = "a broker on its own needs both, --cpu-share, --on-full or --durability";
        return not_there("--rate and --burst", why);
    }
    Ok(())
}

impl SetFlags {
    /// The limit that is declared, if its parts go together.
    fn limit(&self) -> Result<Option<Limit>, Failure> {
        let Some((rate, burst)) = self.rate.zip(self.burst) else {
            return Ok(None);
        };
        let limit = Limit {
            rate,
            burst,
            unit: self.unit,
            on_exceed: self.on_exceed,
            judged_by: self.judged_by,
            sharing: self.share_policy,
            gossip: self.gossip(),
        };
        let checked = limit.checked();
        checked.map(Some).map_err(|error| {
            let flag = match error {
                InvalidLimit::Gossip { field, .. } => match field {
                    "interval_ms" => "--gossip-interval",
                    "branches" => "--gossip-branches",
                    _ => "--ewma",
                },
                InvalidLimit::Rate { .. } => "--rate",
                _ => "--share-policy",
            };
            Failure::Usage(format!("{flag}: {error}"))
        })
    }

    fn gossip(&self) -> Gossip {
        let ms = |interval: GoDuration| u32::try_from(interval.0.as_millis()).unwrap_or(u32::MAX);
        Gossip {
            interval_ms: self.gossip_interval.map(ms),
            branches: self.gossip_branches,
            ewma: self.ewma,
        }
    }

    fn cpu_share(&self) -> Option<CpuShare> {
        self.cpu_share.and_then(|PartOrNone(share)| share)
    }
}

impl std::str::FromStr for PartOrNone {
    type Err = KernelError;

    fn from_str(text: &str) -> Result<PartOrNone, KernelError> {
        match text {
            "none" => Ok(PartOrNone(None)),
            text => text.parse().map(|share| PartOrNone(Some(share))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_parts_or_none() {
        assert_eq!("none".parse(), Ok(PartOrNone(None)));
        assert_eq!("0.2".parse(), Ok(PartOrNone(CpuShare::new(0.2).ok())));
        for bad in ["0", "1.5", "-1", "20%", "", "None"] {
            let error = bad.parse::<PartOrNone>().expect_err(bad).to_string();
            assert!(
                error.contains("more than 0 and at most 1"),
                "{bad}: {error}"
            );
        }
    }
}
