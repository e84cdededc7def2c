//! Hooks of Helm's charts: which of them are rolled out, in which order, and when they run again.
//!
//! Helm runs a hook itself, outside of its applies. Here a hook is an object of the chart like any other; annotations
//! which belay writes on it and on its dependents name the objects that must be complete before.

use serde_json::Value;

use super::compact::Compact;
use super::{Manifest, ManifestHash};

/// Annotation of Helm: at which events an object is a hook, with commas between them.
pub(super) const HOOK: &str = "helm.sh/hook";
/// Annotation of Helm: a number; hooks with smaller ones go first.
const WEIGHT: &str = "helm.sh/hook-weight";
/// Annotation on a hook that was rendered: the hash of the reason for its run, after [`ONCE`] if it does not run again
/// for another, and after [`UPGRADE`] if it does not run for the first.
pub const HOOK_RUN: &str = "belay.dev/hook-run";
/// The beginning of [`HOOK_RUN`] on a hook that runs when its chart is installed, and not when it is upgraded.
pub const ONCE: &str = "once-";
/// The beginning of [`HOOK_RUN`] on a hook that runs when its chart is upgraded, and not when it is installed.
pub const UPGRADE: &str = "upgrade-";
/// Annotation: the workloads that must be complete before.
pub const AFTER: &str = "belay.dev/after";

/// The names of Jobs, Pods and workloads that the objects of a chart wait for, in bytes, each counted for each object that does.
pub(super) const NAMES: usize = 8 << 20;

/// The objects of a chart wait for others with names of more than [`NAMES`] together.
#[derive(Debug)]
pub(super) struct TooManyHooks;

/// When a hook is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum HookPhase {
    /// Before the rest of its chart.
    Before,
    /// After it.
    After,
}

/// The role of an object in its chart.
enum HookRole {
    /// Not a hook.
    Object,
    /// A hook of events that belay never brings about: deletion, Helm's rollback, tests.
    LeftOut,
    Hook(HookPhase, HookFrequency),
}

/// The frequency with which a hook runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HookFrequency {
    Once,
    AtEachChange,
    /// At each change but the first.
    AtUpgrades,
}

/// Puts the hooks of one rendered chart into their order, and leaves those out whose events never come. A chart without hooks
/// stays as it is.
///
/// # Errors
/// The chart has too many hooks; some of them are in their order then, and others not.
pub(super) fn order(manifests: &mut Vec<Manifest>) -> Result<(), TooManyHooks> {
    let mut roles: Vec<HookRole> = manifests.iter().map(|manifest| role(&manifest.value())).collect();
    if roles.iter().all(|role| matches!(role, HookRole::Object)) {
        return Ok(());
    }
    let mut kept = roles.iter().map(|role| !matches!(role, HookRole::LeftOut));
    manifests.retain(|_| kept.next().unwrap_or(true));
    roles.retain(|role| !matches!(role, HookRole::LeftOut));
    let inputs = inputs(manifests, &roles);
    let objects: Vec<usize> = (0..roles.len()).filter(|at| matches!(roles[*at], HookRole::Object)).collect();
    let of_chart: Vec<String> = objects.iter().filter_map(|at| waited_for(&manifests[*at])).collect();
    // All of them and not the last alone: which of them run differs from change to change.
    let mut before = HookDependencies { names: String::new(), room: NAMES };
    for phase in [HookPhase::Before, HookPhase::After] {
        if phase == HookPhase::After {
            for at in &objects {
                if !is_definition(&manifests[*at]) {
                    before.wait(&mut manifests[*at])?;
                }
            }
            of_chart.iter().for_each(|name| before.add(name));
        }
        for at in in_order(manifests, &roles, phase) {
            if let HookRole::Hook(_, runs) = roles[at] {
                run_at(&mut manifests[at], runs, &inputs);
            }
            before.wait(&mut manifests[at])?;
            // Any other object is ready as soon as it was applied.
            if let Some(name) = waited_for(&manifests[at]).filter(|_| runs_to_its_end(&manifests[at])) {
                before.add(&name);
            }
        }
    }
    Ok(())
}

/// The objects that must be complete before the next one.
struct HookDependencies {
    names: String,
    /// The bytes of names that may still be written on objects of the chart.
    room: usize,
}

impl HookDependencies {
    fn add(&mut self, name: &str) {
        if !self.names.is_empty() {
            self.names.push_str(", ");
        }
        self.names.push_str(name);
    }

    /// Has an object wait for these, besides its own dependencies.
    fn wait(&mut self, manifest: &mut Manifest) -> Result<(), TooManyHooks> {
        if self.names.is_empty() {
            return Ok(());
        }
        self.room = self.room.checked_sub(self.names.len()).ok_or(TooManyHooks)?;
        change(manifest, |annotations| {
            let own = annotations.get(AFTER).and_then(Value::as_str).map(|own| format!("{own}, "));
            annotations.insert(AFTER.to_owned(), (own.unwrap_or_default() + &self.names).into());
        });
        Ok(())
    }
}

fn role(object: &Value) -> HookRole {
    let Some(events) = annotation(object, HOOK) else { return HookRole::Object };
    let has = |event: &str| events.split(',').any(|one| one.trim() == event);
    let installs = has("pre-install") || has("post-install");
    let upgrades = has("pre-upgrade") || has("post-upgrade");
    let runs = match (installs, upgrades) {
        (true, true) => HookFrequency::AtEachChange,
        (true, false) => HookFrequency::Once,
        (false, true) => HookFrequency::AtUpgrades,
        (false, false) => return HookRole::LeftOut,
    };
    // If installing and upgrading differ, the first time must be able to succeed.
    let before = if installs { has("pre-install") } else { has("pre-upgrade") };
    HookRole::Hook(if before { HookPhase::Before } else { HookPhase::After }, runs)
}

/// Returns the hooks of a phase, by weight, then those first that a Job or a Pod may need, then by name.
fn in_order(manifests: &[Manifest], roles: &[HookRole], phase: HookPhase) -> Vec<usize> {
    let is_of = |role: &HookRole| matches!(role, HookRole::Hook(of, _) if *of == phase);
    let mut hooks: Vec<usize> = (0..roles.len()).filter(|at| is_of(&roles[*at])).collect();
    hooks.sort_by_cached_key(|at| {
        let manifest = &manifests[*at];
        let weight = annotation(&manifest.value(), WEIGHT).and_then(|text| text.trim().parse::<i64>().ok());
        (weight.unwrap_or(0), runs_to_its_end(manifest), manifest.key.clone())
    });
    hooks
}

/// Returns the reason for which hooks run: all of their chart, in one hash.
fn inputs(manifests: &[Manifest], roles: &[HookRole]) -> String {
    let mut of: Vec<Value> = Vec::new();
    for (manifest, role) in manifests.iter().zip(roles) {
        let counts = !matches!(role, HookRole::Hook(_, HookFrequency::Once));
        of.extend(counts.then(|| Value::from(format!("{} {}", manifest.key, manifest.hash))));
    }
    of.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
    ManifestHash::of(&Value::Array(of)).to_string()
}

fn run_at(manifest: &mut Manifest, runs: HookFrequency, inputs: &str) {
    let says = match runs {
        HookFrequency::Once => format!("{ONCE}{}", manifest.hash),
        HookFrequency::AtEachChange => inputs.to_owned(),
        HookFrequency::AtUpgrades => format!("{UPGRADE}{inputs}"),
    };
    change(manifest, |annotations| drop(annotations.insert(HOOK_RUN.to_owned(), says.into())));
}

pub(super) fn change(manifest: &mut Manifest, change: impl FnOnce(&mut serde_json::Map<String, Value>)) {
    let mut value = manifest.value();
    let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(serde_json::Map::new()));
    // Without any, the written value is `null`.
    if annotations.is_null() {
        *annotations = Value::Object(serde_json::Map::new());
    }
    let Some(annotations) = annotations.as_object_mut() else { return };
    change(annotations);
    manifest.hash = ManifestHash::of(&value);
    manifest.value = Compact::of(&value);
}

pub(super) fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["annotations"].get(name)?.as_str()
}

/// Returns true when a hook is of a kind that runs to its end: a Job or a Pod.
pub(super) fn runs_to_its_end(manifest: &Manifest) -> bool {
    matches!((&*manifest.key.group, &*manifest.key.kind), ("batch", "Job") | ("", "Pod"))
}

/// Namespaces and definitions, which hooks may need themselves.
fn is_definition(manifest: &Manifest) -> bool {
    matches!(&*manifest.key.kind, "Namespace" | "CustomResourceDefinition")
}

/// Returns the name by which others wait for an object: `shop/job/migrate`. `None` for an object that nobody can wait
/// for.
pub(super) fn waited_for(manifest: &Manifest) -> Option<String> {
    let key = &manifest.key;
    let waits = matches!(
        (&*key.group, &*key.kind),
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet") | ("batch", "Job") | ("", "ReplicationController" | "Pod")
    );
    let kind = key.kind.to_lowercase();
    waits.then(|| match &key.namespace {
        Some(namespace) => format!("{namespace}/{kind}/{}", key.name),
        None => format!("{kind}/{}", key.name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Scopes, read_file};

    const CHART: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: second, annotations: {helm.sh/hook: 'pre-install, pre-upgrade', helm.sh/hook-weight: '5'}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: first, annotations: {helm.sh/hook: pre-install, helm.sh/hook-weight: '-5'}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: script, annotations: {helm.sh/hook: pre-install, helm.sh/hook-weight: '5'}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {belay.dev/after: deployment/db}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
---
apiVersion: v1
kind: Namespace
metadata: {name: other}
---
apiVersion: batch/v1
kind: Job
metadata: {name: smoke, annotations: {helm.sh/hook: 'post-upgrade,post-install'}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: bye, annotations: {helm.sh/hook: 'pre-delete, post-rollback'}}
";

    const JOB: &str = "spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: 'a:1'}]}}}\n";
    const DEPLOYMENT: &str = "spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: \
                              {containers: [{name: a, image: 'a:1'}]}}}\n";

    /// Returns the manifests of these texts, with the fields that Jobs and Deployments need.
    fn read(text: &str) -> Vec<Manifest> {
        let specified = |document: &str| match document {
            job if job.contains("kind: Job") => format!("{job}{JOB}"),
            deployment if deployment.contains("kind: Deployment") => format!("{deployment}{DEPLOYMENT}"),
            other => other.to_owned(),
        };
        let text = text.split("---\n").map(specified).collect::<Vec<_>>().join("---\n");
        let file = read_file("a.yaml", text.as_bytes(), &Scopes::new("shop"));
        assert_eq!(file.complaints, []);
        file.manifests
    }

    fn ordered(text: &str) -> Vec<(String, Option<String>, Option<String>)> {
        let mut manifests = read(text);
        order(&mut manifests).unwrap();
        let said = |manifest: &Manifest, name| annotation(&manifest.value(), name).map(ToOwned::to_owned);
        let of = |manifest: &Manifest| (manifest.key.name.clone(), said(manifest, AFTER), said(manifest, HOOK_RUN));
        let mut found: Vec<_> = manifests.iter().map(of).collect();
        found.dedup();
        found
    }

    fn of<'a>(all: &'a [(String, Option<String>, Option<String>)], name: &str) -> (Option<&'a str>, Option<&'a str>) {
        let (_, after, run) = all.iter().find(|(other, ..)| other == name).unwrap();
        (after.as_deref(), run.as_deref())
    }

    #[test]
    fn hooks_go_by_weight_and_the_chart_waits_for_those_before() {
        let all = ordered(&CHART.replace("{name: web}", "{name: settings}"));
        let (after, run) = of(&all, "first");
        assert!(after.is_none() && run.unwrap().starts_with(ONCE));
        assert_eq!(of(&all, "script").0, Some("shop/job/first"));
        assert_eq!(of(&all, "second").0, Some("shop/job/first"));
        assert_eq!(of(&all, "web"), (Some("deployment/db, shop/job/first, shop/job/second"), None));
        assert_eq!(of(&all, "settings").0, Some("shop/job/first, shop/job/second"));
        assert_eq!(of(&all, "other"), (None, None), "a hook may need it");
        assert_eq!(of(&all, "smoke").0, Some("shop/job/first, shop/job/second, shop/deployment/web"));
        assert!(all.iter().all(|(name, ..)| name != "bye"), "what is for deletion is not run");
    }

    #[test]
    fn a_hook_of_upgrades_runs_again_when_anything_of_its_chart_changes() {
        let run = |text: &str| of(&ordered(text), "second").1.unwrap().to_owned();
        let before = run(CHART);
        assert_eq!(run(CHART), before);
        assert_ne!(run(&CHART.replace("name: web}", "name: web, labels: {a: b}}")), before, "the rest of the chart");
        assert_ne!(run(&CHART.replace("name: second,", "name: second, labels: {a: b},")), before, "itself");
        assert_eq!(run(&CHART.replace("name: first,", "name: first, labels: {a: b},")), before, "it runs once");
    }

    #[test]
    fn a_chart_without_hooks_stays_as_it_is() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: b, annotations: {helm.sh/resource-policy: keep}}\n";
        let before = read(text);
        let mut after = before.clone();
        order(&mut after).unwrap();
        assert_eq!(before, after);
    }

    /// Each object names all hooks before it, which takes gigabytes for some thousands of both.
    #[test]
    fn a_chart_of_very_many_hooks_is_refused() {
        const MANY: usize = 1_000;
        let with_hooks = |hooks: usize| {
            let hook = |number: usize| {
                let name = format!("{}-{number}", "x".repeat(50));
                format!(
                    "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}, annotations: {{helm.sh/hook: pre-install}}}}\n"
                )
            };
            let object = |number: usize| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{number}}}\n");
            let texts: Vec<String> = (0..hooks).map(hook).chain((0..MANY).map(object)).collect();
            read(&texts.join("---\n"))
        };
        let mut many = with_hooks(MANY);
        assert!(order(&mut many).is_err());
        let bytes: usize = many.iter().map(|manifest| manifest.value().to_string().len()).sum();
        assert!(bytes < 2 * NAMES, "{bytes} bytes");
        assert!(order(&mut with_hooks(100)).is_ok());
    }

    #[test]
    fn where_installing_and_upgrading_differ_the_first_time_counts() {
        let hook = |events: &str| {
            format!(
                "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j, annotations: {{helm.sh/hook: '{events}'}}}}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\n"
            )
        };
        let after = |events: &str| of(&ordered(&hook(events)), "j").0.map(ToOwned::to_owned);
        assert_eq!(after("post-install,pre-upgrade").as_deref(), Some("shop/deployment/web"));
        assert_eq!(after("pre-install,post-upgrade"), None);
        assert_eq!(after("pre-upgrade"), None);
        assert_eq!(after("post-upgrade").as_deref(), Some("shop/deployment/web"));
    }

    #[test]
    fn hooks_for_upgrades_alone_say_so() {
        let hook = |events: &str| {
            let text = format!(
                "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j, annotations: {{helm.sh/hook: '{events}'}}}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\n"
            );
            ordered(&text).into_iter().find(|(name, ..)| name == "j").map(|(.., run)| run.unwrap())
        };
        for events in ["pre-upgrade", "post-upgrade", "pre-upgrade, post-rollback"] {
            assert!(hook(events).unwrap().starts_with(UPGRADE), "{events}");
        }
        for events in ["pre-install,post-upgrade", "post-install, pre-upgrade"] {
            assert!(![ONCE, UPGRADE].iter().any(|word| hook(events).unwrap().starts_with(word)), "{events}");
        }
        assert!(hook("pre-rollback,post-rollback").is_none() && hook("test").is_none());
    }
}
