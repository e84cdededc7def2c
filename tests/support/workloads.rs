//! The same small workload as each kind that can go back.

/// A kind that can go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub name: &'static str,
    resource: &'static str,
}

/// Every kind that can go back.
pub const KINDS: [Kind; 4] = [
    Kind { name: "Deployment", resource: "apis/apps/v1/namespaces/default/deployments" },
    Kind { name: "StatefulSet", resource: "apis/apps/v1/namespaces/default/statefulsets" },
    Kind { name: "DaemonSet", resource: "apis/apps/v1/namespaces/default/daemonsets" },
    Kind { name: "ReplicationController", resource: "api/v1/namespaces/default/replicationcontrollers" },
];

impl Kind {
    /// Returns the path of the workload `web`.
    pub fn path(self) -> String {
        format!("{}/web", self.resource)
    }

    /// Returns the workload `web`, as records name it.
    pub fn object(self) -> String {
        format!("{} default/web", self.name)
    }

    /// Returns the same, if the pods of a Deployment go before others come, so that a way back takes its time.
    pub fn slowly(self, image: &str, fate: &str) -> String {
        let deadline = "  progressDeadlineSeconds: 30\n";
        self.manifest(image, fate).replace(deadline, &format!("{deadline}  strategy: {{type: Recreate}}\n"))
    }

    /// Returns its manifest, with a deadline of 30 s.
    pub fn manifest(self, image: &str, fate: &str) -> String {
        let (api, deadline, spec) = match self.name {
            "Deployment" => ("apps/v1", "", "  progressDeadlineSeconds: 30\n  replicas: 2\n"),
            "StatefulSet" => ("apps/v1", DEADLINE, "  replicas: 2\n  serviceName: web\n"),
            "DaemonSet" => ("apps/v1", DEADLINE, ""),
            _ => ("v1", DEADLINE, "  replicas: 2\n"),
        };
        let selector = if api == "v1" { "{app: web}" } else { "{matchLabels: {app: web}}" };
        format!(
            "apiVersion: {api}\nkind: {}\nmetadata:\n  name: web\n{deadline}spec:\n{spec}  selector: {selector}\n  template:\n    \
             metadata:\n      labels: {{app: web}}\n      annotations: {{kubelet.belay.dev/fate: \"{fate}\"}}\n    spec:\n      \
             containers:\n      - name: app\n        image: {image}\n",
            self.name
        )
    }
}

const DEADLINE: &str = "  annotations: {belay.dev/progress-deadline-seconds: \"30\"}\n";
