//! The page of a workload says what is known of it, and what a person can do.

use belay::web::Web;
use belay_core::rollout::canary::CanaryAnswer;

use crate::pages_tell_people_what_is_wrong::{page, shows};
use crate::support::canary::{ask, until_step, web};
use crate::support::daemon::World;

const ADDRESS: &str = "/workloads/shop/Deployment/default/web";

/// The steps stand on the pages of the workload and of the commit, with the commands that would be taken.
#[tokio::test(start_paused = true)]
async fn it_has_the_steps_of_a_canary() {
    let mut world = World::embedded().await;
    let steps = "1 0, 50% 10m";
    let first = world.push("web.yaml", &web(steps, "web:1"), "First version");
    world.start();
    world.through(&first).await;
    let served = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    let commands =
        ["<code>belay promote deployment/web -n default</code>", "<code>belay abort deployment/web -n default</code>"];
    let before = page(&served, ADDRESS).await;
    assert!(commands.iter().all(|command| !before.contains(command)), "no canary is under way: {before}");
    let second = world.push("web.yaml", &web(steps, "web:2"), "Second version");
    until_step(&mut world, &second, "waits for belay promote").await;
    let of_commit = format!("/commits/{second}");
    for path in [ADDRESS, &of_commit] {
        let first_step = page(&served, path).await;
        shows(&first_step, &commands);
        let present =
            "<li aria-current=\"step\">1 new pod, until a person promotes it <small>present step</small></li>";
        shows(&first_step, &["1 of 1 new pod, beside 4 old", "It waits for a person.", present]);
        shows(&first_step, &["<li>2 new pods, watched for 10m</li><li>all pods</li>", "Go on with the next step"]);
        let refused = ["belay undo", "belay restart", "belay pause", "belay resume"];
        assert!(refused.iter().all(|command| !first_step.contains(command)), "{first_step}");
    }
    ask(&world, CanaryAnswer::Promote).await;
    until_step(&mut world, &second, "canary step 2 of 2: 2 of 2 new pods are ready; watched until").await;
    let second_step = page(&served, ADDRESS).await;
    shows(
        &second_step,
        &["2 of 2 new pods, beside 4 old. All pods follow <time", ">in 10 min</time>, unless they fail."],
    );
    shows(&second_step, &["<li aria-current=\"step\">2 new pods, watched for 10m", "Replace all pods"]);
    world.through(&second).await;
    for path in [ADDRESS, &of_commit] {
        let after = page(&served, path).await;
        assert!(!after.contains("present step") && commands.iter().all(|command| !after.contains(command)), "{after}");
    }
    shows(&page(&served, ADDRESS).await, &["<code>belay undo deployment/web -n default</code>"]);
}
