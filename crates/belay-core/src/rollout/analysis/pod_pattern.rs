//! Regular expressions of the names of a workload's new and old pods.

use crate::manifest::ObjectKey;
use crate::rollout::Workload;

/// The characters of the parts of a name that Kubernetes makes up.
const RANDOM: &str = "[bcdfghjklmnpqrstvwxz2456789]";
/// The number of characters of a pod's name that are left of the name it is generated from.
const GENERATED_FROM: usize = 58;

/// The names of a workload's pods, as regular expressions of Prometheus: they match the whole name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPatterns {
    /// Those of the present pod template.
    pub new: String,
    /// Those of before it.
    pub old: String,
}

/// Returns the names of a workload's pods. `present` are the names of the pods of its present template, as far as they can be
/// seen: by one of them the pods of a Deployment's revision are told from others. The names of other kinds say no revision: within
/// a step of a canary each of them is meant.
#[must_use]
pub fn pod_patterns(key: &ObjectKey, present: &[&str], is_step: bool) -> PodPatterns {
    let name = &key.name;
    let old = match Workload::of(key) {
        Some(Workload::StatefulSet) => format!("{}-[0-9]+", literal(name)),
        Some(Workload::Deployment) => generated(name, &format!("{RANDOM}{{6,10}}-")),
        // belay gives the successor of a ReplicationController a hash of its template.
        Some(Workload::ReplicationController) => generated(name, "([0-9a-f]{32}-)?"),
        _ => generated(name, ""),
    };
    let prefix = present.first().and_then(|present| present.get(..present.len().checked_sub(5)?));
    let new = match (Workload::of(key), prefix) {
        (Some(Workload::StatefulSet | Workload::DaemonSet), Some(_)) if is_step => {
            present.iter().map(|name| literal(name)).collect::<Vec<String>>().join("|")
        }
        (Some(Workload::StatefulSet), _) | (_, None) => old.clone(),
        (_, Some(prefix)) => format!("{}{RANDOM}{{5}}", literal(prefix)),
    };
    PodPatterns { new, old }
}

/// Returns the names that are generated from a name, and what stands behind it.
fn generated(name: &str, behind: &str) -> String {
    // A Deployment's pods have up to 11 characters of a hash behind the name, a ReplicationController's 33.
    let longest = match behind {
        "" => 0,
        behind if behind.starts_with('(') => 33,
        _ => 11,
    };
    match name.get(..GENERATED_FROM) {
        Some(beginning) => format!("{}{RANDOM}{{5}}", literal(beginning)),
        None if name.len() + 1 + longest > GENERATED_FROM => format!("{}-.*", literal(name)),
        None => format!("{}-{behind}{RANDOM}{{5}}", literal(name)),
    }
}

/// Returns an expression that matches this text alone. A name has no other special character than a dot.
fn literal(name: &str) -> String {
    name.replace('.', "[.]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &str, name: &str, present: Option<&str>) -> PodPatterns {
        let text = |text: &str| text.to_owned();
        let group = if kind == "ReplicationController" { "" } else { "apps" };
        let key = ObjectKey { group: text(group), kind: text(kind), namespace: Some(text("shop")), name: text(name) };
        pod_patterns(&key, present.as_slice(), false)
    }

    #[test]
    fn within_a_step_the_pods_of_a_set_are_named() {
        let step = |kind: &str, present: &[&str]| {
            let (group, name) = ("apps".to_owned(), "db.eu".to_owned());
            pod_patterns(&ObjectKey { group, kind: kind.to_owned(), namespace: None, name }, present, true)
        };
        let set = step("StatefulSet", &["db.eu-3", "db.eu-12"]);
        assert_eq!((set.new.as_str(), set.old.as_str()), ("db[.]eu-3|db[.]eu-12", "db[.]eu-[0-9]+"));
        let web = step("Deployment", &["db.eu-5d4b9c-xv2kq", "db.eu-5d4b9c-xv2kr"]);
        assert_eq!(web.new, format!("db[.]eu-5d4b9c-{RANDOM}{{5}}"));
        let hidden = step("StatefulSet", &[]);
        assert_eq!(hidden.new, hidden.old);
    }

    #[test]
    fn pods_are_known_by_their_names() {
        let random = RANDOM;
        let web = of("Deployment", "web", Some("web-5d4b9c-xv2kq"));
        assert_eq!(web.new, format!("web-5d4b9c-{random}{{5}}"));
        assert_eq!(web.old, format!("web-{random}{{6,10}}-{random}{{5}}"));
        let hidden = of("Deployment", "web", None);
        assert_eq!((hidden.new, hidden.old), (web.old.clone(), web.old));
        assert_eq!(of("StatefulSet", "db.eu", Some("db.eu-0")).new, "db[.]eu-[0-9]+");
        assert_eq!(of("DaemonSet", "logs", Some("logs-xv2kq")).old, format!("logs-{random}{{5}}"));
        let controller = of("ReplicationController", "rc", Some("rc-498f18f4a67b022d0bbd5ec343b97746-jgfxb"));
        assert_eq!(controller.new, format!("rc-498f18f4a67b022d0bbd5ec343b97746-{random}{{5}}"));
        assert_eq!(controller.old, format!("rc-([0-9a-f]{{32}}-)?{random}{{5}}"));
        let long = "a".repeat(60);
        assert_eq!(of("DaemonSet", &long, None).new, format!("{}{random}{{5}}", "a".repeat(58)));
        assert_eq!(of("Deployment", &"a".repeat(50), None).old, format!("{}-.*", "a".repeat(50)));
    }
}
