//! Shows a configuration to people, as the limiter has understood it.

use std::fmt;

use super::{Branching, Config, Intake, Io, Transport};

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.intake {
            Intake::Tun => {
                for pair in &self.tun {
                    let netns = |netns: &Option<String>| match netns {
                        Some(netns) => format!(" in namespace {netns}"),
                        None => String::new(),
                    };
                    let (inner, outer) = (&pair.inner, &pair.outer);
                    write!(f, "packets:  from {}{}", inner.name, netns(&inner.netns))?;
                    writeln!(f, " to {}{} and back", outer.name, netns(&outer.netns))?;
                }
                let io = match self.io {
                    Io::Auto => {
                        "many at once by io_uring, or one by one where io_uring cannot be used"
                    }
                    Io::Uring => "many at once by io_uring",
                    Io::Plain => "one by one",
                };
                writeln!(f, "moved:    {io}")?;
            }
            Intake::Nfqueue => {
                for queue in &self.nfqueue {
                    writeln!(f, "packets:  of NFQUEUE number {}", queue.number)?;
                }
            }
        }
        let here = self.site.len();
        writeln!(f, "sites:    {here} here, {} in all", self.limiters())?;
        self.show_classes(f)?;
        self.show_gossip(f)?;
        if let Some(emulate) = &self.emulate {
            let link = emulate
                .link
                .map_or("no link rate".to_owned(), |link| format!("{link} links"));
            writeln!(
                f,
                "emulated: {} µs each way, {} other paths, {link}, {} bottlenecks",
                emulate.delay_us,
                emulate.path.len(),
                emulate.bottleneck.len()
            )?;
        }
        if let Some(http) = self.http {
            writeln!(f, "http:     {http}")?;
        }
        if let Some(record) = &self.record {
            writeln!(
                f,
                "record:   {} each {} ms",
                record.display(),
                self.record_interval_ms
            )?;
        }
        Ok(())
    }
}

impl Config {
    fn show_classes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for class in &self.class {
            match &class.limit {
                Some(limit) => writeln!(
                    f,
                    "class:    {}: {}, bursts of {} bytes, shared by {}",
                    class.name, limit.rate, limit.burst_bytes, limit.policy
                )?,
                None => writeln!(f, "class:    {}: passes", class.name)?,
            }
        }
        writeln!(f, "class:    everything else passes")
    }

    fn show_gossip(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gossip = &self.gossip;
        let transport = match gossip.transport {
            Transport::Udp => "UDP",
            Transport::Memory => "memory",
        };
        let branches = match gossip.branches {
            Branching::Random(branches) => format!("{branches} others at random"),
            Branching::Mesh(_) => "all others".to_owned(),
        };
        writeln!(
            f,
            "gossip:   by {transport} to {branches}, each {} ms",
            gossip.interval_ms
        )
    }
}
