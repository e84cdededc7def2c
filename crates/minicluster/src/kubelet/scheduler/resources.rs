//! The requests of pods and the resources of nodes, in thousandths of each resource.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::kubelet::pod::{PodSpec, ResourceRequirements, RestartPolicy};

/// ResourceRequirements by resource name, in thousandths; in the order of the names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources(Vec<(String, i128)>);

impl Resources {
    /// Returns the amounts of a map, in the order of its names; an invalid quantity counts as none.
    pub fn of<'a>(map: impl IntoIterator<Item = (&'a String, &'a Quantity)>) -> Resources {
        let thousandths = |text| kube_rules::Quantity::parse(text).map_or(0, |amount| amount.in_units_of(-3));
        let amounts = map.into_iter().map(|(name, quantity)| (name.clone(), thousandths(&quantity.0)));
        Resources(amounts.collect())
    }

    /// Returns the requests of a pod: the larger of the sum of its containers and of the needs of its init containers
    /// one after the other, sidecars counting for all that come after them, or the request of the pod as a whole; and
    /// its overhead.
    pub fn asked_by(spec: &PodSpec) -> Resources {
        let mut running = Resources::default();
        let mut peak = Resources::default();
        for container in &spec.init_containers {
            let own = requests(container.resources.as_deref());
            if container.restart_policy == Some(RestartPolicy::Always) {
                running.add(&own);
                peak.raise(&running);
            } else {
                let mut together = running.clone();
                together.add(&own);
                peak.raise(&together);
            }
        }
        for container in &spec.containers {
            running.add(&requests(container.resources.as_deref()));
        }
        running.raise(&peak);
        for (name, amount) in requests(spec.resources.as_deref()).0 {
            *running.amount(&name) = amount;
        }
        if let Some(overhead) = &spec.overhead {
            running.add(&Resources::of(overhead.iter()));
        }
        running.0.retain(|(_, amount)| *amount > 0);
        *running.amount("pods") = 1000;
        running.0.shrink_to_fit();
        running
    }

    /// Returns the amount of one resource.
    pub fn get(&self, name: &str) -> i128 {
        self.place(name).map_or(0, |place| self.0[place].1)
    }

    /// Adds other amounts.
    pub fn add(&mut self, other: &Resources) {
        for (name, amount) in &other.0 {
            let sum = self.amount(name);
            *sum = sum.saturating_add(*amount);
        }
    }

    /// Takes other amounts away.
    pub fn subtract(&mut self, other: &Resources) {
        for (name, amount) in &other.0 {
            let sum = self.amount(name);
            *sum = sum.saturating_sub(*amount);
        }
    }

    /// The names of the resources of which more is asked for than is left of `all` beside `used`.
    pub fn lacking<'a>(&'a self, all: &'a Resources, used: &'a Resources) -> impl Iterator<Item = &'a str> {
        let lacks = |name: &str, asked: i128| asked > all.get(name).saturating_sub(used.get(name));
        self.0.iter().filter(move |(name, asked)| lacks(name, *asked)).map(|(name, _)| name.as_str())
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.as_str().cmp(name))
    }

    fn amount(&mut self, name: &str) -> &mut i128 {
        let place = self.place(name).unwrap_or_else(|place| {
            self.0.insert(place, (name.to_owned(), 0));
            place
        });
        &mut self.0[place].1
    }

    fn raise(&mut self, other: &Resources) {
        for (name, amount) in &other.0 {
            let own = self.amount(name);
            *own = (*own).max(*amount);
        }
    }
}

fn requests(amounts: Option<&ResourceRequirements>) -> Resources {
    let requests = amounts.and_then(|amounts| amounts.requests.as_ref());
    requests.map(|requests| Resources::of(requests.iter())).unwrap_or_default()
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
