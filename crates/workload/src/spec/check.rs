//! Checks of a spec beyond its types: ranges, and keys that must agree with each other.

use std::collections::HashSet;
use std::time::Duration;

use clock::DurationText;

use super::{Class, Cluster, Failure, Ramp, Spec, Topic};
use crate::error::{Place, SpecError};

/// Publishers of a spec, all classes together.
pub(crate) const MAX_PUBLISHERS: u32 = 1_000_000;
/// Classes of a spec.
const MAX_CLASSES: usize = 1_024;
/// Messages per second of one publisher.
const MAX_RATE: f64 = 1e6;
/// The slowest publisher: a message in eleven days. Below it, times leave what a clock of nanoseconds holds.
const MIN_RATE: f64 = 1e-6;
const MAX_FAILURES: usize = 1_024;
/// Messages per second of a broker or a topic.
const MAX_TOTAL_RATE: f64 = 1e12;
/// Body of a message.
const MAX_BODY_BYTES: u32 = 1 << 20;
const MAX_BROKERS: u32 = 1_024;
const MAX_CORES: u32 = 1_024;
/// Warm-up and measurement together, and every other span.
const MAX_SPAN: Duration = Duration::from_secs(24 * 3600);
/// Shortest time that a publisher is on.
const MIN_ON: Duration = Duration::from_millis(1);
/// How much longer than on a publisher may be off.
const MAX_OFF_PER_ON: u32 = 1_000_000;

/// The words that a topic's policy may be, as the Load Distributor knows them.
pub const POLICIES: [&str; 4] = ["srtm", "max-min", "conc", "lb"];
const FITS: [&str; 2] = ["replay", "measure"];

/// Something wrong, with its place in terms of keys.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) table: Table,
    pub(super) key: String,
    text: String,
}

/// A table of the spec.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    /// Empty: the top.
    pub(super) name: &'static str,
    /// Which item of an array of tables, from 0.
    pub(super) index: Option<usize>,
}

/// Checks everything; the first problem ends it.
pub(super) fn check(spec: &Spec) -> Result<(), Problem> {
    check_time(spec)?;
    check_publishers(spec)?;
    check_topic(&spec.topic)?;
    check_cluster(&spec.cluster)?;
    check_failures(&spec.failures, spec.cluster.brokers)
}

impl Problem {
    /// The error, for people.
    pub(super) fn at(self, place: Option<Place>) -> SpecError {
        let Table { name, index } = self.table;
        let table = match index {
            Some(index) => format!("{name}[{}].", index + 1),
            None if name.is_empty() => String::new(),
            None => format!("{name}."),
        };
        SpecError::Value {
            place,
            key: format!("{table}{}", self.key),
            text: self.text,
        }
    }
}

impl Table {
    pub(super) fn named(name: &'static str) -> Self {
        Table { name, index: None }
    }

    pub(super) fn item(name: &'static str, index: usize) -> Self {
        let index = Some(index);
        Table { name, index }
    }

    pub(super) fn problem(self, key: &str, text: impl Into<String>) -> Problem {
        Problem {
            table: self,
            key: key.to_owned(),
            text: text.into(),
        }
    }

    pub(super) fn demand(
        self,
        key: &str,
        holds: bool,
        text: impl FnOnce() -> String,
    ) -> Result<(), Problem> {
        if holds {
            Ok(())
        } else {
            Err(self.problem(key, text()))
        }
    }

    fn whole(self, key: &str, value: u32, least: u32, most: u32) -> Result<(), Problem> {
        self.demand(key, (least..=most).contains(&value), || {
            format!("{value} is out of range: write {least} to {most}")
        })
    }

    /// A rate that is not nothing.
    fn rate(self, key: &str, value: f64, most: f64) -> Result<(), Problem> {
        // NaN is in no range.
        self.demand(key, value >= MIN_RATE && value <= most, || {
            format!("{value} is not a rate: write messages per second, {MIN_RATE} to {most}")
        })
    }

    fn span(self, key: &str, value: Duration) -> Result<(), Problem> {
        self.demand(key, value <= MAX_SPAN, || {
            format!("{} is more than a day", DurationText(value))
        })
    }

    fn positive_span(self, key: &str, value: Duration) -> Result<(), Problem> {
        self.demand(key, !value.is_zero(), || {
            String::from("must be longer than 0, as in \"10s\"")
        })?;
        self.span(key, value)
    }

    fn word(self, key: &str, value: &str, known: &[&str]) -> Result<(), Problem> {
        self.demand(key, known.contains(&value), || {
            format!("{value:?} is unknown: write one of {}", known.join(", "))
        })
    }
}

fn check_time(spec: &Spec) -> Result<(), Problem> {
    let top = Table::named("");
    top.positive_span("duration", spec.duration)?;
    top.span("warmup", spec.warmup)?;
    let length = spec.warmup + spec.duration;
    top.demand("warmup", length <= MAX_SPAN, || {
        format!(
            "warmup and duration are {} together: at most a day",
            DurationText(length)
        )
    })
}

fn check_publishers(spec: &Spec) -> Result<(), Problem> {
    let classes = spec.publishers.len();
    Table::named("").demand("publishers", (1..=MAX_CLASSES).contains(&classes), || {
        if classes == 0 {
            String::from("nobody publishes: write [[publishers]] with count = 10, rate = 10")
        } else {
            format!("{classes} classes: at most {MAX_CLASSES}")
        }
    })?;
    let (mut names, mut total) = (HashSet::new(), 0);
    for (index, class) in spec.publishers.iter().enumerate() {
        let table = Table::item("publishers", index);
        check_name(table, &class.name)?;
        let is_new = class.name.is_empty() || names.insert(class.name.as_str());
        table.demand("name", is_new, || {
            let number = spec.publishers.iter().position(|c| c.name == class.name);
            let number = number.map_or(0, |at| at + 1);
            format!(
                "publishers[{number}] has the same name, {:?}: choose another",
                class.name
            )
        })?;
        table.whole("count", class.count, 1, MAX_PUBLISHERS)?;
        total += class.count;
        table.demand("count", total <= MAX_PUBLISHERS, || {
            format!("{total} publishers, counted up to this class: at most {MAX_PUBLISHERS} in all classes")
        })?;
        check_class(table, class)?;
    }
    Ok(())
}

fn check_name(table: Table, name: &str) -> Result<(), Problem> {
    table.demand("name", name.len() <= 64, || {
        format!("the name has {} bytes: use at most 64", name.len())
    })?;
    table.demand("name", !name.chars().any(char::is_control), || {
        String::from("the name has control characters: remove them")
    })
}

fn check_class(table: Table, class: &Class) -> Result<(), Problem> {
    table.rate("rate", class.rate, MAX_RATE)?;
    table.whole(
        "batch",
        u32::from(class.batch_messages),
        1,
        u32::from(u16::MAX),
    )?;
    table.whole("bytes", class.body_bytes, 1, MAX_BODY_BYTES)?;
    table.demand("group", class.group_publishers > 0, || {
        String::from("a group of 0 publishers is empty: write 1 for publishers without a group")
    })?;
    table.demand("group", class.group_publishers <= class.count, || {
        format!(
            "a group of {} has more members than there are publishers ({})",
            class.group_publishers, class.count
        )
    })?;
    if let Some(ramp) = &class.ramp {
        check_ramp(table, class.rate, ramp)?;
    }
    check_spread(table, class)?;
    check_pauses(table, class)
}

fn check_ramp(table: Table, rate: f64, ramp: &Ramp) -> Result<(), Problem> {
    for (key, multiple) in [("ramp.from", ramp.from), ("ramp.to", ramp.to)] {
        table.demand(key, multiple >= 0.0 && multiple.is_finite(), || {
            format!("{multiple} is not a multiple of the rate: write 0 or more")
        })?;
        table.demand(key, rate * multiple <= MAX_RATE, || {
            format!("{multiple} times the rate is more than {MAX_RATE} messages per second")
        })?;
    }
    table.demand("ramp", ramp.from > 0.0 || ramp.to > 0.0, || {
        String::from("both are 0, so nobody would publish: write a number above 0 for one of them")
    })?;
    table.positive_span("ramp.over", ramp.over)
}

fn check_spread(table: Table, class: &Class) -> Result<(), Problem> {
    if class.spread.is_zero() {
        return Ok(());
    }
    table.span("spread", class.spread)?;
    table.demand("spread", class.group_publishers > 1, || {
        String::from("there are no groups to spread: write `group` too, or remove it")
    })?;
    let fastest = class.ramp.map_or(1.0, |ramp| ramp.from.max(ramp.to));
    let gap_s = f64::from(class.batch_messages) / (class.rate * fastest);
    // Rounding alone must not refuse a spread as long as the gap.
    let fits = class.spread.as_secs_f64() <= gap_s * (1.0 + 1e-9);
    table.demand("spread", fits, || {
        format!(
            "{} is longer than the mean time between two sends of a group, {:.6} s (batch / rate)",
            DurationText(class.spread),
            gap_s
        )
    })
}

fn check_pauses(table: Table, class: &Class) -> Result<(), Problem> {
    let (on, off) = (class.on, class.off);
    if on.is_zero() && off.is_zero() {
        return Ok(());
    }
    let alone = |other: &str| format!("it needs `{other}`: write both or none");
    table.demand("on", !off.is_zero(), || alone("off"))?;
    table.demand("off", !on.is_zero(), || alone("on"))?;
    table.span("on", on)?;
    table.span("off", off)?;
    table.demand("on", on >= MIN_ON, || {
        format!(
            "{} is too short: at least {}",
            DurationText(on),
            DurationText(MIN_ON)
        )
    })?;
    table.demand("off", off <= on * MAX_OFF_PER_ON, || {
        format!("more than {MAX_OFF_PER_ON} times as long as `on`")
    })
}

fn check_topic(topic: &Topic) -> Result<(), Problem> {
    let table = Table::named("topic");
    for (key, is_given) in [
        ("rate", topic.rate.is_some()),
        ("burst", topic.burst.is_some()),
    ] {
        table.demand(key, topic.limited || !is_given, || {
            String::from("the topic is not limited (limited = false): remove one of the two")
        })?;
    }
    if let Some(rate) = topic.rate {
        table.rate("rate", rate, MAX_TOTAL_RATE)?;
    }
    if let Some(burst) = topic.burst {
        let holds = (1.0..=MAX_TOTAL_RATE).contains(&burst);
        table.demand("burst", holds, || {
            format!("{burst} is not a burst: write a number of messages, 1 to {MAX_TOTAL_RATE}")
        })?;
    }
    let headroom = topic.headroom;
    table.demand("headroom", headroom > 0.0 && headroom <= 1e6, || {
        format!("{headroom} is not a multiple of the mean rate: write 1.1, for instance")
    })?;
    let keeps_up = headroom >= 1.0 || topic.rate.is_some() || !topic.limited;
    table.demand("headroom", keeps_up, || {
        format!(
            "a limit of {headroom} times the mean rate is below the load: write 1 or more, or a `rate`"
        )
    })?;
    table.positive_span("slo", topic.slo)?;
    let percentile = topic.percentile;
    table.demand("percentile", percentile > 0.0 && percentile < 100.0, || {
        format!("{percentile} is not a percentile: write a number between 0 and 100, as in 99")
    })?;
    table.word("policy", &topic.policy, &POLICIES)?;
    table.word("fit", &topic.fit, &FITS)?;
    table.positive_span("window", topic.window)
}

fn check_cluster(cluster: &Cluster) -> Result<(), Problem> {
    let table = Table::named("cluster");
    table.whole("brokers", cluster.brokers, 1, MAX_BROKERS)?;
    table.whole("cores", cluster.cores, 1, MAX_CORES)?;
    for (key, span) in [
        ("per_message", cluster.per_message),
        ("per_batch", cluster.per_batch),
        ("per_active_connection", cluster.per_active_connection),
        ("base", cluster.base),
    ] {
        table.span(key, span)?;
    }
    if let Some(mcap) = cluster.mcap {
        table.rate("mcap", mcap, MAX_TOTAL_RATE)?;
    }
    let given = cluster.load.len();
    table.demand("load", given <= cluster.brokers as usize, || {
        format!("{given} loads for {} brokers", cluster.brokers)
    })?;
    for (number, load) in (1..).zip(&cluster.load) {
        let holds = (0.0..=MAX_TOTAL_RATE).contains(load);
        table.demand("load", holds, || {
            format!("broker {number}: {load} is not a load: write messages per second, 0 or more")
        })?;
    }
    table.whole(
        "load_batch",
        u32::from(cluster.load_batch),
        1,
        u32::from(u16::MAX),
    )
}

fn check_failures(failures: &[Failure], brokers: u32) -> Result<(), Problem> {
    let number = failures.len();
    Table::named("").demand("failures", number <= MAX_FAILURES, || {
        format!("{number} failures: at most {MAX_FAILURES}")
    })?;
    for (index, failure) in failures.iter().enumerate() {
        let table = Table::item("failures", index);
        table.whole("broker", failure.broker, 1, brokers)?;
        table.span("at", failure.at)?;
        table.span("away", failure.away)?;
        for (other, earlier) in failures[..index].iter().enumerate() {
            let (first, second) = if earlier.at <= failure.at {
                (earlier, failure)
            } else {
                (failure, earlier)
            };
            let is_back = !first.away.is_zero() && first.at + first.away <= second.at;
            table.demand("at", first.broker != second.broker || is_back, || {
                let (broker, other) = (failure.broker, other + 1);
                format!(
                    "broker {broker} would fail while it is away already: see failures[{other}]"
                )
            })?;
        }
    }
    Ok(())
}
