//! To whom a broker that is drained hands over what waits there.

use std::time::Duration;

use super::cluster::Cluster;

impl Cluster {
    fn drain(&mut self, broker: &str) {
        self.core.drain_broker(broker, self.now).expect("known");
        self.tick();
    }

    /// One look at what time brings, and somewhat more.
    fn tick(&mut self) {
        self.run(Duration::from_millis(200));
    }

    /// Last parts of the HTTP hosts that take what waits at a broker.
    fn takers(&self, index: usize) -> String {
        let takers = self.brokers[index].takers.iter();
        let hosts = takers.map(|taker| {
            let host = taker.strip_suffix(":4151").expect("an HTTP address");
            host.strip_prefix("10.0.0.")
                .expect("a broker of these tests")
        });
        hosts.collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn brokers_that_stay_take_the_queues_as_they_come_and_go() {
    let mut cluster = Cluster::new(3);
    cluster.tick();
    let all = |cluster: &Cluster| [0, 1, 2].map(|index| cluster.takers(index));
    assert_eq!(all(&cluster), ["", "", ""], "nobody is drained");
    cluster.drain("b1");
    assert_eq!(all(&cluster), ["2 3", "", ""]);
    cluster.drain("b2");
    assert_eq!(all(&cluster), ["3", "3", ""]);
    cluster.add_broker();
    cluster.tick();
    assert_eq!(all(&cluster), ["3 4", "3 4", ""]);
    cluster.kill(2);
    cluster.run(Duration::from_secs(1));
    assert_eq!(all(&cluster), ["4", "4", ""]);
    let resumed = cluster.core.resume_broker("b1", cluster.now);
    resumed.expect("known");
    cluster.tick();
    assert_eq!(all(&cluster), ["", "1 4", ""]);
}

#[test]
fn the_last_broker_keeps_its_queues() {
    let mut cluster = Cluster::new(1);
    cluster.drain("b1");
    assert_eq!(cluster.takers(0), "");
    cluster.add_broker();
    cluster.tick();
    assert_eq!(cluster.takers(0), "2");
}

#[test]
fn a_broker_that_comes_back_while_it_is_drained_is_told_again() {
    let mut cluster = Cluster::new(2);
    cluster.drain("b1");
    cluster.kill(0);
    cluster.run(Duration::from_secs(1));
    cluster.start(0);
    assert_eq!(cluster.takers(0), "", "it says first what it has");
    cluster.tick();
    assert_eq!(cluster.takers(0), "2");
    cluster.restart_controller();
    cluster.dial(0);
    cluster.dial(1);
    cluster.tick();
    assert_eq!(cluster.takers(0), "2", "the drain outlives the controller");
}

#[test]
fn all_brokers_know_one_pass() {
    let mut cluster = Cluster::new(0);
    cluster.core.set_handover_pass(String::from("secret"));
    cluster.add_broker();
    cluster.add_broker();
    let passes = cluster.brokers.iter().map(|broker| broker.pass.as_deref());
    assert!(passes.eq([Some("secret"), Some("secret")]));
}
