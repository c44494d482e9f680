//! Lease holder and ledger, one rule at a time. What happens when everything goes wrong at once is in
//! `tests/leases`.

use std::time::Duration;

use clock::Instant;

use super::*;
use crate::{Burst, InvalidReport, Limit, Rate, Share, Traffic};

fn at_ms(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn share(rate: f64, burst: f64) -> Share {
    Share {
        rate: Rate::new(rate).expect("in range"),
        burst: Burst::new(burst).expect("in range"),
    }
}

fn limit(rate: f64, burst: f64) -> Limit {
    Limit::messages(rate, burst).expect("valid")
}

fn grant(epoch: u64, seq: u64, answers_report: u64) -> Grant {
    Grant {
        epoch,
        seq,
        share: Some(share(10.0, 4.0)),
        floor: Some(share(5.0, 2.0)),
        ttl_ms: 1000,
        answers_report,
        round: 0,
    }
}

/// A ledger and brokers that report and confirm in order, at instants that the test gives.
struct Cluster {
    ledger: Ledger,
    /// By broker: report number, confirmation, share in force.
    brokers: Vec<(u64, (u64, u64), Option<Share>)>,
}

impl Cluster {
    fn new(limit: Limit, config: LedgerConfig, brokers: u32) -> Self {
        let mut cluster = Cluster {
            ledger: Ledger::new(limit, config, 1),
            brokers: vec![(0, (0, 0), None); brokers as usize],
        };
        for broker in 0..brokers {
            assert!(cluster.ledger.join(broker, at_ms(0)));
        }
        cluster
    }

    /// One broker reports, everyone gets what the ledger then sends; what was sent to whom.
    fn report(&mut self, broker: u32, traffic: (f64, f64), ms: u64) -> Vec<(u32, Option<Share>)> {
        let (number, confirmed, held) = &mut self.brokers[broker as usize];
        *number += 1;
        let report = Report {
            number: *number,
            confirmed: *confirmed,
            held: *held,
            traffic: Traffic::new(traffic.0, traffic.1).expect("sane"),
        };
        assert_eq!(self.ledger.report(broker, &report, at_ms(ms)), Ok(()));
        self.plan(ms)
    }

    fn plan(&mut self, ms: u64) -> Vec<(u32, Option<Share>)> {
        let grants = self.ledger.plan(at_ms(ms));
        assert!(
            self.ledger
                .exposure(at_ms(ms))
                .is_within(self.ledger.limit())
        );
        for (broker, grant) in &grants {
            let (_, confirmed, held) = &mut self.brokers[*broker as usize];
            (*confirmed, *held) = ((grant.epoch, grant.seq), grant.share);
        }
        grants
            .iter()
            .map(|(broker, grant)| (*broker, grant.share))
            .collect()
    }

    /// All brokers report the same traffic every second, in `[from, until)` seconds.
    fn run(&mut self, traffic: &[(f64, f64)], from: u64, until: u64) {
        for second in from..until {
            for (broker, &traffic) in (0..).zip(traffic) {
                self.report(broker, traffic, second * 1000 + u64::from(broker));
            }
        }
    }

    fn shares(&self) -> Vec<Option<Share>> {
        self.brokers.iter().map(|&(.., held)| held).collect()
    }
}

#[test]
fn a_lease_runs_from_the_report_and_ends_in_its_floor() {
    let mut holder = LeaseHolder::new();
    assert_eq!(holder.in_force(at_ms(0)), None);
    assert_eq!(holder.confirmation(), (0, 0));
    holder.report_sent(1, at_ms(100));
    assert!(holder.receive(&grant(3, 7, 1), at_ms(600)));
    assert_eq!(holder.confirmation(), (3, 7));
    assert_eq!(holder.expires_at(), Some(at_ms(1100)));
    assert_eq!(holder.next_change(at_ms(600)), Some(at_ms(1100)));
    assert_eq!(holder.in_force(at_ms(1099)), Some(share(10.0, 4.0)));
    assert_eq!(holder.in_force(at_ms(1100)), Some(share(5.0, 2.0)));
    assert_eq!(holder.floor(), Some(share(5.0, 2.0)));
    assert_eq!(holder.next_change(at_ms(1100)), None);
    // One that arrives after its own end brings its floor only.
    holder.report_sent(2, at_ms(1000));
    let late = Grant {
        floor: None,
        ..grant(3, 8, 2)
    };
    assert!(holder.receive(&late, at_ms(2500)));
    assert_eq!(holder.in_force(at_ms(2500)), None);
}

#[test]
fn what_is_old_unknown_or_from_the_future_is_refused() {
    let mut holder = LeaseHolder::new();
    assert!(
        !holder.receive(&grant(1, 1, 1), at_ms(0)),
        "no report was sent"
    );
    holder.report_sent(1, at_ms(10));
    assert!(!holder.receive(&grant(1, 1, 2), at_ms(10)));
    assert!(holder.receive(&grant(2, 5, 1), at_ms(10)));
    for (epoch, seq) in [(2, 5), (2, 4), (1, 99), (0, 0)] {
        assert!(
            !holder.receive(&grant(epoch, seq, 1), at_ms(10)),
            "{epoch} {seq}"
        );
    }
    assert!(holder.receive(&grant(3, 1, 1), at_ms(10)));
    // A new connection counts anew: what answers the former one is refused.
    holder.report_sent(2, at_ms(20));
    holder.report_sent(1, at_ms(30));
    assert!(!holder.receive(&grant(3, 2, 2), at_ms(30)));
    assert!(holder.receive(&grant(3, 3, 1), at_ms(30)));
    for report in 2..=66 {
        holder.report_sent(report, at_ms(30 + report));
    }
    assert!(
        !holder.receive(&grant(3, 4, 2), at_ms(99)),
        "64 are remembered"
    );
    assert!(holder.receive(&grant(3, 4, 3), at_ms(99)));
}

#[test]
fn grants_survive_json() {
    let json = serde_json::to_string(&grant(1, 2, 3)).expect("numbers");
    let read: Grant = serde_json::from_str(&json).expect("its own text");
    assert_eq!(read, grant(1, 2, 3));
}

#[test]
fn a_lone_broker_has_the_whole_limit_with_its_first_report() {
    let mut cluster = Cluster::new(limit(1000.0, 50.0), LedgerConfig::default(), 1);
    let whole = Some(share(1000.0, 50.0));
    assert_eq!(cluster.plan(0), [], "nothing to answer yet");
    assert_eq!(cluster.report(0, (0.0, 0.0), 10), [(0, whole)]);
    assert_eq!(cluster.plan(20), [], "once is enough");
    assert_eq!(
        cluster.report(0, (9.0, 0.0), 30),
        [(0, whole)],
        "each report renews"
    );
}

#[test]
fn a_newcomer_waits_for_the_shrink_to_be_confirmed() {
    let mut cluster = Cluster::new(limit(1000.0, 50.0), LedgerConfig::default(), 1);
    cluster.report(0, (500.0, 10.0), 0);
    cluster.report(0, (500.0, 10.0), 1000);
    cluster.brokers.push((0, (0, 0), None));
    assert!(cluster.ledger.join(1, at_ms(1100)));
    // The shrink needs no report of its own: the latest is answered again.
    let smaller = Some(share(995.0, 49.0));
    assert_eq!(cluster.plan(1100), [(0, smaller)]);
    assert_eq!(
        cluster.report(1, (0.0, 0.0), 1200),
        [(1, None)],
        "not confirmed yet"
    );
    let sent = cluster.report(0, (500.0, 10.0), 2000);
    assert_eq!(sent, [(0, smaller), (1, Some(share(5.0, 1.0)))]);
}

#[test]
fn shares_follow_the_traffic_but_not_for_five_percent() {
    let mut cluster = Cluster::new(limit(1000.0, 50.0), LedgerConfig::default(), 2);
    cluster.run(&[(300.0, 5.0), (100.0, 15.0)], 0, 4);
    let settled = [Some(share(750.0, 12.5)), Some(share(250.0, 37.5))];
    assert_eq!(cluster.shares(), settled);
    cluster.run(&[(303.0, 5.0), (100.0, 15.0)], 4, 8);
    assert_eq!(cluster.shares(), settled);
    cluster.run(&[(100.0, 15.0), (300.0, 5.0)], 8, 12);
    assert_eq!(cluster.shares(), [settled[1], settled[0]]);
}

#[test]
fn weights_count_in_the_first_window_and_always_when_frozen() {
    for mode in [Mode::Adapting, Mode::Frozen] {
        let config = LedgerConfig {
            mode,
            ..LedgerConfig::default()
        };
        let mut cluster = Cluster::new(limit(1000.0, 50.0), config, 2);
        cluster.ledger.set_weights(&[(0, 3.0), (1, 1.0), (9, 5.0)]);
        let traffic = [(100.0, 10.0), (100.0, 10.0)];
        cluster.run(&traffic, 0, 9);
        let by_weight = [Some(share(750.0, 37.5)), Some(share(250.0, 12.5))];
        assert_eq!(cluster.shares(), by_weight, "{mode:?}");
        cluster.run(&traffic, 9, 14);
        let expected = match mode {
            Mode::Adapting => [Some(share(500.0, 25.0)); 2],
            Mode::Frozen => by_weight,
        };
        assert_eq!(cluster.shares(), expected, "{mode:?}");
        // A third that is placed like the second is expected to need as much.
        cluster.brokers.push((0, (0, 0), None));
        cluster.ledger.join(2, at_ms(14_000));
        cluster
            .ledger
            .set_weights(&[(0, 1.0), (1, 1.0), (2, f64::NAN)]);
        cluster.ledger.set_weights(&[(0, 1.0), (1, 1.0), (2, 2.0)]);
        cluster.run(&[(100.0, 10.0), (100.0, 10.0), (0.0, 0.0)], 14, 17);
        let quarter = Some(share(250.0, 12.5));
        assert_eq!(
            cluster.shares(),
            [quarter, quarter, Some(share(500.0, 25.0))]
        );
    }
}

#[test]
fn of_a_silent_broker_its_floor_stays_reserved_and_of_a_dead_one_nothing() {
    let mut cluster = Cluster::new(limit(1000.0, 48.0), LedgerConfig::default(), 2);
    cluster.run(&[(100.0, 10.0), (100.0, 10.0)], 0, 3);
    assert_eq!(cluster.shares(), [Some(share(500.0, 24.0)); 2]);
    // Broker 1 was last heard at 2,001 ms; its lease has ended everywhere at 7,011 ms.
    for second in 3..8 {
        cluster.report(0, (100.0, 10.0), second * 1000);
    }
    assert_eq!(cluster.shares()[0], Some(share(500.0, 24.0)));
    let at_the_end = cluster.plan(7010);
    assert_eq!(at_the_end, []);
    assert_eq!(cluster.plan(7011), [(0, Some(share(750.0, 36.0)))]);
    assert_eq!(
        cluster.ledger.exposure_of(1, at_ms(7011)),
        Exposure {
            rate: 250.0,
            burst: 12.0
        }
    );
    cluster.ledger.dead(1);
    assert_eq!(cluster.plan(7012), [(0, Some(share(1000.0, 48.0)))]);
    let report = Report::default();
    assert_eq!(
        cluster.ledger.report(1, &report, at_ms(7013)),
        Err(InvalidReport::NotAMember { broker: 1 })
    );
}

#[test]
fn a_leaver_is_forgotten_when_it_has_confirmed() {
    let mut cluster = Cluster::new(limit(1000.0, 50.0), LedgerConfig::default(), 2);
    cluster.run(&[(100.0, 10.0), (100.0, 10.0)], 0, 3);
    cluster.ledger.leave(1);
    assert_eq!(cluster.plan(3000), [(1, None)]);
    assert_eq!(cluster.ledger.exposure(at_ms(3000)).rate, 1000.0);
    let sent = cluster.report(1, (0.0, 0.0), 3001);
    assert_eq!(sent, [(0, Some(share(1000.0, 50.0)))]);
    assert_eq!(
        cluster.ledger.known(at_ms(3001)),
        [(0, Some(share(1000.0, 50.0)))]
    );
}

#[test]
fn a_smaller_limit_is_reached_with_the_confirmations() {
    let mut cluster = Cluster::new(limit(1000.0, 50.0), LedgerConfig::default(), 2);
    cluster.run(&[(100.0, 10.0), (100.0, 10.0)], 0, 3);
    cluster.ledger.set_limit(limit(100.0, 10.0));
    let sent = cluster.ledger.plan(at_ms(3000));
    let smaller = Some(share(50.0, 5.0));
    assert!(sent.iter().all(|(_, grant)| grant.share == smaller));
    assert_eq!(sent.len(), 2);
    assert_eq!(cluster.ledger.exposure(at_ms(3000)).rate, 1000.0);
    for (broker, grant) in sent {
        let report = Report {
            number: 10,
            confirmed: (1, grant.seq),
            held: smaller,
            ..Report::default()
        };
        let got = cluster.ledger.report(broker, &report, at_ms(3100));
        assert_eq!(got, Ok(()));
    }
    let exposed = cluster.ledger.exposure(at_ms(3100));
    assert_eq!((exposed.rate, exposed.burst), (100.0, 10.0));
}

#[test]
fn too_small_a_burst_leaves_brokers_without_a_share_and_says_so() {
    let mut cluster = Cluster::new(limit(100.0, 2.0), LedgerConfig::default(), 3);
    cluster.run(&[(10.0, 1.0), (30.0, 1.0), (20.0, 1.0)], 0, 6);
    let shares = cluster.shares();
    assert_eq!(shares.iter().flatten().count(), 2, "{shares:?}");
    assert_eq!(cluster.ledger.targets().len(), 3);
    let served: f64 = shares.iter().flatten().map(|share| share.rate.get()).sum();
    assert_eq!(served, 100.0);
}

#[test]
fn a_restart_renews_what_is_held_before_anything_moves() {
    let held = [share(700.0, 20.0), share(200.0, 28.0)];
    let known = [(0, Some(held[0])), (1, Some(held[1]))];
    let config = LedgerConfig::default();
    let mut ledger = Ledger::restore(limit(1000.0, 50.0), config, 5, &known, at_ms(0));
    let exposed = ledger.exposure(at_ms(0));
    assert_eq!((exposed.rate, exposed.burst), (900.0, 48.0));
    assert_eq!(ledger.plan(at_ms(0)), []);
    for broker in [0, 1] {
        let report = Report {
            number: 1,
            confirmed: (4, 40),
            held: Some(held[broker as usize]),
            traffic: Traffic::new(100.0, 10.0).expect("sane"),
        };
        let now = at_ms(100 + u64::from(broker));
        assert_eq!(ledger.report(broker, &report, now), Ok(()));
        let sent = ledger.plan(now);
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].1.share, Some(held[broker as usize]));
        assert_eq!((sent[0].1.epoch, sent[0].1.answers_report), (5, 1));
    }
    // Only after a period is the traffic looked at, and then only shrinks are possible before
    // confirmation.
    assert_eq!(ledger.plan(at_ms(1000)), []);
    let sent = ledger.plan(at_ms(1200));
    let shares: Vec<_> = sent.iter().map(|&(to, grant)| (to, grant.share)).collect();
    let (first, second) = (share(500.0, 20.0 + 2.0), share(300.0, 25.0));
    assert_eq!(shares, [(0, Some(first)), (1, Some(second))]);
    assert!(ledger.exposure(at_ms(1200)).is_within(&limit(1000.0, 50.0)));
}

#[test]
fn a_restart_waits_one_ttl_for_those_it_knows() {
    let known = [(0, Some(share(500.0, 25.0))), (1, Some(share(500.0, 25.0)))];
    let config = LedgerConfig::default();
    let mut ledger = Ledger::restore(limit(1000.0, 50.0), config, 2, &known, at_ms(0));
    ledger.join(2, at_ms(0));
    for second in 0..=5u64 {
        for (broker, held) in [(0, known[0].1), (2, None)] {
            let report = Report {
                number: second + 1,
                confirmed: (if broker == 0 { 1 } else { 0 }, 0),
                held,
                ..Report::default()
            };
            let now = at_ms(second * 1000);
            assert_eq!(ledger.report(broker, &report, now), Ok(()));
            for (to, grant) in ledger.plan(now) {
                assert_eq!(grant.share, if to == 0 { held } else { None }, "{second} s");
            }
        }
    }
    // Broker 1 never came: what it may hold stays reserved, the rest is divided.
    let sent = ledger.plan(at_ms(5010));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].1.share, Some(share(250.0, 12.5)));
    assert_eq!(
        ledger.exposure_of(1, at_ms(99_000)),
        Exposure::from(known[1].1)
    );
}

#[test]
fn a_share_that_nobody_knew_of_is_reserved_and_a_later_controller_respected() {
    let mut ledger = Ledger::new(limit(1000.0, 50.0), LedgerConfig::default(), 3);
    ledger.join(0, at_ms(0));
    ledger.join(1, at_ms(0));
    let unknown = Report {
        number: 1,
        confirmed: (2, 9),
        held: Some(share(600.0, 30.0)),
        ..Report::default()
    };
    assert_eq!(ledger.report(0, &unknown, at_ms(0)), Ok(()));
    let newcomer = Report {
        number: 1,
        ..Report::default()
    };
    assert_eq!(ledger.report(1, &newcomer, at_ms(0)), Ok(()));
    let sent = ledger.plan(at_ms(0));
    let shares: Vec<_> = sent.iter().map(|&(to, grant)| (to, grant.share)).collect();
    let second = Some(share(400.0, 20.0));
    assert_eq!(shares, [(0, Some(share(500.0, 25.0))), (1, second)]);
    let superseded = Report {
        number: 2,
        confirmed: (4, 1),
        ..Report::default()
    };
    let error = ledger
        .report(0, &superseded, at_ms(1))
        .expect_err("taken over");
    assert!(error.to_string().contains("another controller"), "{error}");
}

#[test]
fn a_new_connection_counts_anew_and_joins_are_bounded() {
    let mut ledger = Ledger::new(limit(10.0, 5.0), LedgerConfig::default(), 1);
    assert!((0..1024).all(|broker| ledger.join(broker, at_ms(0))));
    assert!(!ledger.join(1024, at_ms(0)));
    assert!(ledger.join(7, at_ms(0)), "it is there already");
    let mut report = Report {
        number: 5,
        ..Report::default()
    };
    assert_eq!(ledger.report(7, &report, at_ms(0)), Ok(()));
    assert_eq!(ledger.plan(at_ms(0)).len(), 1);
    assert_eq!(ledger.report(7, &report, at_ms(1)), Ok(()));
    assert_eq!(ledger.plan(at_ms(1)), [], "the same report once more");
    // The old connection's report is not answered over the new one, whatever changes.
    ledger.reconnected(7, at_ms(2));
    ledger.set_limit(limit(20.0, 5.0));
    assert_eq!(ledger.plan(at_ms(2)), []);
    report.number = 1;
    assert_eq!(ledger.report(7, &report, at_ms(3)), Ok(()));
    let sent = ledger.plan(at_ms(3));
    assert_eq!((sent.len(), sent[0].1.answers_report), (1, 1));
}

#[test]
fn no_floor_means_that_silence_frees_everything() {
    let config = LedgerConfig {
        floor_fraction: 0.0,
        ttl: Duration::from_secs(2),
        ..LedgerConfig::default()
    };
    let mut cluster = Cluster::new(limit(1000.0, 50.0), config, 1);
    let sent = cluster.report(0, (1.0, 1.0), 0);
    assert_eq!(sent.len(), 1);
    assert_eq!(cluster.ledger.exposure(at_ms(2009)).rate, 1000.0);
    assert_eq!(cluster.ledger.exposure(at_ms(2010)), Exposure::default());
}

#[test]
fn a_slow_clock_outlives_no_reservation() {
    let config = LedgerConfig::default();
    let mut ledger = Ledger::new(limit(1000.0, 50.0), config, 1);
    let mut holder = LeaseHolder::new();
    ledger.join(0, at_ms(0));
    // The report arrives the instant it is sent; the broker's clock loses 9 ms in 5 s.
    let report = Report {
        number: 1,
        ..Report::default()
    };
    let slow = |ns: u64| Instant::from_nanos(ns - ns / 5000 * 9);
    holder.report_sent(1, slow(0));
    assert_eq!(ledger.report(0, &report, at_ms(0)), Ok(()));
    let (_, grant) = ledger.plan(at_ms(0))[0];
    assert!(holder.receive(&grant, slow(0)));
    let mut floors = 0;
    for ms in 4990..5030 {
        let used = Exposure::from(holder.in_force(slow(ms * 1_000_000)));
        let reserved = ledger.exposure_of(0, at_ms(ms));
        assert!(reserved.covers(used), "{used:?} of {reserved:?} at {ms} ms");
        floors += u32::from(used.rate < 1000.0);
    }
    assert!(floors > 10, "the lease ends in between");
}

#[test]
fn whoever_claims_more_than_there_is_leaves_others_what_they_ask_for() {
    let honest = [(250.0, 10.0), (120.0, 5.0)];
    for lie in [(1e9, 0.0), (1e12, 1e12), (200.0, 1e12), (10_001.0, 1.0)] {
        let limit = Limit::messages(1000.0, 60.0).expect("a limit");
        let mut cluster = Cluster::new(limit, LedgerConfig::default(), 3);
        cluster.run(&[honest[0], honest[1], (200.0, 5.0)], 0, 60);
        cluster.run(&[honest[0], honest[1], lie], 60, 120);
        for (share, (rate, burst)) in cluster.shares().into_iter().zip(honest) {
            let share = share.expect("all have one");
            assert!(share.rate.get() >= rate, "{share} beside {lie:?}");
            assert!(share.burst.get() >= burst, "{share} beside {lie:?}");
        }
    }
}
