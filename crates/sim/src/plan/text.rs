//! A plan in words.

use std::fmt;

use super::{ByK, Estimate, Plan};

/// Why it takes as many brokers as it does.
pub(super) fn why(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    if plan.k_fitted < plan.k {
        lines.push(format!(
            "a fit takes {}, which keep the promise on the arrivals of its windows but not on others",
            brokers(plan.k_fitted)
        ));
    }
    let fewer = plan.by_k.iter().filter(|by| by.k < plan.k);
    for by in fewer {
        let verdict = if by.met {
            "would do on these runs, though not on the fit's own windows"
        } else {
            "cannot keep the promise"
        };
        lines.push(format!(
            "{} {verdict}: p{} {} at the worst broker",
            brokers(by.k),
            plan.percentile,
            milliseconds(by.worst)
        ));
    }
    let here = plan.by_k.iter().find(|by| by.k == plan.k);
    if let (Some(here), Some(more)) = (here, plan.by_k.iter().find(|by| by.k > plan.k)) {
        lines.push(penalty(here, more));
    }
    if !plan.met {
        lines.push(match plan.missing {
            missing if missing > 0.0 => format!(
                "{} do not keep the promise: {missing:.0} msg/s fit nowhere",
                brokers(plan.brokers)
            ),
            _ => String::from("no distribution over these brokers keeps the promise"),
        });
    }
    lines
}

/// What one step more of splitting does.
fn penalty(here: &ByK, more: &ByK) -> String {
    let times = more.access_delay.mean / here.access_delay.mean;
    let growth = if times.is_finite() && times > 0.0 {
        format!("{times:.1} times as long")
    } else {
        format!("{:.0} us", more.access_delay.mean)
    };
    format!(
        "over {} messages wait {growth} for tokens ({:.1} % of them instead of {:.1} %)",
        brokers(more.k),
        100.0 * more.delayed,
        100.0 * here.delayed
    )
}

fn brokers(count: usize) -> String {
    match count {
        1 => String::from("1 broker"),
        count => format!("{count} brokers"),
    }
}

fn milliseconds(estimate: Estimate) -> String {
    let Estimate { mean, low, high } = estimate;
    format!(
        "{:.2} ms ({:.2} to {:.2})",
        mean / 1e3,
        low / 1e3,
        high / 1e3
    )
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.verdict(f)?;
        self.brokers_used(f)?;
        self.brokers_by_k(f)?;
        if !self.why.is_empty() {
            writeln!(f, "\nwhy {}:", brokers(self.k))?;
        }
        for line in &self.why {
            writeln!(f, "  {line}")?;
        }
        for answer in &self.what_ifs {
            let verdict = match (answer.met, answer.missing > 0.0) {
                (true, _) => String::from("kept"),
                (false, true) => format!("NOT kept: {:.0} msg/s fit nowhere", answer.missing),
                (false, false) => String::from("NOT kept"),
            };
            let (used, worst) = (brokers(answer.k), milliseconds(answer.worst));
            writeln!(
                f,
                "\nwhat if {}: {used}, {worst}, {verdict}",
                answer.what_if
            )?;
        }
        Ok(())
    }
}

impl Plan {
    fn verdict(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = match (self.rate, self.burst) {
            (Some(rate), Some(burst)) => format!("limit ({rate:.0}/s, {burst:.0})"),
            _ => String::from("no limit"),
        };
        let limit = match self.burst_most {
            Some(most) if Some(most) != self.burst => {
                format!("{limit}, with other arrivals up to {most:.0}")
            }
            _ => limit,
        };
        writeln!(
            f,
            "{} publishers, {:.0} msg/s, {limit}; promise: p{} within {:.2} ms",
            self.publishers,
            self.messages_per_second,
            self.percentile,
            self.slo_us / 1e3
        )?;
        let verdict = match self.met {
            true => "is kept by",
            false => "is NOT kept; best with",
        };
        writeln!(
            f,
            "the promise {verdict} {} of {} (policy {}): p{} {} at the worst broker, {} over all",
            brokers(self.k),
            self.brokers,
            self.policy,
            self.percentile,
            milliseconds(self.worst),
            milliseconds(self.all)
        )?;
        let windows = match self.fit_windows {
            1 => String::from("1 profiling window"),
            windows => format!("{windows} profiling windows"),
        };
        writeln!(f, "a live fit takes {windows}")
    }

    fn brokers_used(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:<7} {:>10} {:>9} {:>11}  P{}",
            "BROKER", "PUBLISHERS", "MSG/S", "OTHER MSG/S", self.percentile
        )?;
        for broker in &self.placement {
            writeln!(
                f,
                "b{:<6} {:>10} {:>9.0} {:>11.0}  {}",
                broker.broker,
                broker.publishers,
                broker.messages_per_second,
                broker.load,
                milliseconds(broker.latency)
            )?;
        }
        Ok(())
    }

    fn brokers_by_k(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:<3} {:>28} {:>21} {:>12} {:>8}",
            "K",
            format!("P{} AT THE WORST BROKER", self.percentile),
            "MEAN WAIT FOR TOKENS",
            "BY THEORY",
            "WAITING"
        )?;
        for by in &self.by_k {
            let theory = match by.access_delay_by_theory_us {
                Some(us) => format!("{us:.0} us"),
                None => String::from("-"),
            };
            writeln!(
                f,
                "{:<3} {:>28} {:>18.0} us {theory:>12} {:>7.1}%  {}",
                by.k,
                milliseconds(by.worst),
                by.access_delay.mean,
                100.0 * by.delayed,
                if by.met { "kept" } else { "" }
            )?;
        }
        Ok(())
    }
}
