//! Which brokers record a topic, and what limit is in force there.

use api::view::BrokerView;
use limit::{Limit, Share};
use serde::Deserialize;
use serde_json::Value;

use super::super::ProfileFlags;
use crate::error::Failure;
use crate::servers::{client, controller, of_topic};

/// All that record.
#[derive(Debug)]
pub(super) struct Recorders {
    /// Who told of them.
    pub(super) asked: String,
    /// One at least.
    pub(super) brokers: Vec<Recorder>,
    /// What the arrivals of all of them are held to.
    pub(super) limit: Option<Limit>,
}

/// A broker that records.
#[derive(Debug)]
pub(super) struct Recorder {
    /// How it is called in errors.
    pub(super) name: String,
    /// Its HTTP port.
    pub(super) base: String,
}

impl Recorders {
    /// The broker that was named, else all brokers of the controller that live.
    pub(super) fn of(flags: &ProfileFlags) -> Result<Recorders, Failure> {
        match &flags.whom.broker {
            Some(broker) => Recorders::alone(broker, flags),
            None => Recorders::of_controller(&flags.whom.controller, flags),
        }
    }

    fn alone(broker: &str, flags: &ProfileFlags) -> Result<Recorders, Failure> {
        let contract: Value = client(broker, &flags.whom.token)?.get(&of_topic(&flags.name))?;
        let recorder = Recorder {
            name: String::from("the broker"),
            base: broker.to_owned(),
        };
        Ok(Recorders {
            asked: broker.to_owned(),
            brokers: vec![recorder],
            limit: in_force(&contract),
        })
    }

    fn of_controller(url: &str, flags: &ProfileFlags) -> Result<Recorders, Failure> {
        let views = controller(url, &flags.whom.token)?.brokers()?;
        let failed = |reason| Failure::Api {
            url: url.to_owned(),
            reason,
        };
        let brokers = recorders(&views).map_err(failed)?;
        // A topic may have publishers before it has a contract.
        let limit = match client(url, &flags.whom.token)?.get::<Value>(&of_topic(&flags.name)) {
            Err(error) if error.status() == Some(404) => None,
            view => in_force(&view?),
        };
        Ok(Recorders {
            asked: url.to_owned(),
            brokers,
            limit,
        })
    }
}

/// Brokers that may carry something. A silent one does, until it is proved dead: without it the recording
/// would be taken for whole.
fn recorders(views: &[BrokerView]) -> Result<Vec<Recorder>, String> {
    let mut recorders = Vec::with_capacity(views.len());
    for view in views.iter().filter(|view| view.state != "dead") {
        let name = format!("broker {} ({})", view.broker, view.state);
        let http_address = view.http_address.as_deref().unwrap_or_default();
        if http_address.is_empty() {
            return Err(format!(
                "{name} has no HTTP port and cannot record; start it with --http-address"
            ));
        }
        recorders.push(Recorder {
            name,
            base: with_scheme(http_address),
        });
    }
    if recorders.is_empty() {
        return Err(String::from("no broker is alive"));
    }
    Ok(recorders)
}

/// A broker says so where its port is encrypted.
fn with_scheme(address: &str) -> String {
    match address.contains("://") {
        true => address.to_owned(),
        false => format!("http://{address}"),
    }
}

/// The limit of a contract; of one that a controller shares out, the part that this broker holds.
fn in_force(contract: &Value) -> Option<Limit> {
    let limit = Limit::deserialize(&contract["limit"]).ok()?;
    let Some(share) = contract.get("share") else {
        return Some(limit);
    };
    let Share { rate, burst } = Share::deserialize(share).ok()?;
    Some(Limit {
        rate,
        burst,
        ..limit
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_that_are_not_dead_record() {
        let view = |broker: &str, state: &str, http: Option<&str>| BrokerView {
            broker: broker.to_owned(),
            state: state.to_owned(),
            http_address: http.map(str::to_owned),
            ..BrokerView::default()
        };
        let named = |views: &[BrokerView]| {
            let recorders = recorders(views)?;
            let pairs = recorders.into_iter().map(|each| (each.name, each.base));
            Ok::<Vec<_>, String>(pairs.collect())
        };
        let views = [
            view("b1", "up", Some("10.0.0.1:4151")),
            view("b2", "dead", None),
            view("b3", "silent", Some("https://10.0.0.3:4151")),
        ];
        let expected = [
            ("broker b1 (up)", "http://10.0.0.1:4151"),
            ("broker b3 (silent)", "https://10.0.0.3:4151"),
        ];
        let expected = expected.map(|(name, base)| (name.to_owned(), base.to_owned()));
        assert_eq!(named(&views), Ok(expected.to_vec()));
        for (views, text) in [
            (&views[1..2], "no broker is alive"),
            (&[], "no broker is alive"),
            (
                &[view("b4", "draining", None)],
                "broker b4 (draining) has no HTTP port",
            ),
        ] {
            let reason = named(views).expect_err(text);
            assert!(reason.contains(text), "{reason}");
        }
    }

    #[test]
    fn of_a_shared_limit_a_broker_holds_its_share() {
        let limit = json!({"rate": 1000.0, "burst": 50.0});
        let share = json!({"rate": 400.0, "burst": 20.0});
        for (contract, expected) in [
            (json!({ "limit": limit }), Some((1000.0, 50.0))),
            (json!({"limit": limit, "share": share}), Some((400.0, 20.0))),
            (json!({"limit": limit, "share": null}), None),
            (json!({"limit": null}), None),
            (json!({}), None),
        ] {
            let limit = in_force(&contract);
            let pair = limit.map(|limit| (limit.rate.get(), limit.burst.get()));
            assert_eq!(pair, expected, "{contract}");
        }
    }
}
