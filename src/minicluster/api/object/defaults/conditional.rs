//! Defaults that depend on something.

use serde_json::{Value, json};

use super::super::look::{Look, put_missing};
use super::image::parse_image;
use super::pod_resources;

/// Fills in what depends on the rest of a value of the type, `core.v1.Pod`.
pub fn fill(name: &str, value: &mut Value) {
    match name {
        "apps.v1.DeploymentStrategy" => rolling(value, &json!("25%"), &json!("25%")),
        "apps.v1.DaemonSetUpdateStrategy" => {
            rolling(value, &json!(1), &json!(0));
            if value.has("rollingUpdate") {
                put_missing(&mut value["rollingUpdate"], "maxUnavailable", 0);
                put_missing(&mut value["rollingUpdate"], "maxSurge", 0);
            }
        }
        "apps.v1.StatefulSetSpec" => {
            // Claims say what they are, as they would by themselves.
            for claim in value["volumeClaimTemplates"].as_array_mut().into_iter().flatten() {
                claim["apiVersion"] = json!("v1");
                claim["kind"] = json!("PersistentVolumeClaim");
            }
        }
        "apps.v1.StatefulSetUpdateStrategy" => stateful_set_strategy(value),
        "autoscaling.v1.HorizontalPodAutoscaler"
            // The other metrics of the older version are in an annotation.
            if !value["metadata"]["annotations"].has("autoscaling.alpha.kubernetes.io/metrics") => {
                put_missing(&mut value["spec"], "targetCPUUtilizationPercentage", 80);
            }
        "autoscaling.v2.HorizontalPodAutoscalerSpec" => autoscaler(value),
        "batch.v1.Job" => job(value),
        "core.v1.Container" | "core.v1.EphemeralContainer" => pull_policy(value, "imagePullPolicy", "image"),
        "core.v1.ImageVolumeSource" => pull_policy(value, "pullPolicy", "reference"),
        "core.v1.LimitRangeItem" => limit_range_item(value),
        "core.v1.Namespace" => namespace(value),
        "core.v1.NodeStatus" => {
            if let Some(capacity) = value.some("capacity").cloned() {
                put_missing(value, "allocatable", capacity);
            }
        }
        "core.v1.PersistentVolume" => volume(value),
        "core.v1.Pod" => pod(value),
        "core.v1.ReplicationController" => replication_controller(value),
        "core.v1.ServiceSpec" => service(value),
        "core.v1.LoadBalancerIngress" if !value.text("ip").is_empty() => put_missing(value, "ipMode", "VIP"),
        "core.v1.ServicePort"
            if (matches!(&value["targetPort"], Value::Null) || value["targetPort"] == 0 || value["targetPort"] == "") => {
                value["targetPort"] = value["port"].clone();
            }
        "core.v1.Volume"
            // A volume whose source is not named is an empty folder.
            if value.as_object().is_some_and(|volume| volume.keys().all(|key| key == "name")) => {
                value["emptyDir"] = json!({});
            }
        "flowcontrol.v1.PriorityLevelConfigurationSpec"
            if value.text("type") == "Exempt" => {
                put_missing(value, "exempt", json!({}));
            }
        "flowcontrol.v1.LimitResponse"
            if value.text("type") == "Queue" => {
                put_missing(value, "queuing", json!({}));
            }
        "networking.v1.NetworkPolicySpec"
            if value.list("policyTypes").is_empty() => {
                let egress = !value.list("egress").is_empty();
                value["policyTypes"] = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
            }
        "resource.v1.ExactDeviceRequest" | "resource.v1.DeviceSubRequest" => device_request(value),
        "rbac.v1.RoleBinding" | "rbac.v1.ClusterRoleBinding"
            if value["roleRef"].text("apiGroup").is_empty() => {
                value["roleRef"]["apiGroup"] = json!("rbac.authorization.k8s.io");
            }
        "rbac.v1.Subject"
            if matches!(value.text("kind"), "User" | "Group") && value.text("apiGroup").is_empty() => {
                value["apiGroup"] = json!("rbac.authorization.k8s.io");
            }
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec" => definition(value),
        _ => {}
    }
}

/// The same spec in another object has none of these.
fn volume(volume: &mut Value) {
    put_missing(volume, "spec", json!({}));
    put_missing(&mut volume["spec"], "persistentVolumeReclaimPolicy", "Retain");
    put_missing(&mut volume["spec"], "volumeMode", "Filesystem");
}

fn device_request(request: &mut Value) {
    if request.text("allocationMode").is_empty() {
        request["allocationMode"] = json!("ExactCount");
    }
    if request.text("allocationMode") == "ExactCount" && request.int("count").unwrap_or_default() == 0 {
        request["count"] = json!(1);
    }
}

fn rolling(strategy: &mut Value, unavailable: &Value, surge: &Value) {
    if strategy.text("type") == "RollingUpdate" {
        put_missing(strategy, "rollingUpdate", json!({}));
        put_missing(&mut strategy["rollingUpdate"], "maxUnavailable", unavailable.clone());
        put_missing(&mut strategy["rollingUpdate"], "maxSurge", surge.clone());
    }
}

fn stateful_set_strategy(strategy: &mut Value) {
    if strategy.text("type").is_empty() {
        strategy["type"] = json!("RollingUpdate");
        put_missing(strategy, "rollingUpdate", json!({}));
    }
    if strategy.text("type") == "RollingUpdate" && strategy.has("rollingUpdate") {
        put_missing(&mut strategy["rollingUpdate"], "partition", 0);
    }
}

fn autoscaler(spec: &mut Value) {
    if spec.list("metrics").is_empty() {
        let target = json!({ "type": "Utilization", "averageUtilization": 80 });
        spec["metrics"] = json!([{ "type": "Resource", "resource": { "name": "cpu", "target": target } }]);
    }
    let Some(behavior) = spec.get_mut("behavior").filter(|behavior| behavior.is_object()) else { return };
    let percent = json!({ "type": "Percent", "value": 100, "periodSeconds": 15 });
    let pods = json!({ "type": "Pods", "value": 4, "periodSeconds": 15 });
    put_missing(behavior, "scaleUp", json!({}));
    let up = &mut behavior["scaleUp"];
    put_missing(up, "stabilizationWindowSeconds", 0);
    put_missing(up, "selectPolicy", "Max");
    put_missing(up, "policies", json!([pods, percent]));
    put_missing(behavior, "scaleDown", json!({}));
    let down = &mut behavior["scaleDown"];
    put_missing(down, "selectPolicy", "Max");
    put_missing(down, "policies", json!([percent]));
}

fn job(job: &mut Value) {
    let labels = job["spec"]["template"]["metadata"].get("labels").cloned();
    if let Some(labels) = labels
        && job["metadata"].entries("labels").is_empty()
    {
        job["metadata"]["labels"] = labels;
    }
    let spec = &mut job["spec"];
    if !spec.has("completions") && !spec.has("parallelism") {
        spec["completions"] = json!(1);
    }
    put_missing(spec, "parallelism", 1);
    let per_index = spec.has("backoffLimitPerIndex");
    put_missing(spec, "backoffLimit", if per_index { i32::MAX } else { 6 });
    put_missing(spec, "completionMode", "NonIndexed");
    put_missing(spec, "suspend", false);
    put_missing(spec, "manualSelector", false);
    let replacement = if spec.has("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    put_missing(spec, "podReplacementPolicy", replacement);
}

fn pull_policy(value: &mut Value, policy: &str, image: &str) {
    let latest = parse_image(value.text(image)).is_some_and(|name| name.tag == "latest");
    put_missing(value, policy, if latest { "Always" } else { "IfNotPresent" });
}

fn limit_range_item(item: &mut Value) {
    if item.text("type") != "Container" {
        return;
    }
    for (into, from) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
        copy_missing(item, into, from);
    }
}

/// Copies the entries that `into` lacks.
fn copy_missing(of: &mut Value, into: &str, from: &str) {
    for (name, amount) in of.entries(from).clone() {
        put_missing(of, into, json!({}));
        put_missing(&mut of[into], &name, amount);
    }
}

fn namespace(namespace: &mut Value) {
    let name = namespace["metadata"].text("name").to_owned();
    if name.is_empty() {
        return;
    }
    put_missing(&mut namespace["metadata"], "labels", json!({}));
    namespace["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
}

fn pod(pod: &mut Value) {
    let spec = &mut pod["spec"];

    put_missing(spec, "enableServiceLinks", true);
    let host_network = spec.flag("hostNetwork");
    for containers in ["containers", "initContainers"] {
        let Some(Value::Array(containers)) = spec.get_mut(containers) else { continue };
        for container in containers {
            if container["resources"].has("limits") {
                copy_missing(&mut container["resources"], "requests", "limits");
            }
            if host_network {
                host_ports(container);
            }
        }
    }
    if spec["resources"].is_object() {
        pod_resources::fill(spec);
    }
}

/// On the host's network a container's port is the host's.
fn host_ports(container: &mut Value) {
    let Some(Value::Array(ports)) = container.get_mut("ports") else { return };
    for port in ports {
        if port.int("hostPort").unwrap_or_default() == 0 {
            port["hostPort"] = port["containerPort"].clone();
        }
    }
}

fn replication_controller(controller: &mut Value) {
    let Some(labels) = controller["spec"]["template"]["metadata"].some("labels").cloned() else { return };
    if controller["spec"].entries("selector").is_empty() {
        controller["spec"]["selector"] = labels.clone();
    }
    if controller["metadata"].entries("labels").is_empty() {
        controller["metadata"]["labels"] = labels;
    }
}

fn service(spec: &mut Value) {
    match spec.text("sessionAffinity") {
        "None" => {
            if let Value::Object(fields) = spec {
                fields.remove("sessionAffinityConfig");
            }
        }
        "ClientIP" => {
            put_missing(spec, "sessionAffinityConfig", json!({}));
            put_missing(&mut spec["sessionAffinityConfig"], "clientIP", json!({}));
            put_missing(&mut spec["sessionAffinityConfig"]["clientIP"], "timeoutSeconds", 10_800);
        }
        _ => {}
    }
    let ty = spec.text("type").to_owned();
    let external = matches!(ty.as_str(), "NodePort" | "LoadBalancer");
    if external || (ty == "ClusterIP" && !spec.list("externalIPs").is_empty()) {
        put_missing(spec, "externalTrafficPolicy", "Cluster");
    }
    if external || ty == "ClusterIP" {
        put_missing(spec, "internalTrafficPolicy", "Cluster");
    }
    if ty == "LoadBalancer" {
        put_missing(spec, "allocateLoadBalancerNodePorts", true);
    }
}

fn definition(spec: &mut Value) {
    let kind = spec["names"].text("kind").to_owned();
    let names = &mut spec["names"];
    if names.text("singular").is_empty() {
        names["singular"] = kind.to_lowercase().into();
    }
    if names.text("listKind").is_empty() && !kind.is_empty() {
        names["listKind"] = format!("{kind}List").into();
    }
    put_missing(spec, "conversion", json!({ "strategy": "None" }));
}
