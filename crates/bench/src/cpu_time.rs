//! CPU time of the broker under test, and of the core it runs on.
//!
//! The broker's time comes from its process clock: nanoseconds, all threads. The core's time comes from `/proc/stat`:
//! coarse (ticks), but it shows whether somebody else ran there or the hypervisor took the core away.

use std::fs;

use serde::Serialize;

use crate::error::BenchError;
use crate::sys;

/// The times of one core, in ticks since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CoreTicks {
    busy: u64,
    idle: u64,
    stolen: u64,
}

/// A reading of the clocks of a process and of a core.
#[derive(Debug, Clone, Copy)]
pub struct CpuReading {
    process_ns: u64,
    core: CoreTicks,
}

/// CPU time used between two readings.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize)]
pub struct CpuUse {
    /// CPU time of the broker's process in microseconds.
    pub process_us: f64,
    /// Part of the time that the broker's core was busy, with anything; 0 to 1.
    pub core_busy: f64,
    /// Part of the time that the hypervisor gave the broker's core to somebody else; 0 to 1.
    pub core_stolen: f64,
}

impl CpuReading {
    /// Reads both clocks.
    ///
    /// # Errors
    /// When there is no such process or core.
    pub fn take(pid: u32, core: usize) -> Result<Self, BenchError> {
        let process_ns = sys::process_cpu_ns(pid)
            .map_err(BenchError::io(format!("CPU time of process {pid}")))?;
        let stat = fs::read_to_string("/proc/stat").map_err(BenchError::io("read /proc/stat"))?;
        let core = parse_core(&stat, core)
            .ok_or_else(|| BenchError::Options(format!("the machine has no core {core}")))?;
        Ok(Self { process_ns, core })
    }

    /// CPU time used since the reading `earlier`.
    pub fn since(&self, earlier: &Self) -> CpuUse {
        let busy = self.core.busy.saturating_sub(earlier.core.busy) as f64;
        let idle = self.core.idle.saturating_sub(earlier.core.idle) as f64;
        let stolen = self.core.stolen.saturating_sub(earlier.core.stolen) as f64;
        let all = (busy + idle + stolen).max(1.0);
        CpuUse {
            process_us: self.process_ns.saturating_sub(earlier.process_ns) as f64 / 1000.0,
            core_busy: busy / all,
            core_stolen: stolen / all,
        }
    }
}

/// The line of a core in `/proc/stat`: user nice system idle iowait irq softirq steal ...
fn parse_core(stat: &str, core: usize) -> Option<CoreTicks> {
    let name = format!("cpu{core}");
    let line = stat
        .lines()
        .find(|line| line.split_ascii_whitespace().next() == Some(&name))?;
    let ticks: Vec<u64> = line
        .split_ascii_whitespace()
        .skip(1)
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    let [
        user,
        nice,
        system,
        idle,
        waiting,
        interrupt,
        soft_interrupt,
        stolen,
    ] = *ticks.first_chunk()?;
    Some(CoreTicks {
        busy: user + nice + system + interrupt + soft_interrupt,
        idle: idle + waiting,
        stolen,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  30 0 30 300 0 0 3 3 0 0\n\
                        cpu0 10 1 10 100 2 1 1 4 0 0\n\
                        cpu1 20 0 20 200 0 0 2 3 0 0\n\
                        cpu10 1 1 1 1 1 1 1 1 0 0\n\
                        intr 12345\n";

    #[test]
    fn finds_the_line_of_the_core() {
        for (core, expected) in [
            (
                0,
                Some(CoreTicks {
                    busy: 23,
                    idle: 102,
                    stolen: 4,
                }),
            ),
            (
                1,
                Some(CoreTicks {
                    busy: 42,
                    idle: 200,
                    stolen: 3,
                }),
            ),
            (
                10,
                Some(CoreTicks {
                    busy: 5,
                    idle: 2,
                    stolen: 1,
                }),
            ),
            (2, None),
        ] {
            assert_eq!(parse_core(STAT, core), expected, "core {core}");
        }
    }

    #[test]
    fn damaged_lines_are_refused() {
        for stat in ["", "cpu0\n", "cpu0 1 2 3\n", "cpu0 a b c d e f g h\n"] {
            assert_eq!(parse_core(stat, 0), None, "{stat:?}");
        }
    }

    #[test]
    fn use_is_the_difference_of_two_readings() {
        let core = |busy, idle, stolen| CoreTicks { busy, idle, stolen };
        let before = CpuReading {
            process_ns: 1_000_000,
            core: core(100, 100, 0),
        };
        let after = CpuReading {
            process_ns: 3_500_000,
            core: core(150, 140, 10),
        };
        let used = after.since(&before);
        assert_eq!(
            used,
            CpuUse {
                process_us: 2500.0,
                core_busy: 0.5,
                core_stolen: 0.1
            }
        );
    }

    #[test]
    fn this_process_uses_cpu_time() {
        let pid = std::process::id();
        let before = sys::process_cpu_ns(pid).expect("this process has a clock");
        let mut sum = 0_u64;
        while sys::process_cpu_ns(pid).expect("this process has a clock") == before {
            sum = sum.wrapping_add(1);
        }
        // Above the largest process number that Linux gives out.
        assert!(sys::process_cpu_ns(1 << 23).is_err());
    }
}
