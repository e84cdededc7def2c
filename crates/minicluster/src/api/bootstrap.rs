//! The first objects of every cluster.

use serde_json::{Value, json};

use super::access::policy;
use super::admission::SERVICE_RANGE;
use super::json_pointer::text;
use super::route::{Route, route};
use super::{ApiError, ApiServer};

const PRIORITIES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

const NAMESPACES: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "default"];

impl ApiServer {
    /// Puts the objects of every new cluster into the store.
    ///
    /// # Errors
    /// The server's own rules refuse it, which is a mistake in here.
    pub fn set_up(&self) -> Result<(), ApiError> {
        for name in NAMESPACES {
            let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
            self.provide_at("/api/v1/namespaces", &namespace)?;
        }
        let range = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": { "name": "kubernetes" },
            "spec": { "cidrs": [SERVICE_RANGE] },
        });
        self.provide_at("/apis/networking.k8s.io/v1/servicecidrs", &range)?;
        for (name, value) in PRIORITIES {
            let class = json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": name },
                "value": value,
            });
            self.provide_at("/apis/scheduling.k8s.io/v1/priorityclasses", &class)?;
        }
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": "kubernetes", "labels": { "component": "apiserver", "provider": "kubernetes" },
            },
            "spec": {
                "clusterIP": "10.0.0.1",
                "ports": [{ "name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443 }],
            },
        });
        self.provide_at("/api/v1/namespaces/default/services", &service)
    }

    /// Puts into the store the roles that every cluster begins with, and who has them.
    ///
    /// # Errors
    /// The server's own rules refuse it, which is a mistake in here.
    pub fn provide_roles(&self) -> Result<(), ApiError> {
        for object in policy().map_err(|error| ApiError::internal(error.to_string()))? {
            let plural = format!("{}s", text(&object, "/kind").to_lowercase());
            let place = match text(&object, "/metadata/namespace") {
                "" => plural,
                namespace => format!("namespaces/{namespace}/{plural}"),
            };
            self.provide_at(&format!("/apis/rbac.authorization.k8s.io/v1/{place}"), &object)?;
        }
        Ok(())
    }

    /// Publishes the authority, as PEM, that signs the certificates of clients: servers that stand in for this one read
    /// it there.
    ///
    /// # Errors
    /// The server's own rules refuse it, which is a mistake in here.
    pub fn publish_authority(&self, certificate: &str) -> Result<(), ApiError> {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "extension-apiserver-authentication", "namespace": "kube-system" },
            "data": { "client-ca-file": certificate },
        });
        self.provide_at("/api/v1/namespaces/kube-system/configmaps", &map)
    }

    fn provide_at(&self, collection: &str, object: &Value) -> Result<(), ApiError> {
        match route(&self.registry(), collection) {
            Route::Objects(target) => self.provide(&target, object),
            _ => Err(ApiError::no_such_resource()),
        }
    }
}
