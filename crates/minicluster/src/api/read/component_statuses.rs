//! Component statuses: how the parts of the control plane are. They are asked for, not stored, and as old as `kubectl get
//! cs`.

use serde_json::{Value, json};

use super::View;
use crate::api::call::Call;
use crate::api::negotiate::{Delivery, Negotiated};
use crate::api::options::ListOptions;
use crate::api::reply::Reply;
use crate::api::route::Target;
use crate::api::{ApiError, ApiServer};

const PARTS: [&str; 3] = ["scheduler", "controller-manager", "etcd-0"];
const STORE: &str = "etcd-0";

impl ApiServer {
    /// Answers a GET of one of them.
    ///
    /// # Errors
    /// 404, 406.
    pub(in crate::api) fn component_status(&self, call: &Call, target: &Target) -> Result<Reply, ApiError> {
        let how = Negotiated::new(call, Delivery::Whole)?;
        let name = target.name.as_deref().unwrap_or_default();
        if !PARTS.contains(&name) {
            return Err(ApiError::not_found("", "componentstatus", name));
        }
        let mut status = self.status_of(name);
        status["kind"] = json!("ComponentStatus");
        status["apiVersion"] = json!("v1");
        View::new(&target.resource, &how, self.now()).object(status)
    }

    /// Answers a GET of all of them. They can't be watched.
    ///
    /// # Errors
    /// 400, 405, 406.
    pub(in crate::api) fn component_statuses(&self, call: &Call, target: &Target) -> Result<Reply, ApiError> {
        let options = ListOptions::new(&call.query, &target.resource, target.watch)?;
        if options.watch {
            let message = "watch is not supported on resources of kind \"componentstatuses\"";
            let kind = Some("componentstatuses".to_owned());
            return Err(ApiError { kind, ..ApiError::new(405, "MethodNotAllowed", message) });
        }
        let how = Negotiated::new(call, Delivery::Whole)?;
        let fits =
            |name: &&str| options.labels.matches(|_| None) && options.fields.name().is_none_or(|one| one == *name);
        let statuses = PARTS.iter().copied().filter(fits).map(|name| self.status_of(name)).collect();
        View::new(&target.resource, &how, self.now()).values(statuses)
    }

    fn status_of(&self, name: &str) -> Value {
        let is_well = name != STORE || !self.lost().is_cancelled();
        let (status, message) = if is_well { ("True", "ok") } else { ("False", "writes are not kept any more") };
        json!({
            "metadata": { "name": name },
            "conditions": [{ "type": "Healthy", "status": status, "message": message }],
        })
    }
}
