//! The order of rollouts: `belay.dev/after` on an object names the workloads that must be complete before.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::manifest::{Complaint, Manifest, Note, ObjectKey, Place, nearest};
use crate::rollout::{Outcome, Reason, ReasonCode, Workload, is_job, marks};
use kube_facts::facts;

/// The most links of a cycle that are named one by one.
const LINKS: usize = 12;

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
        let value = manifest.value();
        let text = marks::annotation(&value, marks::AFTER)?;
        let names = names(text, manifest.key.namespace.as_deref()).ok()?;
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
        let names: Vec<String> = self.names.iter().map(|name| self.word(name)).collect();
        names.join(", ")
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
    if name.is_empty() || namespace.is_some_and(str::is_empty) {
        return None;
    }
    let known = facts().called(kind)?;
    Workload::named(&known.group, &known.kind)?;
    Some(ObjectKey {
        group: known.group.clone(),
        kind: known.kind.clone(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    })
}

/// Returns the complaints about dependencies: names that the repository does not mention, and cycles, each reported at
/// all its places. `objects` are all that could have been meant.
#[must_use]
pub fn wrong_order(all: &[After], mentions: impl Fn(&ObjectKey) -> bool, objects: &[&ObjectKey]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for after in all {
        for unknown in after.names.iter().filter(|name| !mentions(name)) {
            complaints.push(unknown_name(after, unknown, objects));
        }
    }
    let by_object: BTreeMap<&ObjectKey, &After> = all.iter().map(|after| (&after.object, after)).collect();
    for object in entangled(&by_object) {
        if let Some(cycle) = cycle(&by_object, object) {
            complaints.push(goes_round(&cycle));
        }
    }
    complaints
}

fn unknown_name(after: &After, unknown: &ObjectKey, objects: &[&ObjectKey]) -> Complaint {
    let fits = |key: &&&ObjectKey| Workload::of(key).is_some() && **key != &after.object;
    let known: BTreeSet<String> = objects.iter().filter(fits).map(|key| after.word(key)).collect();
    let word = after.word(unknown);
    let hint = nearest(&word, known.iter().map(String::as_str)).map(|known| format!("did you mean {known}?"));
    let hint = hint.unwrap_or_else(|| "name a workload of this repository".to_owned());
    complaint(after, format!("{} waits for {word}, which is not in the repository", after.object), Some(hint))
}

/// Returns the objects that are left when those that wait for nobody are taken away, again and again: members of
/// cycles, and who waits for them.
fn entangled<'a>(all: &BTreeMap<&'a ObjectKey, &'a After>) -> Vec<&'a ObjectKey> {
    let waits = |after: &After| after.names.iter().filter(|name| all.contains_key(name)).collect::<BTreeSet<_>>().len();
    let mut left: BTreeMap<&ObjectKey, usize> = all.iter().map(|(key, after)| (*key, waits(after))).collect();
    let mut users: BTreeMap<&ObjectKey, BTreeSet<&ObjectKey>> = BTreeMap::new();
    for (key, after) in all {
        for name in &after.names {
            users.entry(name).or_default().insert(key);
        }
    }
    let mut free: Vec<&ObjectKey> = left.iter().filter(|(_, count)| **count == 0).map(|(key, _)| *key).collect();
    while let Some(key) = free.pop() {
        left.remove(key);
        for user in users.get(key).into_iter().flatten() {
            let Some(count) = left.get_mut(user) else { continue };
            *count -= 1;
            if *count == 0 {
                free.push(user);
            }
        }
    }
    left.into_keys().collect()
}

/// Returns the shortest way from an object back to itself.
fn cycle<'a>(all: &BTreeMap<&'a ObjectKey, &'a After>, object: &'a ObjectKey) -> Option<Vec<&'a After>> {
    let mut from: BTreeMap<&ObjectKey, &ObjectKey> = BTreeMap::new();
    let mut next = VecDeque::from([object]);
    while let Some(key) = next.pop_front() {
        for name in all.get(key).into_iter().flat_map(|after| &after.names) {
            if name == object {
                let mut way = vec![all.get(key).copied()?];
                let mut at = key;
                while at != object {
                    at = from.get(at).copied()?;
                    way.push(all.get(at).copied()?);
                }
                way.reverse();
                return Some(way);
            }
            if !from.contains_key(name) {
                from.insert(name, key);
                next.push_back(name);
            }
        }
    }
    None
}

fn goes_round(cycle: &[&After]) -> Complaint {
    let first = cycle[0];
    let mut words: Vec<String> = cycle.iter().take(LINKS).map(|after| first.word(&after.object)).collect();
    if cycle.len() > LINKS {
        words.push("…".to_owned());
    }
    words.push(first.word(&first.object));
    let message = format!("{} would wait for itself: {}", first.object, words.join(" → "));
    let note = |(index, after): (usize, &&After)| Note {
        place: after.place.clone(),
        message: format!("waits for {}", after.word(&cycle[(index + 1) % cycle.len()].object)),
        excerpt: None,
    };
    let also = cycle.iter().enumerate().skip(1).take(LINKS).map(note).collect();
    Complaint { also, ..complaint(first, message, Some("take one of them away".to_owned())) }
}

fn complaint(after: &After, message: String, hint: Option<String>) -> Complaint {
    Complaint {
        place: after.place.clone(),
        object: Some(after.object.clone()),
        message,
        hint,
        excerpt: None,
        also: Vec::new(),
    }
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
            _ if under_way => waits.push(after.word(name)),
            Some((outcome, reason)) if outcome.is_final() && !is_well(outcome) => {
                return Gate::Skip(not_coming(after, name, outcome, reason.as_ref()));
            }
            _ if complete == Some(true) => {}
            // A Job that has run may be gone.
            Some((Outcome::Complete | Outcome::Unchanged, _)) if complete.is_none() && is_job(name) => {}
            _ => waits.push(after.word(name)),
        }
    }
    if waits.is_empty() { Gate::Open } else { Gate::Shut(format!("waits for {}", waits.join(", "))) }
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
mod tests {
    use super::*;
    use crate::manifest::{Scopes, read_file};

    fn key(name: &str) -> ObjectKey {
        ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: name.to_owned(),
        }
    }

    fn after(name: &str, names: &[&str]) -> After {
        let place = Place { path: format!("{name}.yaml").into(), line: 4, column: 18 };
        After { object: key(name), place, names: names.iter().map(|name| key(name)).collect() }
    }

    fn wrong(all: &[After], objects: &[ObjectKey]) -> Vec<String> {
        let meant: Vec<&ObjectKey> = objects.iter().collect();
        wrong_order(all, |key| objects.contains(key), &meant).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_are_read_as_people_write_them() {
        let read = |text: &str| names(text, Some("shop")).map(|names| names.iter().map(ToString::to_string).collect());
        let fine = |all: &[&str]| Ok::<Vec<String>, String>(all.iter().map(|one| (*one).to_owned()).collect());
        assert_eq!(read("deployment/db"), fine(&["Deployment shop/db"]));
        assert_eq!(read("sts/db, infra/job/migrate"), fine(&["StatefulSet shop/db", "Job infra/migrate"]));
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
    fn an_unknown_name_comes_with_the_nearest() {
        let wrong = wrong(&[after("web", &["bd"])], &[key("web"), key("db")]);
        assert_eq!(
            wrong,
            [
                "web.yaml:4:18: Deployment shop/web waits for deployment/bd, which is not in the repository (did you mean \
              deployment/db?)"
            ]
        );
    }

    #[test]
    fn a_cycle_is_told_at_each_of_its_places() {
        let all = [after("a", &["b"]), after("b", &["c", "d"]), after("c", &["a"]), after("e", &["a"])];
        let wrong = wrong(&all, &["a", "b", "c", "d", "e"].map(key));
        assert_eq!(wrong.len(), 3, "{wrong:#?}");
        assert_eq!(
            wrong[0],
            "a.yaml:4:18: Deployment shop/a would wait for itself: deployment/a → deployment/b → deployment/c → \
             deployment/a (take one of them away); b.yaml:4:18: waits for deployment/c; c.yaml:4:18: waits for deployment/a"
        );
        assert!(wrong[1].contains("deployment/b → deployment/c → deployment/a → deployment/b"));
        let itself = super::wrong_order(&[after("a", &["a"])], |_| true, &[]);
        assert!(itself[0].message.ends_with("deployment/a → deployment/a"), "{itself:?}");
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
    }
}
