//! Names of brokers: who has them, how conflicts heal, and that a broker counts once it has
//! answered.

use std::net::IpAddr;
use std::time::Duration;

use limit::{Limit, SharePolicy};
use link::{Door, Hello, Identity, Present, ToBroker};

use super::all_holdings;
use super::cluster::{Cluster, HOST, TOPIC, promise, settings};
use crate::core::{BROKERS_MAX, Core, DEAD_KEPT, Effect, Probe, ProbeAnswer};
use crate::store::{Change, MemoryStore, Store, Table};
use crate::view::TopicSpec;

pub(super) fn hello(name: &str, identity: u8, life: u64) -> Hello {
    Hello {
        broker: name.to_owned(),
        identity: Identity([identity; 16]),
        life,
        tcp_address: format!("{name}.example:4150"),
        http_address: None,
        gossip_address: None,
        mcap: None,
        model: None,
    }
}

fn states(cluster: &Cluster) -> Vec<(String, String)> {
    let views = cluster.core.broker_views(cluster.now).into_iter();
    views.map(|view| (view.broker, view.state)).collect()
}

fn state(cluster: &Cluster, name: &str) -> Option<String> {
    let mut all = states(cluster).into_iter();
    all.find(|(broker, _)| broker == name)
        .map(|(_, state)| state)
}

/// Says hello; gives what the broker is told: its life, or whether the refusal passes.
fn says(cluster: &mut Cluster, link: u64, hello: &Hello, from: IpAddr) -> Result<u64, bool> {
    let number = cluster.core.hello((link, from), hello, cluster.now);
    let number = number.map_err(|refusal| refusal.passes)?;
    let effects = cluster.core.take_effects();
    let life = effects.iter().find_map(|effect| match effect {
        Effect::Send(to, order) if *to == number => match **order {
            ToBroker::Welcome { life, .. } => Some(life),
            _ => None,
        },
        _ => None,
    });
    Ok(life.expect("welcome"))
}

/// What a probe of the broker finds.
fn finds(cluster: &mut Cluster, name: &str, life: u64, answer: &ProbeAnswer) {
    let probe = Probe {
        broker: cluster.core.brokers.number_of(name).expect("known"),
        life,
        door: Door::Clients,
        address: format!("{name}.example:4150"),
        is_known: false,
    };
    cluster.core.probed(&probe, answer, cluster.now);
}

fn present(name: &str, identity: u8, life: u64) -> ProbeAnswer {
    ProbeAnswer::Present(Present {
        broker: name.to_owned(),
        identity: Identity([identity; 16]),
        life,
    })
}

#[test]
fn lives_are_given_in_turn_and_survive_the_controller() {
    let mut cluster = Cluster::new(0);
    let first = says(&mut cluster, 1, &hello("a", 1, 0), HOST).expect("new");
    let other = says(&mut cluster, 2, &hello("b", 2, 0), HOST).expect("new");
    assert!(other > first && first > 0);
    // The same process on another connection, then another process of the same broker.
    assert_eq!(
        says(&mut cluster, 3, &hello("a", 1, first), HOST),
        Ok(first)
    );
    let second = says(&mut cluster, 4, &hello("a", 1, 0), HOST).expect("started again");
    assert!(second > other);
    let outlived = says(&mut cluster, 5, &hello("a", 1, first), HOST);
    assert_eq!(outlived, Err(false), "its broker was started again since");
    cluster.carry_out();
    cluster.core = Core::restore(settings(), &cluster.kept, cluster.now).expect("kept");
    assert_eq!(
        says(&mut cluster, 6, &hello("a", 1, second), HOST),
        Ok(second)
    );
    let third = says(&mut cluster, 7, &hello("a", 1, 0), HOST).expect("started again");
    assert!(third > second);
    // The controller ends before it could keep that.
    cluster.core = Core::restore(settings(), &cluster.kept, cluster.now).expect("kept");
    let fourth = says(&mut cluster, 8, &hello("a", 1, third), HOST).expect("not outlived");
    assert!(fourth > second);
}

#[test]
fn lives_that_could_not_be_kept_are_given_to_nobody_else() {
    let mut cluster = Cluster::new(0);
    let first = says(&mut cluster, 1, &hello("a", 1, 0), HOST).expect("new");
    cluster.carry_out();
    cluster.is_full = true;
    let unkept = says(&mut cluster, 2, &hello("a", 1, 0), HOST).expect("started again");
    cluster.carry_out();
    cluster.core = Core::restore(settings(), &cluster.kept, cluster.now).expect("kept");
    let other = says(&mut cluster, 3, &hello("b", 2, 0), HOST).expect("new");
    assert!(other > unkept);
    let again = says(&mut cluster, 4, &hello("a", 1, unkept), HOST).expect("it is the latest");
    assert!(again > unkept);
    let outlived = says(&mut cluster, 5, &hello("a", 1, first), HOST);
    assert_eq!(outlived, Err(false));
}

#[test]
fn no_clock_and_no_number_burns_a_name() {
    let mut cluster = Cluster::new(0);
    let life = says(&mut cluster, 1, &hello("a", 1, u64::MAX), HOST)
        .expect("whatever it was told elsewhere");
    assert!(life < u64::MAX);
    cluster.core.link_lost(1, cluster.now);
    cluster
        .core
        .remove_broker("a", cluster.now)
        .expect("unlinked");
    assert_eq!(state(&cluster, "a"), None, "the name is free");
    says(&mut cluster, 2, &hello("a", 2, 0), HOST).expect("another broker has it now");
}

#[test]
fn stores_of_former_releases_are_read() {
    let mut store = MemoryStore::default();
    let record = serde_json::json!({
        "tcp_address": "a.example:4150", "http_address": null, "incarnation": u64::MAX,
        "is_draining": false, "is_dead": false, "mcap": null, "model": null,
    });
    let change = Change {
        table: Table::Brokers,
        key: String::from("a"),
        value: Some(record),
    };
    store.commit(&[change]).expect("memory");
    let mut cluster = Cluster::new(0);
    cluster.core = Core::restore(settings(), &store, cluster.now).expect("understood");
    assert_eq!(state(&cluster, "a").as_deref(), Some("silent"));
    says(&mut cluster, 1, &hello("a", 1, 0), HOST).expect("a clock that was ahead counts no more");
    assert_eq!(
        says(&mut cluster, 2, &hello("a", 2, 0), HOST),
        Err(false),
        "it has an owner now"
    );
}

#[test]
fn a_name_is_its_owners_until_that_one_is_dead_for_certain() {
    let mut cluster = Cluster::new(0);
    let life = says(&mut cluster, 1, &hello("a", 1, 0), HOST).expect("new");
    assert_eq!(says(&mut cluster, 2, &hello("a", 2, 0), HOST), Err(false));
    cluster.core.link_lost(1, cluster.now);
    let passes = says(&mut cluster, 3, &hello("a", 2, 0), HOST);
    assert_eq!(
        passes,
        Err(true),
        "a probe shows soon whether the former is gone"
    );
    for (answer, expected) in [
        (ProbeAnswer::Silence, Err(true)),
        (ProbeAnswer::Open, Err(true)),
        (present("a", 1, life), Err(true)),
        // Whoever has no data folder is another broker after a restart, at the same address.
        (present("a", 2, 0), Ok(())),
    ] {
        finds(&mut cluster, "a", life, &answer);
        let heard = says(&mut cluster, 4, &hello("a", 2, 0), HOST).map(drop);
        assert_eq!(heard, expected, "{answer:?}");
    }
}

#[test]
fn what_a_probe_found_of_a_former_life_says_nothing() {
    let mut cluster = Cluster::new(0);
    let first = says(&mut cluster, 1, &hello("a", 1, 0), HOST).expect("new");
    cluster.core.link_lost(1, cluster.now);
    says(&mut cluster, 2, &hello("a", 1, 0), HOST).expect("started again");
    cluster.core.link_lost(2, cluster.now);
    finds(&mut cluster, "a", first, &ProbeAnswer::Refused);
    assert_eq!(state(&cluster, "a").as_deref(), Some("unreached"));
}

#[test]
fn dead_brokers_do_not_count_and_are_forgotten_in_time() {
    let mut cluster = Cluster::new(0);
    for number in 0..3 * BROKERS_MAX as u64 {
        cluster.now += Duration::from_secs(1);
        let name = format!("b{number}");
        let life = says(&mut cluster, number + 1, &hello(&name, 1, 0), HOST);
        let life = life.unwrap_or_else(|passes| panic!("{name} is refused: {passes}"));
        cluster.core.link_lost(number + 1, cluster.now);
        finds(&mut cluster, &name, life, &ProbeAnswer::Refused);
        cluster.core.tick(cluster.now);
        let _ = cluster.core.take_effects();
    }
    assert_eq!(
        states(&cluster).len(),
        BROKERS_MAX,
        "the longest dead gave way"
    );
    cluster.core.take_changes();
    cluster.now += DEAD_KEPT;
    cluster.core.tick(cluster.now);
    assert_eq!(states(&cluster), Vec::new());
    let gone = cluster.core.take_changes().into_iter();
    let gone = gone.filter(|change| change.table == Table::Brokers && change.value.is_none());
    assert_eq!(
        gone.count(),
        BROKERS_MAX,
        "nor does the store remember them"
    );
}

#[test]
fn one_address_has_a_tenth_of_the_names_unless_it_is_this_machine() {
    let (far, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
    let mut cluster = Cluster::new(0);
    let mut join = |number: usize, from| {
        let name = format!("b{number}");
        says(&mut cluster, number as u64, &hello(&name, 1, 0), from).is_ok()
    };
    let joined = (1..=200).filter(|&number| join(number, far)).count();
    assert_eq!(joined, BROKERS_MAX / 10);
    assert!(join(201, other));
    let rest = BROKERS_MAX - joined - 1;
    assert!((300..300 + rest).all(|number| join(number, HOST)));
    assert!(!join(2000, HOST), "all places are taken");
}

#[test]
fn a_broker_counts_once_it_has_answered() {
    let mut cluster = Cluster::new(1);
    let gossiped = TopicSpec::of_limit(Limit {
        sharing: SharePolicy::Gtb,
        ..Limit::messages(300.0, 30.0).expect("in range")
    });
    cluster
        .core
        .put_topic("gossiped", gossiped, cluster.now)
        .expect("good");
    cluster.workload(20, 10, promise(3000.0, 300.0, 1e6));
    cluster.run(Duration::from_secs(2));
    let counted = |cluster: &Cluster| {
        let holdings = all_holdings(&cluster.core, cluster.now);
        let sharers = cluster.brokers[0].sharers.as_ref().expect("told");
        (holdings.brokers.len(), sharers.addresses.len())
    };
    assert_eq!(counted(&cluster), (1, 1));
    // Twenty-seven that know the key, at addresses where nobody is.
    for number in 0..27_u64 {
        let far = Hello {
            gossip_address: Some(format!("10.9.9.{number}:4150")),
            ..hello(&format!("far{number}"), 7, 0)
        };
        let link = 1000 + number;
        cluster
            .core
            .hello((link, HOST), &far, cluster.now)
            .expect("the key");
        cluster.carry_out();
    }
    cluster.run(Duration::from_secs(2));
    assert_eq!(counted(&cluster), (1, 1));
    assert_eq!(state(&cluster, "far0").as_deref(), Some("unreached"));
    let placed = cluster
        .core
        .placement_view(TOPIC, None, usize::MAX)
        .expect("declared")
        .publishers;
    assert!(placed.values().all(|broker| broker == "b1"), "{placed:?}");
    let told = cluster
        .events
        .iter()
        .filter(|(_, text)| text.contains("far0 does not answer at"));
    assert_eq!(told.count(), 1);
    // One of them is there after all.
    let number = cluster.core.brokers.number_of("far0").expect("known");
    let life = cluster.core.brokers[number].life;
    let probe = |door| {
        let broker = &cluster.core.brokers[number];
        Probe {
            broker: number,
            life,
            door,
            address: broker.announced(door).expect("announced").clone(),
            is_known: false,
        }
    };
    let (clients, gossip) = (probe(Door::Clients), probe(Door::Gossip));
    for (probe, answer, expected) in [
        (&clients, present("far1", 7, life), (1, 1)),
        (&clients, present("far0", 8, life), (1, 1)),
        (&clients, present("far0", 7, life - 1), (1, 1)),
        (&gossip, present("far0", 7, life), (1, 1)),
        (&clients, present("far0", 7, life), (2, 2)),
    ] {
        cluster.core.probed(probe, &answer, cluster.now);
        cluster.carry_out();
        assert_eq!(counted(&cluster), expected, "{answer:?}");
    }
}
