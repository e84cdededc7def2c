//! What every cluster begins with.

use serde_json::{Value, json};

use super::access::policy;
use super::route::{Route, route};
use super::{ApiError, ApiServer};

const NAMESPACES: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "default"];

impl ApiServer {
    /// Puts into the store what every cluster begins with.
    ///
    /// # Errors
    /// The server's own rules refuse it, which is a mistake in here.
    pub fn set_up(&self) -> Result<(), ApiError> {
        for name in NAMESPACES {
            let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
            self.provide_at("/api/v1/namespaces", namespace)?;
        }
        let (roles, bindings) = policy();
        for role in roles {
            self.provide_at("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)?;
        }
        for binding in bindings {
            self.provide_at("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)?;
        }
        Ok(())
    }

    fn provide_at(&self, collection: &str, object: Value) -> Result<(), ApiError> {
        match route(&self.registry(), collection) {
            Route::Objects(target) => self.provide(&target, object),
            _ => Err(ApiError::no_such_resource()),
        }
    }
}
