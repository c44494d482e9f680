//! A topic's declaration: the contract that brokers keep, and the fields for the controller.
//!
//! In JSON it is one object, in which the fields of the contract stand beside the others.

use limit::Limit;
use link::Contract;
use placement::{Mode, Policy};
use serde::{Deserialize, Serialize};

use super::Slo;

/// A topic's declaration: body of `PUT /v1/topics/{t}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Declared", into = "Declared")]
pub struct TopicSpec {
    /// What of it brokers keep: the limit (r, b) over the whole cluster, the part of a broker's time, what becomes of a full
    /// channel.
    pub contract: Contract,
    /// The promise.
    pub slo: Option<Slo>,
    /// How publishers are distributed.
    pub policy: Policy,
    /// How the distribution is fitted to the promise.
    pub fit: Mode,
    /// Find correlation groups from arrival traces where publishers name none.
    pub infer_groups: bool,
}

impl TopicSpec {
    /// Of a contract, with nothing promised.
    #[must_use]
    pub fn of_contract(contract: Contract) -> TopicSpec {
        TopicSpec {
            contract,
            ..TopicSpec::default()
        }
    }

    /// Of a limit alone.
    #[must_use]
    pub fn of_limit(limit: Limit) -> TopicSpec {
        TopicSpec::of_contract(Contract::of_limit(limit))
    }
}

/// A topic's declaration: body of `PUT /v1/topics/{t}`. What is left out is taken from the default, not from
/// the former declaration.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename = "TopicSpec", deny_unknown_fields)]
struct Declared {
    /// The limit (r, b) over the whole cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    limit: Option<Limit>,
    /// The promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    slo: Option<Slo>,
    /// Part of the time of each thread of a broker, above 0 and at most 1, that it is entitled to. Left out:
    /// an equal part of what others leave.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "link::cpu_share"
    )]
    #[cfg_attr(feature = "schema", schema(value_type = Option<f64>))]
    cpu_share: Option<kernel::CpuShare>,
    /// What becomes of a full channel: `block` (publishers wait) or `drop_oldest`. Left out: a channel without a consumer for
    /// long drops its oldest, one with consumers blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    on_full: Option<link::OnFull>,
    /// Where a message is once its publisher hears that it was accepted: `memory`, `disk` (it outlives the broker) or `fsync`
    /// (it outlives the machine).
    #[serde(default, skip_serializing_if = "link::Durability::is_memory")]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    durability: link::Durability,
    /// How publishers are distributed.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    policy: Policy,
    /// How the distribution is fitted to the promise.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    fit: Mode,
    /// Find correlation groups from arrival traces where publishers name none.
    #[serde(default)]
    infer_groups: bool,
}

impl From<Declared> for TopicSpec {
    fn from(declared: Declared) -> TopicSpec {
        let Declared {
            limit,
            slo,
            cpu_share,
            on_full,
            durability,
            policy,
            fit,
            infer_groups,
        } = declared;
        TopicSpec {
            contract: Contract {
                limit,
                cpu_share,
                on_full,
                durability,
            },
            slo,
            policy,
            fit,
            infer_groups,
        }
    }
}

impl From<TopicSpec> for Declared {
    fn from(spec: TopicSpec) -> Declared {
        let TopicSpec {
            contract,
            slo,
            policy,
            fit,
            infer_groups,
        } = spec;
        let Contract {
            limit,
            cpu_share,
            on_full,
            durability,
        } = contract;
        Declared {
            limit,
            slo,
            cpu_share,
            on_full,
            durability,
            policy,
            fit,
            infer_groups,
        }
    }
}

#[cfg(feature = "schema")]
impl utoipa::PartialSchema for TopicSpec {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        Declared::schema()
    }
}

#[cfg(feature = "schema")]
impl utoipa::ToSchema for TopicSpec {
    fn schemas(
        schemas: &mut Vec<(
            String,
            utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>,
        )>,
    ) {
        Declared::schemas(schemas);
    }
}
