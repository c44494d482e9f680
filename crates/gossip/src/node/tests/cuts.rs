//! Joining, cuts and restarts.

use super::super::*;
use super::world::{CALM, Conduct, LIMIT, ROUGH, World};

const RANDOM: Branches = Branches::Random(3);

#[test]
fn ten_nodes_find_each_other_and_know_the_sums() {
    for branches in [RANDOM, Branches::Mesh] {
        let mut world = World::new(10, branches, CALM);
        assert_eq!(world.node(0).remote(LIMIT).connected, 1);
        let joined_ms = world.run_until(6000, |world| world.all_connected(10));
        let known_ms = world.run_until(4000, |world| world.worst() < 0.01);
        println!("{branches:?}: all joined after {joined_ms} ms, sums {known_ms} ms later");
        world.run_ms(20_000);
        assert!(world.worst() < 0.02, "{}", world.worst());
        let totals = world.totals();
        assert!(totals.updates_received > 1000);
        let left_out = [
            totals.forged,
            totals.replayed,
            totals.malformed,
            totals.unknown_peer,
            totals.unknown_limit,
            totals.overflowed,
        ];
        assert_eq!(left_out, [0; 6]);
    }
}

#[test]
fn half_that_is_cut_off_goes_by_itself_and_heals() {
    for branches in [RANDOM, Branches::Mesh] {
        let mut world = World::new(10, branches, CALM);
        world.run_ms(10_000);
        assert!(world.all_connected(10));
        world.sides = [0, 0, 0, 0, 0, 1, 1, 1, 1, 1].to_vec();
        let noticed_ms = world.run_until(6000, |world| world.all_connected(5));
        let known_ms = world.run_until(3000, |world| world.worst() < 0.02);
        println!("{branches:?}: cut noticed after {noticed_ms} ms, sums {known_ms} ms later");
        assert!(noticed_ms <= 4000);
        world.run_ms(5000);
        assert!(world.all_connected(5) && world.worst() < 0.02);
        world.sides = vec![0; 10];
        let healed_ms = world.run_until(10_000, |world| world.all_connected(10));
        let known_ms = world.run_until(4000, |world| world.worst() < 0.02);
        println!("{branches:?}: healed after {healed_ms} ms, sums {known_ms} ms later");
        world.run_ms(5000);
        assert!(world.all_connected(10) && world.worst() < 0.02);
    }
}

#[test]
fn a_node_that_crashes_is_missed_and_joins_in_its_next_life() {
    let mut world = World::new(10, RANDOM, CALM);
    world.run_ms(10_000);
    world.crash(4);
    world.run_until(6000, |world| world.all_connected(9));
    world.run_until(3000, |world| world.worst() < 0.02);
    world.start(4, 2000);
    assert_eq!(world.node(4).remote(LIMIT).connected, 1);
    world.run_until(8000, |world| world.all_connected(10));
    world.run_until(4000, |world| world.worst() < 0.02);
    // Sooner than anybody notices.
    world.crash(4);
    world.run_ms(100);
    world.start(4, 3000);
    world.run_until(8000, |world| world.all_connected(10));
    world.run_until(4000, |world| world.worst() < 0.02);
    let life = |node: &mut Node| node.peers().nth(4).map(|peer| peer.incarnation);
    assert_eq!(life(world.node(0)), Some(3000));
}

#[test]
fn a_node_that_leaves_is_gone_at_once() {
    let mut world = World::new(10, RANDOM, CALM);
    world.run_ms(10_000);
    let node = world.node(2);
    node.leave();
    assert_eq!(node.next_wake(), None);
    world.run_ms(10);
    world.crash(2);
    let noticed_ms = world.run_until(1000, |world| {
        world
            .nodes
            .iter()
            .flatten()
            .all(|node| node.connected() == 9)
    });
    println!("a leave was noticed after {noticed_ms} ms");
}

#[test]
fn two_nodes_notice_each_other() {
    let mut world = World::new(2, RANDOM, CALM);
    world.run_until(2000, |world| world.all_connected(2) && world.worst() < 1e-4);
    world.sides = vec![0, 1];
    let noticed_ms = world.run_until(4000, |world| world.all_connected(1));
    println!("two: cut noticed after {noticed_ms} ms");
    world.sides = vec![0, 0];
    world.run_until(6000, |world| world.all_connected(2) && world.worst() < 1e-4);
}

#[test]
fn a_rough_network_is_counted_and_survived() {
    for branches in [RANDOM, Branches::Mesh] {
        let mut world = World::new(10, branches, ROUGH);
        world.run_ms(10_000);
        let mut apart = 0;
        let mut errors = Vec::new();
        for _ in 0..400 {
            world.run_ms(50);
            apart += u32::from(!world.all_connected(10));
            errors.push(world.worst());
        }
        errors.sort_by(f64::total_cmp);
        let totals = world.totals();
        println!(
            "{branches:?}: {apart} of 400 with somebody apart, worst error: median {:.3}, 90 % {:.3}",
            errors[200], errors[360]
        );
        println!("{totals:?}");
        assert!(apart < 100);
        assert!(errors[200] < 0.3);
        assert!(totals.lost > 100 && totals.overtaken > 100 && totals.replayed > 100);
        assert_eq!((totals.malformed, totals.unknown_peer), (0, 0));
        let lost = totals.lost as f64 / (totals.lost + totals.updates_received) as f64;
        assert!((0.1..0.45).contains(&lost), "{lost}");
    }
}

#[test]
fn bytes_are_those_of_the_formula() {
    let conduct = Conduct {
        delay_ms: (5, 5),
        ..CALM
    };
    let mut world = World::new(10, RANDOM, conduct);
    world.run_ms(10_000);
    let before = world.totals();
    world.run_ms(10_000);
    let after = world.totals();
    let per_second = |bytes: u64| bytes as f64 / 10.0 / 10.0;
    let updates = per_second(after.update_bytes_sent - before.update_bytes_sent);
    let membership = per_second(after.membership_bytes_sent - before.membership_bytes_sent);
    println!("per node and second: {updates} B of updates, {membership} B of membership");
    assert_eq!(updates, 48.0 * 20.0 * 3.0);
    assert!(membership < 1000.0);
}
