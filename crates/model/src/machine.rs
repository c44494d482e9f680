//! The machine of a measurement.

use serde::{Deserialize, Serialize};

/// The processor and system of a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Model name of the processor; `unknown` where the system does not tell it.
    pub cpu: String,
    /// Cores that the system sees.
    pub cores: usize,
    /// Version of the kernel.
    pub kernel: String,
}

impl Machine {
    /// The machine whose `/proc/cpuinfo` and `/proc/sys/kernel/osrelease` hold these texts.
    #[must_use]
    pub fn parse(cpu_info: &str, kernel: &str) -> Self {
        let values = |key: &'static str| {
            cpu_info
                .lines()
                .filter_map(|line| line.split_once(':'))
                .filter(move |(name, _)| name.trim() == key)
                .map(|(_, value)| value.trim().to_owned())
        };
        Self {
            cpu: values("model name")
                .next()
                .unwrap_or_else(|| "unknown".to_owned()),
            cores: values("processor").count(),
            kernel: kernel.trim().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_read_from_the_system_files() {
        let cpu_info =
            "processor\t: 0\nmodel name\t: Fast One\n\nprocessor\t: 1\nmodel name\t: Fast One\n";
        let machine = Machine::parse(cpu_info, "6.1\n");
        assert_eq!(
            machine,
            Machine {
                cpu: "Fast One".to_owned(),
                cores: 2,
                kernel: "6.1".to_owned()
            }
        );
        assert_eq!(Machine::parse("", "").cpu, "unknown");
    }
}
