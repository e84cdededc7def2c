//! `/healthz`, `/livez`, `/readyz`: whether the server is well, check by check.

use super::call::Call;
use super::reply::Reply;
use super::{ApiError, ApiServer};

/// The endpoint of a check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    /// Everywhere.
    Everywhere,
    /// Only if it is asked whether the server is ready.
    Ready,
    /// Only if that is not asked.
    Alive,
}

/// The checks of the real server, under its names and in its order: clients and probes ask for single checks. A check
/// for a part that is not here has nothing that could fail, and passes.
const CHECKS: [(&str, Where); 37] = [
    ("ping", Where::Everywhere),
    ("log", Where::Everywhere),
    ("loopback-serving-certificate", Where::Alive),
    ("etcd", Where::Everywhere),
    ("etcd-readiness", Where::Ready),
    ("informer-sync", Where::Ready),
    ("poststarthook/start-apiserver-admission-initializer", Where::Everywhere),
    ("poststarthook/generic-apiserver-start-informers", Where::Everywhere),
    ("poststarthook/priority-and-fairness-config-consumer", Where::Everywhere),
    ("poststarthook/priority-and-fairness-filter", Where::Everywhere),
    ("poststarthook/storage-object-count-tracker-hook", Where::Everywhere),
    ("poststarthook/start-apiextensions-informers", Where::Everywhere),
    ("poststarthook/start-apiextensions-controllers", Where::Everywhere),
    ("poststarthook/crd-informer-synced", Where::Everywhere),
    ("poststarthook/start-system-namespaces-controller", Where::Everywhere),
    ("poststarthook/peer-endpoint-reconciler-controller", Where::Everywhere),
    ("poststarthook/start-cluster-authentication-info-controller", Where::Everywhere),
    ("poststarthook/start-kube-apiserver-identity-lease-controller", Where::Everywhere),
    ("poststarthook/start-kube-apiserver-identity-lease-garbage-collector", Where::Everywhere),
    ("poststarthook/storage-readiness", Where::Everywhere),
    ("poststarthook/start-legacy-token-tracking-controller", Where::Everywhere),
    ("poststarthook/start-service-ip-repair-controllers", Where::Everywhere),
    ("poststarthook/rbac/bootstrap-roles", Where::Everywhere),
    ("poststarthook/scheduling/bootstrap-system-priority-classes", Where::Everywhere),
    ("poststarthook/priority-and-fairness-config-producer", Where::Everywhere),
    ("poststarthook/bootstrap-controller", Where::Everywhere),
    ("poststarthook/start-kubernetes-service-cidr-controller", Where::Everywhere),
    ("poststarthook/start-kube-aggregator-informers", Where::Everywhere),
    ("poststarthook/apiservice-status-local-available-controller", Where::Everywhere),
    ("poststarthook/apiservice-status-remote-available-controller", Where::Everywhere),
    ("poststarthook/apiservice-registration-controller", Where::Everywhere),
    ("poststarthook/apiservice-discovery-controller", Where::Everywhere),
    ("poststarthook/kube-apiserver-autoregistration", Where::Everywhere),
    ("autoregister-completion", Where::Everywhere),
    ("poststarthook/apiservice-openapi-controller", Where::Everywhere),
    ("poststarthook/apiservice-openapiv3-controller", Where::Everywhere),
    ("shutdown", Where::Ready),
];

/// The checks that depend on the store.
const STORE: [&str; 3] = ["etcd", "etcd-readiness", "poststarthook/storage-readiness"];

impl ApiServer {
    /// Answers a health endpoint, or one check of it.
    pub(super) fn health(&self, call: &Call, endpoint: &str, check: Option<&str>) -> Result<Reply, ApiError> {
        let mut checks = CHECKS.iter().filter(|(_, at)| match at {
            Where::Everywhere => true,
            Where::Ready => endpoint == "readyz",
            Where::Alive => endpoint != "readyz",
        });
        if let Some(check) = check {
            return Ok(match checks.find(|(name, _)| *name == check) {
                None => Reply::text(404, "404 page not found\n"),
                Some((name, _)) if self.is_well(name) => Reply::text(200, "ok"),
                Some(_) => Reply::text(500, "internal server error: reason withheld\n"),
            });
        }
        let mut excluded: Vec<&str> = call.query.all("exclude").collect();
        let (mut text, mut well) = (String::new(), true);
        for (name, _) in checks {
            let before = excluded.len();
            excluded.retain(|other| other != name);
            if excluded.len() < before {
                text.push_str(&format!("[+]{name} excluded: ok\n"));
            } else if self.is_well(name) {
                text.push_str(&format!("[+]{name} ok\n"));
            } else {
                well = false;
                text.push_str(&format!("[-]{name} failed: reason withheld\n"));
            }
        }
        if !excluded.is_empty() {
            let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
            let names = names.join(",");
            text.push_str(&format!("warn: some health checks cannot be excluded: no matches for {names}\n"));
        }
        if !well {
            text.push_str(&format!("{endpoint} check failed\n"));
            return Ok(Reply::text(500, text));
        }
        if call.query.flag("verbose") != Some(true) {
            return Ok(Reply::text(200, "ok"));
        }
        text.push_str(&format!("{endpoint} check passed\n"));
        Ok(Reply::text(200, text))
    }

    /// Returns true when a part is healthy. A server that answers is; only its storage may be lost behind it.
    fn is_well(&self, check: &str) -> bool {
        !STORE.contains(&check) || !self.lost().is_cancelled()
    }
}
