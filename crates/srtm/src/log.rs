//! Log lines on standard error, at a level that can change while the process runs. All errors are
//! shown; lines of lower levels come only so often, and the rest is counted.

mod repetition;
mod text;

use std::fmt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use broker::http::LogLevel;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::time;
use repetition::Repetition;

/// Reads a level for a `--log-level` flag.
pub(crate) fn parse_level(word: &str) -> Result<LogLevel, String> {
    LogLevel::parse(word)
        .ok_or_else(|| format!("{word:?} is not a level; use debug, info, warn, error or fatal"))
}

/// Starts logging in nsqd's line format, `[nsqd] 2006/01/02 15:04:05.000000 INFO: text` in UTC, behind
/// `prefix`. `level` stays in charge: whoever changes it changes what is logged from then on.
pub(crate) fn start(level: &LogLevel, prefix: &str) {
    let level = level.clone();
    let filter = dynamic_filter_fn(move |metadata, _| is_wanted(metadata, level.number()));
    let format = LOG.get_or_init(|| NsqdLine {
        prefix: prefix.to_owned(),
        started: time::now(),
        repetition: Mutex::new(Repetition::new()),
    });
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .event_format(format)
        .with_filter(filter);
    tracing_subscriber::registry().with(lines).init();
}

/// The process ends: writes how many lines were left out and not told of yet.
pub(crate) fn finish() {
    let Some(log) = LOG.get() else { return };
    let mut text = String::new();
    let untold = log.repetition().untold();
    if log
        .write_left_out(&mut Writer::new(&mut text), untold)
        .is_ok()
    {
        eprint!("{text}");
    }
}

/// The process has one log, as `tracing` has one subscriber.
static LOG: OnceLock<NsqdLine> = OnceLock::new();

/// nsqd's numbers: 1 debug … 4 error; 5, fatal, logs nothing because what is fatal ends the process
/// with a message of its own.
fn is_wanted(metadata: &Metadata<'_>, level: u8) -> bool {
    let least = match *metadata.level() {
        Level::ERROR => 4,
        Level::WARN => 3,
        Level::INFO => 2,
        // Libraries have much to say at these levels, of no use to an operator.
        _ => return level <= 1 && is_ours(metadata.target()),
    };
    level <= least
}

fn is_ours(target: &str) -> bool {
    ["broker", "control", "port", "srtm", "client", "bench"]
        .contains(&target.split("::").next().unwrap_or_default())
}

struct NsqdLine {
    prefix: String,
    started: std::time::Instant,
    repetition: Mutex<Repetition<Place>>,
}

/// Where a line comes from: module and line of the code.
type Place = (&'static str, Option<u32>);

impl NsqdLine {
    /// How many lines of this place were left out before this one, unless it is left out itself.
    fn shows(
        &self,
        metadata: &Metadata<'static>,
        line: &mut Writer<'_>,
    ) -> Result<Option<u64>, fmt::Error> {
        if *metadata.level() == Level::ERROR {
            return Ok(Some(0));
        }
        let since = time::now().saturating_duration_since(self.started);
        let now = clock::Instant::from_nanos(since.as_nanos() as u64);
        let mut repetition = self.repetition();
        let Some(left_out) = repetition.shows((metadata.target(), metadata.line()), now) else {
            return Ok(None);
        };
        self.write_left_out(line, repetition.silent(now))?;
        Ok(Some(left_out))
    }

    fn write_left_out(&self, line: &mut Writer<'_>, places: Vec<(Place, u64)>) -> fmt::Result {
        for ((target, number), left_out) in places {
            let number = number.unwrap_or_default();
            self.begin(line, "WARNING")?;
            writeln!(
                line,
                "left out {left_out} lines of {target}, line {number}: they came too fast"
            )?;
        }
        Ok(())
    }

    fn repetition(&self) -> MutexGuard<'_, Repetition<Place>> {
        self.repetition
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, line: &mut Writer<'_>, level: &str) -> fmt::Result {
        let now = time::unix_time();
        let stamp = go_stamp(now.as_secs(), now.subsec_micros());
        write!(line, "{}{stamp} {level}: ", self.prefix)
    }
}

impl<S, N> FormatEvent<S, N> for &'static NsqdLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut line: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(left_out) = self.shows(event.metadata(), &mut line)? else {
            return Ok(());
        };
        let level = match *event.metadata().level() {
            Level::ERROR => "ERROR",
            Level::WARN => "WARNING",
            Level::INFO => "INFO",
            Level::DEBUG | Level::TRACE => "DEBUG",
        };
        self.begin(&mut line, level)?;
        line.write_str(&text::of(event))?;
        if left_out > 0 {
            write!(
                line,
                " (left out {left_out} similar lines: they came too fast)"
            )?;
        }
        line.write_char('\n')
    }
}

/// `2006/01/02 15:04:05.000000`, UTC.
fn go_stamp(unix_s: u64, micros: u32) -> String {
    let (year, month, day) = civil_date(unix_s / 86_400);
    let (hour, minute, second) = (unix_s / 3600 % 24, unix_s / 60 % 60, unix_s % 60);
    format!("{year:04}/{month:02}/{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}")
}

/// Year, month and day of a day counted from 1 January 1970.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let (mut year, mut day) = (1970, days);
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    (year, month, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_gos() {
        let cases = [
            (0, 0, "1970/01/01 00:00:00.000000"),
            (951_782_400, 1, "2000/02/29 00:00:00.000001"),
            (1_709_251_199, 999_999, "2024/02/29 23:59:59.999999"),
            (1_795_252_916, 389_718, "2026/11/21 09:21:56.389718"),
            (4_107_542_400, 0, "2100/03/01 00:00:00.000000"),
        ];
        for (unix_s, micros, expected) in cases {
            assert_eq!(go_stamp(unix_s, micros), expected);
        }
    }

    #[test]
    fn levels_are_read_or_explained() {
        assert_eq!(parse_level("WARN").map(|level| level.number()), Ok(3));
        assert!(
            parse_level("loud")
                .is_err_and(|text| text.contains("debug, info, warn, error or fatal"))
        );
    }
}
