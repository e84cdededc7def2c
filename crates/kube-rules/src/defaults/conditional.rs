//! Defaults that depend on something.

use serde_json::{Value, json};

use super::super::value_ext::{ValueExt, put_missing};
use super::image::parse_image;
use super::pod_resources;

/// Returns the rule that fills in defaults that depend on the rest of a value of the type, `core.v1.Pod`.
pub fn rule(name: &str) -> Option<fn(&mut Value)> {
    let rule: fn(&mut Value) = match name {
        "apps.v1.DeploymentStrategy" => |strategy| rolling(strategy, &json!("25%"), &json!("25%")),
        "apps.v1.DaemonSetUpdateStrategy" => daemon_set_strategy,
        "apps.v1.StatefulSetSpec" => claim_templates,
        "apps.v1.StatefulSetUpdateStrategy" => stateful_set_strategy,
        "autoscaling.v1.HorizontalPodAutoscaler" => old_autoscaler,
        "autoscaling.v2.HorizontalPodAutoscalerSpec" => autoscaler,
        "batch.v1.Job" => job,
        "core.v1.Container" | "core.v1.EphemeralContainer" => {
            |container| pull_policy(container, "imagePullPolicy", "image")
        }
        "core.v1.ImageVolumeSource" => |source| pull_policy(source, "pullPolicy", "reference"),
        "core.v1.LimitRangeItem" => limit_range_item,
        "core.v1.Namespace" => namespace,
        "core.v1.NodeStatus" => node_status,
        "core.v1.PersistentVolume" => volume,
        "core.v1.Pod" => pod,
        "core.v1.ReplicationController" => replication_controller,
        "core.v1.ServiceSpec" => service,
        "core.v1.LoadBalancerIngress" => ingress_address,
        "core.v1.ServicePort" => service_port,
        "core.v1.Volume" => pod_volume,
        "flowcontrol.v1.PriorityLevelConfigurationSpec" => |spec| of_type(spec, "Exempt", "exempt"),
        "flowcontrol.v1.LimitResponse" => |response| of_type(response, "Queue", "queuing"),
        "networking.v1.NetworkPolicySpec" => network_policy,
        "resource.v1.ExactDeviceRequest" | "resource.v1.DeviceSubRequest" => device_request,
        "rbac.v1.RoleBinding" | "rbac.v1.ClusterRoleBinding" => binding,
        "rbac.v1.Subject" => subject,
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec" => definition,
        _ => return None,
    };
    Some(rule)
}

fn daemon_set_strategy(strategy: &mut Value) {
    rolling(strategy, &json!(1), &json!(0));
    if strategy.has("rollingUpdate") {
        put_missing(&mut strategy["rollingUpdate"], "maxUnavailable", 0);
        put_missing(&mut strategy["rollingUpdate"], "maxSurge", 0);
    }
}

/// Claims get the defaults of claims by themselves.
fn claim_templates(spec: &mut Value) {
    for claim in spec["volumeClaimTemplates"].as_array_mut().into_iter().flatten() {
        claim["apiVersion"] = json!("v1");
        claim["kind"] = json!("PersistentVolumeClaim");
    }
}

/// Reads the other metrics of the older version from an annotation.
fn old_autoscaler(autoscaler: &mut Value) {
    if !autoscaler["metadata"]["annotations"].has("autoscaling.alpha.kubernetes.io/metrics") {
        put_missing(&mut autoscaler["spec"], "targetCPUUtilizationPercentage", 80);
    }
}

fn node_status(status: &mut Value) {
    if let Some(capacity) = status.some("capacity").cloned() {
        put_missing(status, "allocatable", capacity);
    }
}

fn ingress_address(ingress: &mut Value) {
    if !ingress.text("ip").is_empty() {
        put_missing(ingress, "ipMode", "VIP");
    }
}

fn service_port(port: &mut Value) {
    if matches!(&port["targetPort"], Value::Null) || port["targetPort"] == 0 || port["targetPort"] == "" {
        port["targetPort"] = port["port"].clone();
    }
}

/// Makes a volume without a source an empty folder.
fn pod_volume(volume: &mut Value) {
    if volume.as_object().is_some_and(|volume| volume.keys().all(|key| key == "name")) {
        volume["emptyDir"] = json!({});
    }
}

/// Adds the field of a type if the type is there.
fn of_type(value: &mut Value, ty: &str, field: &str) {
    if value.text("type") == ty {
        put_missing(value, field, json!({}));
    }
}

fn network_policy(spec: &mut Value) {
    if spec.list("policyTypes").is_empty() {
        let egress = !spec.list("egress").is_empty();
        spec["policyTypes"] = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    }
}

fn binding(binding: &mut Value) {
    if binding["roleRef"].text("apiGroup").is_empty() {
        binding["roleRef"]["apiGroup"] = json!("rbac.authorization.k8s.io");
    }
}

fn subject(subject: &mut Value) {
    if matches!(subject.text("kind"), "User" | "Group") && subject.text("apiGroup").is_empty() {
        subject["apiGroup"] = json!("rbac.authorization.k8s.io");
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

/// Sets a container's port to the host's on the host's network.
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
