//! One pod's life.

use std::net::IpAddr;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::pod::SeenPod;

/// One pod on its node.
pub struct Life {
    pub pod: Arc<SeenPod>,
    host_ip: IpAddr,
    pod_ip: IpAddr,
    started: Timestamp,
    running: Option<Timestamp>,
    ended: Option<Timestamp>,
}

impl Life {
    pub fn begin(pod: Arc<SeenPod>, host_ip: IpAddr, pod_ip: IpAddr, now: Timestamp) -> Life {
        Life { pod, host_ip, pod_ip, started: now, running: None, ended: None }
    }

    pub fn see(&mut self, pod: Arc<SeenPod>) {
        self.pod = pod;
    }

    pub fn step(&mut self, now: Timestamp) {
        if self.pod.deletion.is_some() {
            self.ended.get_or_insert(now);
        } else if now >= self.started + SignedDuration::from_secs(1) {
            self.running.get_or_insert(now);
        }
    }

    pub fn wake(&self) -> Option<Timestamp> {
        let waits = self.running.is_none() && self.ended.is_none();
        waits.then(|| self.started + SignedDuration::from_secs(1))
    }

    pub fn may_be_deleted(&self) -> bool {
        self.ended.is_some()
    }

    pub fn status(&self) -> Value {
        let time = |at: Timestamp| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let ready = self.running.is_some() && self.ended.is_none();
        let since = time(self.ended.or(self.running).unwrap_or(self.started));
        let flag = if ready { "True" } else { "False" };
        let state = match (self.running, self.ended) {
            (Some(running), None) => json!({"running": {"startedAt": time(running)}}),
            (running, Some(ended)) => json!({"terminated": {"exitCode": 0, "reason": "Completed",
                "startedAt": time(running.unwrap_or(ended)), "finishedAt": time(ended)}}),
            (None, None) => json!({"waiting": {"reason": "ContainerCreating"}}),
        };
        let containers: Vec<Value> = self
            .pod
            .spec
            .containers
            .iter()
            .map(|container| {
                let image = container.image.clone().unwrap_or_default();
                json!({"name": container.name, "image": image, "imageID": image, "ready": ready, "started": ready,
                   "restartCount": 0, "lastState": {}, "state": state})
            })
            .collect();
        let phase = match (self.running, self.ended) {
            (_, Some(_)) => "Succeeded",
            (Some(_), None) => "Running",
            (None, None) => "Pending",
        };
        json!({
            "phase": phase, "startTime": time(self.started), "observedGeneration": self.pod.generation,
            "hostIP": self.host_ip.to_string(), "hostIPs": [{"ip": self.host_ip.to_string()}],
            "podIP": self.pod_ip.to_string(), "podIPs": [{"ip": self.pod_ip.to_string()}],
            "containerStatuses": containers,
            "conditions": [
                {"type": "Initialized", "status": "True", "lastTransitionTime": time(self.started)},
                {"type": "Ready", "status": flag, "lastTransitionTime": since},
                {"type": "ContainersReady", "status": flag, "lastTransitionTime": since},
            ],
        })
    }
}
