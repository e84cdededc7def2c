//! What pods ask for and what nodes have, in thousandths of each resource.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::quantity::milli;

/// Amounts by resource name, in thousandths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources(BTreeMap<String, i128>);

impl Resources {
    /// The amounts of a list; what is no quantity counts as none.
    pub fn of(list: &BTreeMap<String, Quantity>) -> Resources {
        Resources(list.iter().map(|(name, quantity)| (name.clone(), milli(&quantity.0).unwrap_or(0))).collect())
    }

    /// What a pod asks for: the larger of what its containers want together and of what its init containers want one
    /// after the other, sidecars counting for all that come after them, or what it asks for as a whole; and its overhead.
    pub fn asked_by(spec: &PodSpec) -> Resources {
        let mut running = Resources::default();
        let mut peak = Resources::default();
        for container in spec.init_containers.iter().flatten() {
            let own = requests(container);
            if container.restart_policy.as_deref() == Some("Always") {
                running.add(&own);
                peak.raise(&running);
            } else {
                let mut together = running.clone();
                together.add(&own);
                peak.raise(&together);
            }
        }
        for container in &spec.containers {
            running.add(&requests(container));
        }
        running.raise(&peak);
        let whole = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        for (name, amount) in whole.map(Resources::of).unwrap_or_default().0 {
            running.0.insert(name, amount);
        }
        if let Some(overhead) = &spec.overhead {
            running.add(&Resources::of(overhead));
        }
        running.0.retain(|_, amount| *amount > 0);
        running.0.insert("pods".to_owned(), 1000);
        running
    }

    /// The amount of one resource.
    pub fn get(&self, name: &str) -> i128 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Adds other amounts.
    pub fn add(&mut self, other: &Resources) {
        for (name, amount) in &other.0 {
            let sum = self.0.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }

    /// Takes other amounts away.
    pub fn subtract(&mut self, other: &Resources) {
        for (name, amount) in &other.0 {
            let sum = self.0.entry(name.clone()).or_default();
            *sum = sum.saturating_sub(*amount);
        }
    }

    /// The names of the resources of which more is asked for than is left of `all` beside `used`.
    pub fn lacking<'a>(&'a self, all: &'a Resources, used: &'a Resources) -> impl Iterator<Item = &'a str> {
        let lacks = |name: &str, asked: i128| asked > all.get(name).saturating_sub(used.get(name));
        self.0.iter().filter(move |(name, asked)| lacks(name, **asked)).map(|(name, _)| name.as_str())
    }

    fn raise(&mut self, other: &Resources) {
        for (name, amount) in &other.0 {
            let own = self.0.entry(name.clone()).or_default();
            *own = (*own).max(*amount);
        }
    }
}

fn requests(container: &Container) -> Resources {
    let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    requests.map(Resources::of).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::Resources;
    use serde_json::json;

    #[test]
    fn init_containers_count_one_after_the_other_and_sidecars_throughout() {
        let cpu = |name: &str, cpu: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu}}});
        let mut sidecar = cpu("sidecar", "100m");
        sidecar["restartPolicy"] = "Always".into();
        let spec = json!({
            "initContainers": [cpu("first", "700m"), sidecar, cpu("second", "650m")],
            "containers": [cpu("a", "200m"), cpu("b", "300m")],
            "overhead": {"cpu": "10m"},
        });
        let asked = Resources::asked_by(&serde_json::from_value(spec).unwrap());
        assert_eq!(asked.get("cpu"), 760);
        assert_eq!(asked.get("pods"), 1000);
    }
}
