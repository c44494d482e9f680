//! Every promise on a broker counts, and the states shown are true at every moment.

use std::time::Duration;

use super::world::World;

/// 'quiet' at 5 ms of 25 on one broker, 'ballast' on the other, then 'loud': bursts of 50, promised 500 ms.
fn loud_comes(window: Duration, seed: u64, groups: bool) -> (World, u64) {
    let mut world = World::new(2, window, seed);
    world.topic("quiet", Some(25.0), 50, (4.0, 1, 5));
    world.topic("ballast", Some(100.0), 40, (10.0, 1, 1));
    world.run_until("fitted", 300.0);
    world.run(10.0);
    let from = world.second();
    world.tells_groups = groups;
    world.topic("loud", Some(500.0), 50, (1.0, 1, 50));
    (world, from)
}

#[test]
fn a_newcomer_keeps_its_neighbours_promises() {
    for (window_s, groups) in [(5, false), (5, true), (60, false), (60, true)] {
        for seed in 0..2 {
            let (mut world, from) = loud_comes(Duration::from_secs(window_s), seed, groups);
            let since = world.now;
            world.run(200.0);
            let story = world.story(since);
            for topic in ["quiet", "ballast", "loud"] {
                assert_eq!(world.state(topic), "fitted", "{topic}\n{story}");
            }
            let broken = world.broken_until("quiet", from);
            // Bursts that are declared are kept away from whoever they would disturb.
            let most = if groups { 0 } else { 15 };
            assert!(broken <= most, "quiet was broken for {broken} s\n{story}");
            assert_eq!(world.most_moves_in_ten_seconds().max(1), 1);
            assert_eq!(world.lies, 0, "{story}");
        }
    }
}
