//! The page of a workload says what is known of it, and what a person can do.

use belay::web::Web;
use belay_core::rollout::canary::CanaryAnswer;
use serde_json::json;

use crate::pages_tell_people_what_is_wrong::{page, shows};
use crate::support::canary::{ask, until_step, web};
use crate::support::daemon::{World, deployment, short};

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

const RELATED: &str = "\
apiVersion: v1
kind: Service
metadata: {name: front}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: another}
spec: {selector: {app: cart}, ports: [{port: 80}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: calm}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: load}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: 2, maxReplicas: 5}
---
apiVersion: batch/v1
kind: Job
metadata: {name: migrate}
spec:
  template:
    metadata: {annotations: {kubelet.belay.dev/fate: \"exit-after=3s,code=0\"}}
    spec: {restartPolicy: Never, containers: [{name: app, image: migrate:1}]}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {PASSWORD: hunter2-hunter2}
";

/// The objects around a workload stand on its page: names, states and times, and never a value.
#[tokio::test(start_paused = true)]
async fn it_has_the_objects_around_it() {
    let mut world = World::embedded().await;
    world.repository.write("related.yaml", RELATED);
    let reads = "        envFrom: [{secretRef: {name: key}}, {configMapRef: {name: elsewhere, optional: true}}]\n";
    let web = deployment("web", "web:1", "").replacen(
        "  name: web\n",
        "  name: web\n  annotations: {belay.dev/after: job/migrate}\n",
        1,
    );
    let first = world.push("web.yaml", &format!("{web}{reads}"), "First version");
    world.start();
    world.through(&first).await;
    let status =
        json!({"status": {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}});
    let budget = "apis/policy/v1/namespaces/default/poddisruptionbudgets/calm/status";
    world.patch(budget, "disruption-controller", &status).await;
    world
        .until("the budget is seen", |source| {
            source.related.values().any(|related| related.state.starts_with("allows 1 disruption"))
        })
        .await;
    let served = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    let seen = page(&served, ADDRESS).await;
    shows(
        &seen,
        &[
            "<th scope=\"row\">Service default/front</th><td>selects its pods</td><td>ClusterIP, port 80</td>",
            "PodDisruptionBudget default/calm</th><td>selects its pods</td><td>allows 1 disruption: 2 of 2 pods are healthy, 1 must be</td>",
            "HorizontalPodAutoscaler default/load</th><td>scales it</td><td>",
            "between 2 and 5",
            "<a href=\"/workloads/shop/Job/default/migrate\">Job default/migrate</a></th><td>goes before it</td>",
            "<th scope=\"row\">Secret default/key</th><td><time",
            "<th scope=\"row\">ConfigMap default/elsewhere</th><td>belay has no record of a change</td>",
        ],
    );
    assert!(!seen.contains("default/another") && !seen.contains("hunter2"), "{seen}");
    let row = |seen: &str| seen.lines().find(|line| line.contains("Secret default/key</th>")).unwrap().to_owned();
    assert!(row(&seen).contains(short(&first)), "{seen}");
    let second = world.push("related.yaml", &RELATED.replace("hunter2-hunter2", "hunter3-hunter3"), "Another password");
    world.through(&second).await;
    let seen = page(&served, ADDRESS).await;
    assert!(row(&seen).contains(short(&second)) && !seen.contains("hunter3"), "{seen}");
}
