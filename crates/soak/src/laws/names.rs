//! An epoch belongs to one life of the controller, a life to one process of one broker, a name to one identity that lives.

use std::collections::BTreeMap;

use link::Identity;

/// A process of a broker, as it stands outside: place, and which process there.
pub type Process = (usize, u64);

/// The books.
#[derive(Debug, Default)]
pub struct Names {
    /// Lives of the controller by epoch.
    epochs: BTreeMap<u64, u64>,
    /// Processes by the life that they were given.
    lives: BTreeMap<u64, Process>,
    /// The living processes welcomed under each name.
    owners: BTreeMap<String, BTreeMap<Process, Identity>>,
}

impl Names {
    /// A controller in its `controller`-th life speaks of itself as in `epoch`.
    ///
    /// # Errors
    /// That is somebody else's.
    pub fn began(&mut self, epoch: u64, controller: u64) -> Result<(), String> {
        let owner = *self.epochs.entry(epoch).or_insert(controller);
        if owner != controller {
            return Err(format!(
                "epoch {epoch} was one of the controller's life {owner}, and is of life {controller}"
            ));
        }
        let mut later = self.epochs.range(epoch + 1..);
        if let Some((later, other)) = later.find(|(_, other)| **other < controller) {
            return Err(format!(
                "epoch {epoch} of life {controller} is before {later} of life {other}"
            ));
        }
        Ok(())
    }

    /// The process `to` was welcomed under a name, as the `life`-th life.
    ///
    /// # Errors
    /// One of them belongs to somebody else.
    pub fn welcomed(
        &mut self,
        (name, identity): (&str, Identity),
        (life, to): (u64, Process),
    ) -> Result<(), String> {
        let process = *self.lives.entry(life).or_insert(to);
        if process != to {
            return Err(format!("life {life} is of {process:?} and of {to:?}"));
        }
        let owners = self.owners.entry(name.to_owned()).or_default();
        owners.insert(to, identity);
        let mut others = owners.iter().filter(|(_, other)| **other != identity);
        match others.next() {
            None => Ok(()),
            Some((other, _)) => Err(format!(
                "the name {name} was given to {to:?} while {other:?} lives"
            )),
        }
    }

    /// A process is gone.
    pub fn gone(&mut self, process: Process) {
        for owners in self.owners.values_mut() {
            owners.remove(&process);
        }
    }
}
