//! Repositories of many habits, followed side by side on the real control plane: once all is rolled out, or has failed, belay
//! hardly writes. The embedded cluster shows the same over ten minutes of virtual time.

use std::time::Duration;

use crate::main_job::real_world;
use crate::support::tap::{Tap, Went};

/// The minutes that are watched. Real time: these are real processes.
const MINUTES: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn twenty_repositories_of_many_habits() {
    let Some((plane, nodes, mut world)) = real_world().await else { return };
    let (tap, client) = Tap::on(plane.client());
    world.give_belay(client);
    let repositories = world.follow_habits();
    world.start();
    for _ in 0..180 {
        if world.wrong_habits(&repositories).is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(world.wrong_habits(&repositories), Vec::<String>::new());
    // Objects that are tried again soon at first are tried seldom now.
    tokio::time::sleep(Duration::from_secs(30)).await;
    tap.take();
    tokio::time::sleep(Duration::from_mins(MINUTES as u64)).await;
    // Events count as well; the Lease alone is renewed all the time.
    let writes: Vec<Went> = tap.take().into_iter().filter(|went| went.is_write() && !went.renews_a_lease()).collect();
    assert!(writes.len() <= MINUTES, "{writes:#?}");
    world.stop().await;
    nodes.stop().await;
}
