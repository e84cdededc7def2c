//! Repositories of many habits, followed side by side: once all is rolled out, or has failed, belay hardly writes.

use std::time::Duration;

use minicluster::MiniCluster;

use crate::support::daemon::{EPOCH, World};
use crate::support::tap::{Tap, Went};

/// The minutes that are watched.
const MINUTES: usize = 10;

#[tokio::test(start_paused = true)]
async fn twenty_repositories_for_ten_minutes() {
    let clock = belay::clock::Clock::tokio(EPOCH.parse().unwrap());
    let cluster = MiniCluster::builder().clock(clock.clone()).start().await.unwrap();
    let mut world = World::on(cluster.client_as("belay"), clock, Some(cluster));
    let (tap, client) = Tap::on(world.client.clone());
    world.give_belay(client);
    let repositories = world.follow_habits();
    world.start();
    tokio::time::sleep(Duration::from_mins(15)).await;
    assert_eq!(world.wrong_habits(&repositories), Vec::<String>::new());
    tap.take();
    tokio::time::sleep(Duration::from_mins(MINUTES as u64)).await;
    // Events count as well; the Lease alone is renewed all the time.
    let writes: Vec<Went> = tap.take().into_iter().filter(|went| went.is_write() && !went.renews_a_lease()).collect();
    assert!(writes.len() <= MINUTES, "{writes:#?}");
}
