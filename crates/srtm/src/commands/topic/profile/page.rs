//! Findings as text and as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use limit::{AccessDelays, UnderLimit};
use serde_json::{Value, json};

use super::Findings;
use crate::duration::GoDuration;

/// Percentiles that are told beside the one that was asked for.
const PERCENTILES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 100.0];

impl Findings {
    pub(super) fn page(&self) -> String {
        let Findings {
            topic,
            question,
            advice,
            ..
        } = self;
        let profile = &advice.profile;
        let mut page = format!("topic     {topic}\n");
        let _ = writeln!(
            page,
            "recorded  {:.3} s: {} messages in {} sends of {} publishers, {:.3} msg/s",
            profile.seconds, profile.messages, self.sends, self.publishers, profile.mean_rate
        );
        let _ = writeln!(
            page,
            "limit     {}/s, burst {}: {} times the mean rate, and {} % of the messages wait {}",
            profile.rate,
            profile.burst,
            question.headroom,
            question.percentile,
            wait(question.target)
        );
        let _ = writeln!(
            page,
            "          srtm topic set {topic} --rate {} --burst {}\n",
            profile.rate, profile.burst
        );
        let _ = write!(page, "{:<32}", "ACCESS DELAY UNDER");
        for percentile in PERCENTILES {
            let head = if percentile == 100.0 {
                String::from("MAX")
            } else {
                format!("P{percentile}")
            };
            let _ = write!(page, " {head:>11}");
        }
        page += "        MEAN  WAITING\n";
        if let Some(judged) = &advice.in_force {
            page += &line("the limit in force", judged);
        }
        page += &line("the fitted one", &advice.fitted);
        page
    }

    pub(super) fn json(&self) -> Value {
        let Findings {
            question, advice, ..
        } = self;
        let profile = &advice.profile;
        json!({
            "topic": self.topic.as_str(),
            "publishers": self.publishers,
            "sends": self.sends,
            "messages": profile.messages,
            "seconds": profile.seconds,
            "mean_rate": profile.mean_rate,
            "headroom": question.headroom,
            "percentile": question.percentile,
            "target_us": microseconds(question.target),
            "rate": profile.rate,
            "burst": profile.burst,
            "fitted": under(&advice.fitted),
            "in_force": advice.in_force.as_ref().map(under),
        })
    }
}

/// What traffic waits under a limit.
fn under(limit: &UnderLimit) -> Value {
    let delay = |delays: &AccessDelays| {
        let at = |percentile| microseconds(delays.percentile(percentile));
        json!({
            "p50_us": at(50.0),
            "p90_us": at(90.0),
            "p99_us": at(99.0),
            "p999_us": at(99.9),
            "max_us": at(100.0),
            "mean_us": delays.mean_s() * 1e6,
            "waiting": delays.delayed(),
        })
    };
    json!({
        "rate": limit.rate,
        "burst": limit.burst,
        "access_delay": limit.delays.as_ref().map(delay),
    })
}

fn line(name: &str, judged: &UnderLimit) -> String {
    let limit = format!("{name}, {:.1}/s {}", judged.rate.get(), judged.burst);
    let mut line = format!("{limit:<32}");
    let Some(delays) = &judged.delays else {
        return line + " more messages wait than this program can keep\n";
    };
    for percentile in PERCENTILES {
        let _ = write!(line, " {:>11}", milliseconds(delays.percentile(percentile)));
    }
    let waiting = 100.0 * delays.delayed() as f64 / delays.messages().max(1) as f64;
    let mean = Duration::from_secs_f64(delays.mean_s());
    let _ = writeln!(line, " {:>11} {waiting:>6.2} %", milliseconds(mean));
    line
}

fn wait(target: Duration) -> String {
    if target.is_zero() {
        String::from("for no token")
    } else {
        format!("for tokens no longer than {}", GoDuration(target))
    }
}

fn milliseconds(delay: Duration) -> String {
    format!("{:.3} ms", delay.as_secs_f64() * 1e3)
}

fn microseconds(delay: Duration) -> f64 {
    delay.as_nanos() as f64 / 1e3
}
