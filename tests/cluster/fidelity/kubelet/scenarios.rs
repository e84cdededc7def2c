//! The scenarios, each in a namespace of its own.

use std::time::Duration;

use kube::api::LogParams;

use super::{Namespace, STEP_TIMEOUT};

pub async fn a_deployment_becomes_available_and_goes(world: Namespace) {
    world.run("create deployment web --image=nginx:1.27 --replicas=3").await;
    world.run("rollout status deployment/web --timeout=120s").await;
    let pods = world.run("get pods -o wide --no-headers").await;
    let nodes: Vec<&str> =
        (1..=3).map(|node| pods.lines().find(|line| line.contains(&format!("node-{node}"))).unwrap()).collect();
    assert!(nodes.iter().all(|line| line.contains("1/1 Running 0")), "{pods}");
    let name = pods.split_whitespace().next().unwrap();
    let described = world.until(&format!("describe pod {name}"), "Container started").await;
    for line in [
        "Successfully assigned a-deployment-becomes-available-and-goes/web-",
        "Container created",
        "Container ID: containerd://",
        "Image ID: docker.io/library/nginx@sha256:",
        "Status: Running",
        "PodReadyToStartContainers True",
    ] {
        assert!(described.contains(line), "{line} is not in\n{described}");
    }
    world.run("scale deployment web --replicas=1").await;
    world.until_it("get pods --no-headers", "one pod", |text| text.lines().count() == 1).await;
    world.run("delete deployment web").await;
    world.until("get pods", "No resources found").await;
    let events: Vec<String> = world.events(name).await.into_iter().map(|(reason, _)| reason).collect();
    assert!(events.contains(&"Killing".to_owned()), "{events:?}");
}

pub async fn a_bad_image_misses_its_deadline_and_is_undone(world: Namespace) {
    world.run("create deployment web --image=nginx:1.27").await;
    world.run("rollout status deployment/web --timeout=120s").await;
    // Only what fails is to be short of time.
    world.run(r#"patch deployment web -p {"spec":{"progressDeadlineSeconds":8}}"#).await;
    world.run("set image deployment/web nginx=nginx:404").await;
    let (text, fine) = world.kubectl("rollout status deployment/web --timeout=120s").await;
    assert!(!fine && text.contains("error: deployment \"web\" exceeded its progress deadline"), "{text}");
    let pods = world.until("get pods", "ImagePullBackOff").await;
    let name = pods.lines().find(|line| line.contains("0/1 ImagePullBackOff 0")).unwrap();
    let name = name.split_whitespace().next().unwrap();
    let events = world.events(name).await;
    for told in [
        ("Pulling", "Pulling image \"nginx:404\""),
        ("Failed", "Error: ErrImagePull"),
        ("BackOff", "Back-off pulling image \"nginx:404\""),
        ("Failed", "Error: ImagePullBackOff"),
    ] {
        assert!(
            events.iter().any(|(reason, message)| (reason.as_str(), message.as_str()) == told),
            "{told:?}: {events:?}"
        );
    }
    world.run(r#"patch deployment web -p {"spec":{"progressDeadlineSeconds":600}}"#).await;
    world.run("rollout undo deployment/web").await;
    // The message about the deadline stays until something has moved; `rollout status` would give up on that.
    world.run("wait deployment/web --for=condition=Progressing --timeout=120s").await;
    world.run("rollout status deployment/web --timeout=120s").await;
    world.until_it("get pods --no-headers", "one pod", |text| text.lines().count() == 1).await;
}

pub async fn crashes_are_seen_and_their_logs_kept(world: Namespace) {
    world
        .apply(
            r#"{apiVersion: v1, kind: Pod, metadata: {name: web, annotations: {kubelet.belay.dev/fate: 'crash-after=1s,code=3,log="no database"'}},
                spec: {containers: [{name: app, image: "nginx:1.27"}]}}"#,
        )
        .await;
    world.until("get pods", "0/1 Error").await;
    world.until_it("get pods", "one restart", |text| text.contains("CrashLoopBackOff 1 (")).await;
    assert_eq!(world.run("logs web").await, "starting nginx:1.27\nready\nno database\n");
    assert_eq!(world.run("logs web --previous").await, "starting nginx:1.27\nready\nno database\n");
    let pod = world.pods().get("web").await.unwrap();
    let status = pod.status.unwrap().container_statuses.unwrap().remove(0);
    let waiting = status.state.unwrap().waiting.unwrap();
    let message =
        format!("back-off 10s restarting failed container=app pod=web_{}({})", world.name, pod.metadata.uid.unwrap());
    assert_eq!((waiting.reason.as_deref(), waiting.message), (Some("CrashLoopBackOff"), Some(message)));
    assert_eq!(status.last_state.unwrap().terminated.unwrap().exit_code, 3);
    // The third run begins after ten seconds.
    world.until("get pods", "2 (").await;
    world.run("delete pod web").await;
}

pub async fn logs_are_shown(world: Namespace) {
    world
        .apply(
            r#"{apiVersion: v1, kind: Pod, metadata: {name: web, annotations: {kubelet.belay.dev/fate: "app:ready-after=2s;slow:start-after=1h"}},
                spec: {terminationGracePeriodSeconds: 5, containers: [{name: app, image: "nginx:1.27"}, {name: slow, image: "nginx:1.27"}]}}"#,
        )
        .await;
    world.until_it("logs web -c app", "the log", |text| text.contains("ready\n")).await;
    assert_eq!(world.run("logs web -c app --tail=1").await, "ready\n");
    let stamped = world.run("logs web -c app --timestamps --tail=1").await;
    let (stamp, text) = stamped.split_once(' ').unwrap();
    assert!(stamp.parse::<jiff::Timestamp>().is_ok() && stamp.ends_with('Z') && text == "ready\n", "{stamped}");
    let (text, fine) = world.kubectl("logs web -c slow").await;
    assert!(
        !fine && text.contains("container \"slow\" in pod \"web\" is waiting to start: ContainerCreating"),
        "{text}"
    );
    let (text, fine) = world.kubectl("logs web -c app --previous").await;
    assert!(!fine && text.contains("previous terminated container \"app\" in pod \"web\" not found"), "{text}");
    let parameters = LogParams { container: Some("app".to_owned()), limit_bytes: Some(8), ..LogParams::default() };
    assert_eq!(world.pods().logs("web", &parameters).await.unwrap(), "starting");
    let (text, fine) = world.kubectl("exec web -c app -- true").await;
    assert!(!fine, "{text}");
    let following = world.clone();
    let following = tokio::spawn(async move { following.run("logs web -c app --follow").await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.run("delete pod web").await;
    let followed = tokio::time::timeout(STEP_TIMEOUT, following).await.unwrap().unwrap();
    assert_eq!(followed, "starting nginx:1.27\nready\nreceived SIGTERM, shutting down\n");
}

pub async fn a_daemon_set_is_on_every_node(world: Namespace) {
    let daemon_set = |image: &str| {
        format!(
            "{{apiVersion: apps/v1, kind: DaemonSet, metadata: {{name: agent}}, spec: {{selector: {{matchLabels: {{app: agent}}}}, \
             template: {{metadata: {{labels: {{app: agent}}}}, spec: {{terminationGracePeriodSeconds: 2, containers: [{{name: agent, image: \"{image}\"}}]}}}}}}}}"
        )
    };
    world.apply(&daemon_set("agent:1")).await;
    world.run("rollout status daemonset/agent --timeout=120s").await;
    let pods = world.run("get pods -o wide").await;
    assert!((1..=3).all(|node| pods.contains(&format!("node-{node}"))), "{pods}");
    world.apply(&daemon_set("agent:2")).await;
    world.run("rollout status daemonset/agent --timeout=120s").await;
    let images = world.run("get pods -o jsonpath={.items[*].spec.containers[0].image}").await;
    assert_eq!(images, "agent:2 agent:2 agent:2");
    world.run("delete daemonset agent").await;
}

pub async fn jobs_end(world: Namespace) {
    world.run("create job good --image=busybox:1").await;
    world.run("wait --for=condition=complete job/good --timeout=120s").await;
    world.until("get pods", "0/1 Completed 0").await;
    assert_eq!(world.run("logs job/good").await, "starting busybox:1\nready\ndone\n");
    world
        .apply(
            r#"{apiVersion: batch/v1, kind: Job, metadata: {name: bad}, spec: {backoffLimit: 0, template: {
                metadata: {annotations: {kubelet.belay.dev/fate: "exit-after=1s,code=4"}},
                spec: {restartPolicy: Never, containers: [{name: bad, image: "busybox:1"}]}}}}"#,
        )
        .await;
    world.run("wait --for=condition=failed job/bad --timeout=120s").await;
    world.until("get pods", "0/1 Error 0").await;
}

pub async fn a_stateful_set_comes_up_in_order(world: Namespace) {
    world
        .apply(
            r#"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {serviceName: db, replicas: 3, selector: {matchLabels: {app: db}},
                template: {metadata: {labels: {app: db}}, spec: {containers: [{name: db, image: "postgres:17"}]}}}}"#,
        )
        .await;
    world.run("rollout status statefulset/db --timeout=120s").await;
    let mut moments = Vec::new();
    for index in 0..3 {
        let pod = world.pods().get(&format!("db-{index}")).await.unwrap();
        let conditions = pod.status.unwrap().conditions.unwrap();
        let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready").unwrap();
        moments.push((pod.metadata.creation_timestamp.unwrap().0, ready.last_transition_time.unwrap().0));
    }
    assert!(moments.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{moments:?}");
}

pub async fn an_evicted_pod_is_replaced(world: Namespace) {
    world
        .apply(
            r#"{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {selector: {matchLabels: {app: web}},
                template: {metadata: {labels: {app: web}, annotations: {kubelet.belay.dev/fate: "evict-after=3s"}},
                spec: {containers: [{name: app, image: "nginx:1.27"}]}}}}"#,
        )
        .await;
    let reasons = "get pods -o jsonpath={.items[*].status.phase}_{.items[*].status.reason}";
    world
        .until_it(reasons, "one evicted, one running", |text| text.contains("Evicted") && text.contains("Running"))
        .await;
    world.run("delete deployment web").await;
}

pub async fn what_does_not_fit_waits(world: Namespace) {
    world
        .apply(
            r#"{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {nodeSelector: {disk: ssd}, containers: [{name: app, image: "nginx:1.27", resources: {requests: {cpu: 100m}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: huge}, spec: {containers: [{name: app, image: "nginx:1.27", resources: {requests: {cpu: "100"}}}]}}"#,
        )
        .await;
    let message = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. no new claims to \
                   deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    let described = world.until("describe pod web", message).await;
    assert!(described.contains("FailedScheduling") && described.contains("PodScheduled False"), "{described}");
    world.until("describe pod huge", "3 Insufficient cpu.").await;
    world.run("label node node-2 disk=ssd").await;
    let pods = world.until("get pods -o wide", "Running").await;
    assert!(pods.lines().any(|line| line.starts_with("web") && line.contains("node-2")), "{pods}");
}

pub async fn a_finalizer_holds_a_pod_that_has_ended(world: Namespace) {
    world
        .apply(
            r#"{apiVersion: v1, kind: Pod, metadata: {name: web, finalizers: [example.com/hold]}, spec: {containers: [{name: app, image: "nginx:1.27"}]}}"#,
        )
        .await;
    world.until("get pods", "1/1 Running").await;
    world.run("delete pod web --wait=false").await;
    world.until("get pod web -o jsonpath={.status.phase}", "Succeeded").await;
    world.until("get pods", "Completed").await;
    world.run(r#"patch pod web -p {"metadata":{"finalizers":null}}"#).await;
    world.until("get pods", "No resources found").await;
}

pub async fn configuration_that_comes_late(world: Namespace) {
    world
        .apply(
            r#"{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: app, image: "nginx:1.27",
                envFrom: [{configMapRef: {name: settings}}], env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: login, key: password}}}]}]}}"#,
        )
        .await;
    world.until("get pods", "0/1 CreateContainerConfigError 0").await;
    world.until("describe pod web", "Error: configmap \"settings\" not found").await;
    world.run("create configmap settings").await;
    world.run("create secret generic login --from-literal=user=me").await;
    let missing = "couldn't find key password in Secret configuration-that-comes-late/login";
    world.until("get pod web -o yaml", missing).await;
    world.run(r#"patch secret login -p {"stringData":{"password":"secret"}}"#).await;
    world.until("get pods", "1/1 Running").await;
}

pub async fn a_pod_of_higher_priority_pushes_out(world: Namespace) {
    world.run("create priorityclass important --value=1000").await;
    let pod = |name: &str, more: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{terminationGracePeriodSeconds: 1, nodeSelector: {{kubernetes.io/hostname: node-3}}, \
             {more} containers: [{{name: app, image: \"nginx:1.27\", resources: {{requests: {{memory: 20Gi}}}}}}]}}}}"
        )
    };
    world.apply(&pod("low", "")).await;
    world.until("get pods", "1/1 Running").await;
    world.apply(&pod("high", "priorityClassName: important,")).await;
    world
        .until_it("get pods --no-headers", "only the important", |text| {
            text.lines().count() == 1 && text.starts_with("high") && text.contains("1/1 Running")
        })
        .await;
    let events = world.events("low").await;
    assert!(events.iter().any(|(reason, _)| reason == "Preempted"), "{events:?}");
}

pub async fn a_host_port_is_for_one(world: Namespace) {
    let pod = |name: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{nodeName: node-1, containers: [{{name: app, image: \"nginx:1.27\", \
             ports: [{{containerPort: 80, hostPort: 8080}}]}}]}}}}"
        )
    };
    world.apply(&pod("first")).await;
    world.until("get pods", "1/1 Running").await;
    world.apply(&pod("second")).await;
    let pods = world.until("get pods", "NodePorts").await;
    assert!(pods.lines().any(|line| line.starts_with("second") && line.contains("0/1 NodePorts 0")), "{pods}");
    let message =
        "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
    let said = world.run("get pod second -o jsonpath={.status.phase}:{.status.message}").await;
    assert_eq!(said, format!("Failed:{message}"));
}
