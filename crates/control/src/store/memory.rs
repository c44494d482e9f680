//! A store in memory: a restart loses everything.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Change, Store, Table};
use crate::ControlError;

/// Records in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore(BTreeMap<(Table, String), Value>);

impl Store for MemoryStore {
    fn load(&self, table: Table) -> Result<Vec<(String, Value)>, ControlError> {
        let of_table = self.0.iter().filter(|((of, _), _)| *of == table);
        Ok(of_table
            .map(|((_, key), value)| (key.clone(), value.clone()))
            .collect())
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), ControlError> {
        for Change { table, key, value } in changes {
            let key = (*table, key.clone());
            match value {
                Some(value) => self.0.insert(key, value.clone()),
                None => self.0.remove(&key),
            };
        }
        Ok(())
    }
}
