//! Ways of sharing a topic's limit over brokers, compared: who gets how much, what passes in all,
//! how long messages wait, and what brokers say to each other and to the controller for it.

mod greedy;
mod shifting;

use limit::{JudgedBy, Limit, OnExceed, SharePolicy};
use serde::Serialize;

pub(super) use greedy::Parts;

use super::{ClusterOptions, TOPIC, all_hold};
use crate::cluster::Cluster;
use crate::judged::{Judged, unmet};
use bench::BenchError;

/// A way of sharing.
#[derive(Clone, Copy, Debug, Serialize)]
struct Way {
    name: &'static str,
    policy: SharePolicy,
    /// With leases: whether they follow traffic.
    adaptor: bool,
    on_exceed: OnExceed,
}

/// First who gets how much of traffic that never ends, then how each way follows traffic that shifts.
pub(super) fn check(options: &ClusterOptions) -> Result<(), BenchError> {
    let parts = greedy::measure(options)?;
    println!("{parts:#?}");
    options.keep(Parts::KIND, &greedy::workload(), &parts)?;
    println!("{}", shifting::Row::head());
    for way in shifting::WAYS {
        let row = shifting::measure(options, way)?;
        println!("{row}");
        options.keep("cluster-sharing", &shifting::workload(options), &row)?;
    }
    all_hold(unmet(&parts))
}

fn limit(options: &ClusterOptions, way: Way) -> Result<Limit, BenchError> {
    let limit = Limit {
        sharing: way.policy,
        on_exceed: way.on_exceed,
        // What a late broker does to a limit is measured elsewhere.
        judged_by: JudgedBy::Release,
        ..options.limit()?
    };
    limit
        .checked()
        .map_err(|error| BenchError::Options(error.to_string()))
}

/// Sum over all brokers of the series that begin so.
fn total(cluster: &Cluster, series: &str) -> f64 {
    let brokers = cluster.brokers.iter();
    let pages = brokers.filter_map(|broker| broker.port().metrics().ok());
    pages.map(|page| sum_of(&page, series)).sum()
}

fn sum_of(page: &str, series: &str) -> f64 {
    let lines = page.lines().filter(|line| line.starts_with(series));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_added_up_over_their_labels() {
        let page = "# HELP a_total x\na_total{k=\"1\"} 2.0\na_total{k=\"2\"} 3.5\nab 7.0\n";
        assert_eq!(sum_of(page, "a_total"), 5.5);
        assert_eq!(sum_of(page, "c"), 0.0);
    }
}
