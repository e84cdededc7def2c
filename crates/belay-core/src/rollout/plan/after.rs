//! The order of rollouts: `belay.dev/after` on an object names the workloads that must be complete before.

use crate::manifest::{Manifest, ObjectKey, Place};
use crate::rollout::{Outcome, Reason, ReasonCode, Workload, is_job, is_pod, marks};
use kube_facts::facts;
use serde_json::Value;

/// The most workloads that are named to people.
const NAMED: usize = 20;
/// The most bytes of a name that may be waited for.
const LONGEST: usize = 253;

/// An object that waits for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct After {
    /// The object.
    pub object: ObjectKey,
    /// The place of the annotation.
    pub place: Place,
    /// The workloads that it waits for, in the order in which they are written.
    pub names: Vec<ObjectKey>,
}

impl After {
    /// Returns the dependencies of a manifest. `None` if it waits for nothing, or if its annotation can't be read: then
    /// planning complains.
    #[must_use]
    pub fn of(manifest: &Manifest) -> Option<After> {
        let names = awaited(&manifest.value(), manifest.key.namespace.as_deref())?;
        let place = manifest.place_of(&format!("metadata.annotations[{}]", marks::AFTER));
        Some(After { object: manifest.key.clone(), place, names })
    }

    /// Returns `waits for deployment/db, job/migrate`
    #[must_use]
    pub fn told(&self) -> String {
        format!("waits for {}", self.listed())
    }

    /// Returns `deployment/db, job/migrate`
    #[must_use]
    pub fn listed(&self) -> String {
        self.some(self.names.iter())
    }

    /// Names the first workloads of these, and says how many more there are.
    fn some<'a>(&self, mut names: impl Iterator<Item = &'a ObjectKey>) -> String {
        let first: Vec<String> = names.by_ref().take(NAMED).map(|name| self.word(name)).collect();
        match names.count() {
            0 => first.join(", "),
            more => format!("{} and {more} more", first.join(", ")),
        }
    }

    /// Returns a workload as this object would name it.
    #[must_use]
    pub fn word(&self, key: &ObjectKey) -> String {
        let kind = key.kind.to_lowercase();
        match &key.namespace {
            Some(namespace) if key.namespace != self.object.namespace => format!("{namespace}/{kind}/{}", key.name),
            _ => format!("{kind}/{}", key.name),
        }
    }
}

/// Returns the workloads that an object waits for. `None` if it waits for nothing, or if its annotation can't be read.
#[must_use]
pub fn awaited(object: &Value, namespace: Option<&str>) -> Option<Vec<ObjectKey>> {
    names(marks::annotation(object, marks::AFTER)?, namespace).ok()
}

/// Returns the workloads that an annotation names: `deployment/db`, of the object's own namespace, or
/// `infra/deployment/db`; several with commas between them.
///
/// # Errors
/// The part that can't be read.
pub(in crate::rollout) fn names(text: &str, namespace: Option<&str>) -> Result<Vec<ObjectKey>, String> {
    text.split(',').map(str::trim).map(|part| name(part, namespace).ok_or_else(|| part.to_owned())).collect()
}

fn name(text: &str, namespace: Option<&str>) -> Option<ObjectKey> {
    let parts: Vec<&str> = text.split('/').collect();
    let (namespace, kind, name) = match parts.as_slice() {
        [kind, name] => (namespace, *kind, *name),
        [namespace, kind, name] => (Some(*namespace), *kind, *name),
        _ => return None,
    };
    // Longer than any name in Kubernetes.
    if name.is_empty() || name.len() > LONGEST || namespace.is_some_and(|one| one.is_empty() || one.len() > LONGEST) {
        return None;
    }
    let known = facts().called(kind)?;
    let key = ObjectKey {
        group: known.group.clone(),
        kind: known.kind.clone(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    };
    (Workload::of(&key).is_some() || is_pod(&key)).then_some(key)
}

/// The standing of a workload that others wait for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DependencyStanding {
    /// True when it is being rolled out, or is about to be.
    pub under_way: bool,
    /// Its last outcome, and the reason for it, as far as that is known.
    pub newest: Option<(Outcome, Option<Reason>)>,
    /// True when the status of the live one says that it is complete; `None` if there is none.
    pub complete: Option<bool>,
}

/// The decision if an object may be rolled out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// All that it waits for is complete.
    Open,
    /// Not yet: its dependencies, for people.
    Shut(String),
    /// Not until something else changes: a dependency is not coming.
    Skip(Reason),
}

/// Decides if the dependencies of an object are complete.
#[must_use]
pub fn gate(after: &After, standing: impl Fn(&ObjectKey) -> DependencyStanding) -> Gate {
    let mut waits = Vec::new();
    for name in &after.names {
        let DependencyStanding { under_way, newest, complete } = standing(name);
        match newest {
            _ if under_way => waits.push(name),
            Some((outcome, reason)) if outcome.is_final() && !is_well(outcome) => {
                return Gate::Skip(not_coming(after, name, outcome, reason.as_ref()));
            }
            _ if complete == Some(true) => {}
            // A Job that has run may be gone, and so may a Pod.
            Some((Outcome::Complete | Outcome::Unchanged, _))
                if complete.is_none() && (is_job(name) || is_pod(name)) => {}
            _ => waits.push(name),
        }
    }
    if waits.is_empty() { Gate::Open } else { Gate::Shut(format!("waits for {}", after.some(waits.into_iter()))) }
}

/// Returns true when the manifest of a record with this end is live, as far as anybody knows.
#[must_use]
pub fn is_well(outcome: Outcome) -> bool {
    use Outcome::{Complete, Orphaned, Pruned, Superseded, Unchanged, Unknown};
    matches!(outcome, Complete | Unchanged | Superseded | Pruned | Orphaned | Unknown)
}

fn not_coming(after: &After, name: &ObjectKey, outcome: Outcome, reason: Option<&Reason>) -> Reason {
    let why = reason.map(|reason| format!(": {}", reason.message)).unwrap_or_default();
    let message = format!("waits for {}, which is {}{why}", after.word(name), outcome.word());
    Reason::new(ReasonCode::WaitsForAnother, message)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::manifest::{Scopes, read_file};

    pub fn key(name: &str) -> ObjectKey {
        ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: name.to_owned(),
        }
    }

    pub fn after(name: &str, names: &[&str]) -> After {
        let place = Place { path: format!("{name}.yaml").into(), line: 4, column: 18 };
        After { object: key(name), place, names: names.iter().map(|name| key(name)).collect() }
    }

    #[test]
    fn names_are_read_as_people_write_them() {
        let read = |text: &str| names(text, Some("shop")).map(|names| names.iter().map(ToString::to_string).collect());
        let fine = |all: &[&str]| Ok::<Vec<String>, String>(all.iter().map(|one| (*one).to_owned()).collect());
        assert_eq!(read("deployment/db"), fine(&["Deployment shop/db"]));
        assert_eq!(read("sts/db, infra/job/migrate"), fine(&["StatefulSet shop/db", "Job infra/migrate"]));
        assert_eq!(read("pod/migrate"), fine(&["Pod shop/migrate"]));
        assert_eq!(read("db"), Err("db".to_owned()));
        for text in ["", "deployment/", "service/db", "deployment/db,", "a/b/c/d", "/deployment/db"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn it_is_told_with_its_place() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: shop\n  annotations:\n    \
                    belay.dev/after: deploy/db, infra/deploy/queue\n";
        let manifest = read_file("a.yaml", text.as_bytes(), &Scopes::new("default")).manifests.remove(0);
        let after = After::of(&manifest).unwrap();
        assert_eq!(after.told(), "waits for deployment/db, infra/deployment/queue");
        assert_eq!(after.place.to_string(), "a.yaml:7:5");
    }

    #[test]
    fn it_opens_when_all_are_complete_and_not_before() {
        let web = after("web", &["db", "queue"]);
        let complete = DependencyStanding { complete: Some(true), ..DependencyStanding::default() };
        let with =
            |db: DependencyStanding| gate(&web, |name| if *name == key("db") { db.clone() } else { complete.clone() });
        assert_eq!(with(complete.clone()), Gate::Open);
        assert_eq!(with(DependencyStanding::default()), Gate::Shut("waits for deployment/db".to_owned()));
        let under_way = DependencyStanding { under_way: true, ..complete.clone() };
        assert_eq!(with(under_way), Gate::Shut("waits for deployment/db".to_owned()));
        let reason = Reason::new(ReasonCode::Failed, "crash".to_owned());
        let held = DependencyStanding { newest: Some((Outcome::RolledBack, Some(reason))), ..complete.clone() };
        let Gate::Skip(reason) = with(held.clone()) else { panic!("{:?}", with(held)) };
        assert_eq!(reason.message, "waits for deployment/db, which is rolled-back: crash");
        let again = DependencyStanding { under_way: true, ..held };
        assert_eq!(with(again), Gate::Shut("waits for deployment/db".to_owned()), "it is being tried again");
        let names: Vec<String> = (0..2000).map(|number| format!("w{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let Gate::Shut(waits) = gate(&after("web", &names), |_| DependencyStanding::default()) else { panic!("open") };
        assert!(waits.ends_with("deployment/w19 and 1980 more"), "{waits}");
    }
}
