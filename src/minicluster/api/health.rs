//! `/healthz`, `/livez`, `/readyz`: whether the server is well, check by check.

use super::call::Call;
use super::reply::Reply;
use super::{ApiError, ApiServer};

/// What is checked. There is little in here that could be unwell while it answers.
const CHECKS: [&str; 5] = ["ping", "log", "etcd", "poststarthook/start-system-namespaces-controller", "shutdown"];

impl ApiServer {
    /// Answers a health endpoint, or one check of it.
    pub(super) fn health(&self, call: &Call, endpoint: &str, check: Option<&str>) -> Result<Reply, ApiError> {
        let checks = CHECKS.iter().filter(|check| endpoint == "readyz" || **check != "shutdown");
        if let Some(check) = check {
            let known = checks.into_iter().any(|known| *known == check);
            return Ok(if known { Reply::text(200, "ok") } else { Reply::text(404, "404 page not found\n") });
        }
        if call.query.flag("verbose") != Some(true) {
            return Ok(Reply::text(200, "ok"));
        }
        let mut text = String::new();
        let excluded: Vec<&str> = call.query.all("exclude").collect();
        for check in checks {
            let said = if excluded.contains(check) { "excluded: ok" } else { "ok" };
            text.push_str(&format!("[+]{check} {said}\n"));
        }
        text.push_str(&format!("{endpoint} check passed\n"));
        Ok(Reply::text(200, text))
    }
}
