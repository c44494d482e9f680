//! Puts the declared contract of a topic into force. [`Handle::declare`] also keeps it.

use std::net::IpAddr;

use kernel::CpuShare;
use link::Contract;
use topics::LimitNumber;
use wire::TopicName;

use super::{Handle, Request};
use crate::BrokerError;

/// A contract of a topic.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredContract {
    /// Against whom the topic counts if it is made; `None`: nobody.
    pub maker: Option<IpAddr>,
    /// The topic; made unless it exists, where anything is declared.
    pub topic: TopicName,
    /// The declared contract.
    pub contract: Contract,
    /// What gossip knows the limit by.
    pub number: Option<LimitNumber>,
}

impl Handle {
    /// Puts a contract into force in place of the former one, all of it or nothing: resizes a limit, takes away what is absent. With
    /// nothing declared the topic must exist.
    ///
    /// # Errors
    /// [`BrokerError::TopicNotFound`] where nothing is declared of a topic that is not there; [`BrokerError::Refused`] where the shares
    /// of all topics would exceed the whole, the topic's home has more topics than can have shares, or no more topics may be made.
    pub async fn set_contract(
        &self,
        topic: TopicName,
        contract: Contract,
    ) -> Result<(), BrokerError> {
        let number = None;
        self.put_into_force(DeclaredContract {
            maker: None,
            topic,
            contract,
            number,
        })
        .await
    }

    /// [`Handle::set_contract`] of a limit that gossip may know by a number.
    ///
    /// # Errors
    /// Those of the same.
    pub(crate) async fn put_into_force(
        &self,
        declared: DeclaredContract,
    ) -> Result<(), BrokerError> {
        let _declaring = self.declaring.lock().await;
        let (topic, share) = (declared.topic.clone(), declared.contract.cpu_share);
        let (home, declared) = (self.home_of(&topic), Box::new(declared));
        self.reactors
            .ask(home, |reply| Request::SetContract(declared, reply))
            .await?;
        self.declare_elsewhere(home, &topic, share).await
    }

    /// Tells all reactors but `home`, which has agreed, which share of their time a topic is entitled to.
    async fn declare_elsewhere(
        &self,
        home: usize,
        topic: &TopicName,
        share: Option<CpuShare>,
    ) -> Result<(), BrokerError> {
        for reactor in (0..self.reactors.count()).filter(|&reactor| reactor != home) {
            self.reactors
                .ask(reactor, |reply| {
                    Request::DeclareShare(topic.clone(), share, reply)
                })
                .await?;
        }
        Ok(())
    }
}
