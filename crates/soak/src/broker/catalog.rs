//! Topics, channels, pauses and contracts over a restart (`broker/catalog_file.rs`, `broker/catalog_file/{keeping,contracts}.rs`).

use std::time::Duration;

use clock::Instant;
use limit::Limit;
use link::OnFull;
use topics::KnownTopic;
use topics::stats::CatalogTopic;
use wire::TopicName;

use super::ground::Ground;
use crate::disk::Folder;

/// Changes of the catalog that follow each other this closely are written once.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// A catalog that could not be written is tried again after so long.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A contract as ordered.
pub(super) struct Contract {
    pub(super) topic: String,
    pub(super) limit: Option<Limit>,
    pub(super) on_full: Option<OnFull>,
    pub(super) number: Option<u16>,
}

/// When the catalog is written next.
#[derive(Debug, Default)]
pub(super) struct Keeping {
    save_at: Option<Instant>,
}

impl Keeping {
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.save_at
    }

    /// Something has changed.
    pub(super) fn changed(&mut self, now: Instant) {
        self.save_at.get_or_insert(now + DEBOUNCE);
    }

    /// Writes the catalog as the table has it, if it is time.
    pub(super) fn drive(&mut self, ground: &Ground, folder: &mut Folder, now: Instant) {
        if self.save_at.is_some_and(|at| at <= now) {
            self.save_at = match folder.save(ground.catalog()) {
                true => None,
                false => Some(now + AGAIN_AFTER),
            };
        }
    }
}

/// Makes what the folder holds.
pub(super) fn restore(ground: &mut Ground, folder: &Folder, now: Instant) {
    let now = ground.local(now);
    let table = &mut ground.table;
    for topic in folder.catalog() {
        let Ok(name) = topic.name.parse::<TopicName>() else {
            continue;
        };
        if let (Some(limit), Ok(key)) = (topic.contract.limit, table.find_or_create(&topic.name)) {
            table.set_shared_limit(key, Some(limit), None, now);
        }
        if let (Some(on_full), Ok(key)) =
            (topic.contract.on_full, table.find_or_create(&topic.name))
        {
            table.set_on_full(key, Some(on_full));
        }
        let channels = topic.channels.iter();
        let channels = channels.filter_map(|each| Some((each.name.parse().ok()?, each.paused)));
        let known = KnownTopic {
            is_paused: topic.paused,
            channels: channels.collect(),
            name,
        };
        let _ = table.learn(&known);
    }
}

/// Puts a contract on disk first, then into force; says whether it is kept. One that cannot be is in force all the same.
///
/// # Errors
/// Why it is not in force.
pub(super) fn declare(
    ground: &mut Ground,
    contract: &Contract,
    folder: &mut Folder,
    now: Instant,
) -> Result<bool, String> {
    let is_kept = is_kept(contract, folder) || write_ahead(ground, contract, folder);
    let Contract {
        topic,
        limit,
        on_full,
        number,
    } = contract;
    let now = ground.local(now);
    let table = &mut ground.table;
    if on_full.is_some() || table.find(topic).is_some() {
        let key = table.find_or_create(topic);
        let key = key.map_err(|refusal| refusal.to_string())?;
        table.set_on_full(key, *on_full);
    }
    let key = match limit {
        Some(_) => Some(
            table
                .find_or_create(topic)
                .map_err(|refusal| refusal.to_string())?,
        ),
        None => table.find(topic),
    };
    if let Some(key) = key {
        table.set_shared_limit(key, *limit, *number, now);
    }
    Ok(is_kept)
}

fn is_kept(contract: &Contract, folder: &Folder) -> bool {
    let mut kept = folder.catalog();
    let kept = kept.find(|kept| kept.name == contract.topic);
    match kept {
        Some(kept) => {
            (kept.contract.limit, kept.contract.on_full) == (contract.limit, contract.on_full)
        }
        None => contract.limit.is_none() && contract.on_full.is_none(),
    }
}

fn write_ahead(ground: &Ground, contract: &Contract, folder: &mut Folder) -> bool {
    let mut topics = ground.catalog();
    let place = topics
        .iter()
        .position(|topic| topic.name == contract.topic)
        .unwrap_or_else(|| {
            topics.push(CatalogTopic {
                name: contract.topic.clone(),
                ..CatalogTopic::default()
            });
            topics.len() - 1
        });
    let kept = &mut topics[place].contract;
    (kept.limit, kept.on_full) = (contract.limit, contract.on_full);
    folder.save(topics)
}
