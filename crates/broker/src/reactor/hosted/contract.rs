//! Puts the contracts of topics into force.

use clock::Instant;
use kernel::CpuShare;
use link::Durability;
use wire::TopicName;

use super::Hosted;
use crate::BrokerError;
use crate::handle::{DeclaredContract, Reply};
use crate::reactor::durable::Undurable;

/// Why a topic cannot be durable on a broker that keeps nothing on disk.
fn no_folder(topic: &TopicName, durability: Durability) -> String {
    format!(
        "{topic}: durability {durability} needs a folder: start the broker with --data-path and with a --disk-budget above 0, or declare \
         durability memory"
    )
}

impl Hosted {
    /// Puts a contract into force. Where the topic becomes durable it is answered once what the topic had is.
    pub(in crate::reactor) fn answer_contract(
        &mut self,
        declared: &DeclaredContract,
        reply: Reply<()>,
        now: Instant,
    ) {
        let set = self.set_contract(declared, now);
        let key = self.table.find(declared.topic.as_str());
        let undurable = key.and_then(|key| Some((key, self.table.undurable(key)?)));
        match undurable.filter(|_| set.is_ok()) {
            Some((key, number)) => self.waiters.push(key, number, Undurable::Request(reply)),
            None => reply.send(set),
        }
    }

    /// The share goes first: it is the one that may be refused.
    fn set_contract(
        &mut self,
        declared: &DeclaredContract,
        now: Instant,
    ) -> Result<(), BrokerError> {
        self.table.make_for(declared.maker, now);
        let set = self.set(declared, now);
        self.table.make_for(None, now);
        set
    }

    fn set(&mut self, declared: &DeclaredContract, now: Instant) -> Result<(), BrokerError> {
        let (topic, contract) = (&declared.topic, declared.contract);
        let durability = contract.durability;
        if !durability.is_memory() && !self.table.may_log() {
            return Err(BrokerError::Refused(no_folder(topic, durability)));
        }
        let is_new = self.table.find(topic.as_str()).is_none();
        if is_new && contract.is_empty() {
            return Err(BrokerError::TopicNotFound(topic.to_string()));
        }
        if !is_new || contract.cpu_share.is_some() {
            let set = self.set_cpu_share(topic, contract.cpu_share);
            if set.is_err()
                && is_new
                && let Some(key) = self.table.find(topic.as_str())
            {
                self.table.delete(key);
            }
            set?;
        }
        let made = self.table.find_or_create(topic.as_str());
        let key = made.map_err(|refusal| BrokerError::Refused(refusal.to_string()))?;
        let (limit, number) = (contract.limit, declared.number);
        self.table.set_on_full(key, contract.on_full);
        self.table.set_durability(key, contract.durability);
        self.table.set_shared_limit(key, limit, number, now);
        Ok(())
    }

    /// Changes the share of this reactor's time that a topic of its own is entitled to; the topic is made if need be.
    fn set_cpu_share(
        &mut self,
        topic: &TopicName,
        share: Option<CpuShare>,
    ) -> Result<(), BrokerError> {
        let not_found = || BrokerError::TopicNotFound(topic.to_string());
        let key = match (self.table.find(topic.as_str()), share) {
            (Some(key), _) => key,
            (None, None) => return Err(not_found()),
            (None, Some(_)) => self
                .table
                .find_or_create(topic.as_str())
                .map_err(|refusal| BrokerError::Refused(refusal.to_string()))?,
        };
        let task = self.task_of(key).ok_or_else(not_found)?;
        if self.table.topic(key).map(|topic| topic.declared.cpu_share) != Some(share) {
            self.schedule
                .set_share(task, share)
                .map_err(|error| BrokerError::Refused(error.to_string()))?;
            self.table.set_cpu_share(key, share);
        }
        Ok(())
    }
}
