//! A calibration in words.

use std::fmt;

use super::calibration::{Calibration, Needed, TaskCalibration};
use super::measured::TaskMeasured;

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<16} {:>7} {:>10} {:>10} {:>7} {:>10} {:>10} {:>10} {:>10} {:>10}  WANTED",
            "TASK", "SHARE", "LAMBDA/s", "MU_J/s", "RHO", "M/M/1", "RESPONSE", "WAIT", "P99", "MAX"
        )?;
        for (task, measured) in self.tasks.iter().zip(&self.measured.tasks) {
            writeln!(f, "{}", line(task, measured))?;
        }
        writeln!(
            f,
            "M/M/1: mean response at the guaranteed rate; RESPONSE, WAIT, P99, MAX: simulated, from arrival to the end and to \
             the beginning of service"
        )?;
        for (task, measured) in self.tasks.iter().zip(&self.measured.tasks) {
            for remark in remarks(task, measured) {
                writeln!(f, "{}: {remark}", task.name)?;
            }
        }
        if self.measured.demand_periods_max <= 1.0 {
            writeln!(
                f,
                "no window of a period's length brought more work than one thread does in it: no event can wait longer than a period"
            )?;
        }
        if self.largest_share < 1.0 {
            writeln!(
                f,
                "with these threads one task gets at most {:.3} of all scheduling time",
                self.largest_share
            )?;
        }
        Ok(())
    }
}

fn line(task: &TaskCalibration, measured: &TaskMeasured) -> String {
    format!(
        "{:<16} {:>7.3} {:>10.1} {:>10.1} {:>7.3} {:>10} {:>10} {:>10} {:>10} {:>10}  {}",
        task.name,
        task.share,
        task.arrival_rate,
        task.guaranteed_rate,
        task.intensity,
        task.mm1_response_us
            .map_or_else(|| String::from("unstable"), time),
        time(measured.response.mean_us),
        time(measured.wait.mean_us),
        time(measured.wait.p99_us),
        time(measured.wait.max_us),
        wanted(task)
    )
}

fn wanted(task: &TaskCalibration) -> String {
    let (Some(want_us), Some(needed)) = (task.want_wait_us, &task.needed) else {
        return String::from("-");
    };
    let want = time(want_us);
    match needed {
        Needed {
            share: Some(share),
            wait_us: Some(wait_us),
            ..
        } => format!("{want}: share {share:.3} ({})", time(*wait_us)),
        Needed {
            wait_us: Some(wait_us),
            why,
            ..
        } => format!(
            "{want}: infeasible, {} at best; {}",
            time(*wait_us),
            why.as_deref().unwrap_or_default()
        ),
        Needed { why, .. } => format!(
            "{want}: infeasible, never stable; {}",
            why.as_deref().unwrap_or_default()
        ),
    }
}

fn remarks(task: &TaskCalibration, measured: &TaskMeasured) -> Vec<String> {
    let mut remarks = Vec::new();
    if measured.unstable {
        remarks.push(String::from(
            "unstable: its queue did not empty for a hundred periods",
        ));
    }
    if measured.dropped > 0 {
        remarks.push(format!(
            "{} of {} events dropped",
            measured.dropped, measured.arrived
        ));
    }
    if measured.blocked_s > 0.0 {
        remarks.push(format!(
            "its writer waited {:.3} s for room",
            measured.blocked_s
        ));
    }
    if measured.overruns > 0 {
        remarks.push(format!(
            "not conformant: {} overruns, {} at most",
            measured.overruns,
            time(measured.overrun_max_us)
        ));
    }
    if measured.demand_periods_max > task.share {
        remarks.push(format!(
            "up to {:.3} of a period's work comes within one period, but its share is {:.3}: its events may wait longer than a period",
            measured.demand_periods_max, task.share
        ));
    }
    if let Some(bound_us) = task.wait_bound_us {
        remarks.push(format!(
            "an event that finds its task's queue empty waits {} at most, whatever other tasks do",
            time(bound_us)
        ));
    }
    remarks
}

fn time(us: f64) -> String {
    match us {
        us if us < 1_000.0 => format!("{us:.1}us"),
        us if us < 1_000_000.0 => format!("{:.2}ms", us / 1e3),
        us => format!("{:.2}s", us / 1e6),
    }
}
