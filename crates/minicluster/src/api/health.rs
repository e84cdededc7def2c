//! `/healthz`, `/livez`, `/readyz`: whether the server is well, check by check.

use super::call::Call;
use super::reply::Reply;
use super::{ApiError, ApiServer};

/// Where a check is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    /// Everywhere.
    Everywhere,
    /// Only where it is asked whether the server is ready.
    Ready,
}

/// What is checked, of all that the real server checks: what there is in here, too, under its names and in its order.
/// What it says besides stands for parts that are not here: flow control, the aggregation of other servers, the leases of
/// several servers, the repair of addresses, the tracking of old tokens, and informers of its own.
const CHECKS: [(&str, Where); 17] = [
    ("ping", Where::Everywhere),
    ("log", Where::Everywhere),
    ("etcd", Where::Everywhere),
    ("etcd-readiness", Where::Ready),
    ("informer-sync", Where::Ready),
    ("poststarthook/start-apiserver-admission-initializer", Where::Everywhere),
    ("poststarthook/start-apiextensions-informers", Where::Everywhere),
    ("poststarthook/start-apiextensions-controllers", Where::Everywhere),
    ("poststarthook/crd-informer-synced", Where::Everywhere),
    ("poststarthook/start-system-namespaces-controller", Where::Everywhere),
    ("poststarthook/start-cluster-authentication-info-controller", Where::Everywhere),
    ("poststarthook/storage-readiness", Where::Everywhere),
    ("poststarthook/rbac/bootstrap-roles", Where::Everywhere),
    ("poststarthook/scheduling/bootstrap-system-priority-classes", Where::Everywhere),
    ("poststarthook/bootstrap-controller", Where::Everywhere),
    ("poststarthook/start-kubernetes-service-cidr-controller", Where::Everywhere),
    ("shutdown", Where::Ready),
];

/// What depends on the store.
const STORE: [&str; 3] = ["etcd", "etcd-readiness", "poststarthook/storage-readiness"];

impl ApiServer {
    /// Answers a health endpoint, or one check of it.
    pub(super) fn health(&self, call: &Call, endpoint: &str, check: Option<&str>) -> Result<Reply, ApiError> {
        let mut checks = CHECKS.iter().filter(|(_, at)| endpoint == "readyz" || *at == Where::Everywhere);
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

    /// Whether a part is well. A server that answers is; only what it keeps may be lost behind it.
    fn is_well(&self, check: &str) -> bool {
        !STORE.contains(&check) || !self.lost().is_cancelled()
    }
}
