//! The workloads that a command acts on, as kubectl lets them be named: `KIND/NAME …`, `KIND NAME …`, or by label; and, as
//! kubectl does not, by name alone. More than one is acted on only after a question, or with `--yes`.

use anyhow::{anyhow, bail};
use kube_facts::facts;
use serde_json::Value;

use super::nearest::there_is;
use super::workload::Named;
use crate::cli::output::Format;
use crate::cluster::{Cluster, ClusterError, Served};
use belay_core::manifest::ObjectKey;

/// The workloads, and the format of the answer.
#[derive(clap::Args, Debug)]
pub struct On {
    /// The workloads: KIND/NAME …, KIND NAME …, or NAME …
    #[arg(value_name = "WORKLOAD", required_unless_present = "selector")]
    pub workloads: Vec<String>,
    /// Select workloads by label: app=web,tier!=cache
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// Act on several without a question
    #[arg(short, long)]
    pub yes: bool,
    /// Let the API server try the change, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Select the output format for the changed objects
    #[arg(short, long, value_enum, default_value_t, hide_default_value = true)]
    pub output: Format,
}

/// A workload that is there.
#[derive(Clone, Debug)]
pub struct Target {
    /// The object's name.
    pub key: ObjectKey,
    /// The resource that serves it.
    pub served: Served,
    /// As it was read.
    pub live: Value,
}

impl Target {
    /// Returns `deployment.apps/web`
    pub fn named(&self) -> String {
        named(&self.key)
    }

    /// Returns `deployment.apps/web -n shop`, as a command is given it.
    pub fn argument(&self) -> String {
        argument(&self.key)
    }

    /// Returns `deployments.apps "web"`, as kubectl's refusals begin.
    pub fn quoted(&self) -> String {
        quoted(&self.served, &self.key.name)
    }
}

/// Returns `deployment.apps/web`
pub(in crate::cli) fn named(key: &ObjectKey) -> String {
    let kind = key.kind.to_lowercase();
    if key.group.is_empty() { format!("{kind}/{}", key.name) } else { format!("{kind}.{}/{}", key.group, key.name) }
}

/// Returns `deployment.apps/web -n shop`: the object as a command is given it, for a hint that can be pasted.
pub(in crate::cli) fn argument(key: &ObjectKey) -> String {
    let namespace = key.namespace.as_ref().map(|namespace| format!(" -n {namespace}"));
    named(key) + &namespace.unwrap_or_default()
}

fn quoted(served: &Served, name: &str) -> String {
    let dot = if served.group.is_empty() { "" } else { "." };
    format!("{}{dot}{} {name:?}", served.resource, served.group)
}

/// The result of a command for one workload.
#[derive(Debug)]
pub(in crate::cli) struct Act {
    /// The object afterwards.
    pub object: Value,
    /// The result in a word or two: `paused`. `None` if there was nothing to say.
    pub done: Option<String>,
    /// Further notes; they go to standard error.
    pub notes: Vec<String>,
}

impl Act {
    /// Just this, and nothing to add.
    pub(in crate::cli) fn done(object: Value, done: &str) -> Act {
        Act { object, done: Some(done.to_owned()), notes: Vec::new() }
    }
}

/// The kinds that a command is for.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct For {
    /// Their versions and kinds, in the order of the search for a bare name.
    pub kinds: &'static [(&'static str, &'static str)],
    /// The message for another kind, behind the object: `pausing is not supported`; or, with `{kind}` at its end,
    /// alone.
    pub otherwise: &'static str,
    /// The action, for the question: `Pause`.
    pub verb: &'static str,
}

impl For {
    fn refusal(&self, what: &str, kind: &str) -> String {
        match self.otherwise.strip_suffix("{kind}") {
            Some(text) => format!("{text}{kind:?}"),
            None => format!("{what} {}", self.otherwise),
        }
    }
}

/// The kinds that keep revisions.
pub(in crate::cli) const REVISED: &[(&str, &str)] =
    &[("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"), ("apps/v1", "DaemonSet")];

/// The targets found, and errors for named objects that do not exist or can't be acted on.
type FoundTargets = (Vec<Target>, Vec<anyhow::Error>);

/// Finds the named workloads.
pub(in crate::cli) async fn find(
    cluster: &Cluster,
    namespace: &str,
    on: &On,
    only: For,
) -> anyhow::Result<FoundTargets> {
    let search = WorkloadSearch { cluster, namespace, only };
    let (mut found, mut failures) = (Vec::new(), Vec::new());
    match meant(&on.workloads, on.selector.is_some())? {
        Meant::Kinds(kinds, names) if names.is_empty() => {
            let selector = on.selector.as_deref().unwrap_or_default();
            // If no kind is given, an object that belongs to another is changed with that one.
            let any_kind = kinds.is_none();
            for (api_version, kind) in kinds.unwrap_or_else(|| search.own_kinds()) {
                let all = search.all(&api_version, &kind, selector).await?.into_iter();
                found.extend(all.filter(|target| !any_kind || !is_owned(&target.live)));
            }
        }
        Meant::Kinds(kinds, names) => {
            for name in names {
                let kinds = kinds.clone().unwrap_or_default();
                for (api_version, kind) in kinds {
                    search
                        .one(&api_version, &kind, &name)
                        .await
                        .map_or_else(|error| failures.push(error), |target| found.push(target));
                }
            }
        }
        Meant::Each(all) => {
            for one in all {
                match search.named(&one).await {
                    Ok(target) => found.push(target),
                    Err(error) => failures.push(error),
                }
            }
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|target| seen.insert(target.key.clone()));
    Ok((found, failures))
}

/// Returns true when another object controls this one: a Deployment its ReplicaSets, a Job its pods.
fn is_owned(live: &Value) -> bool {
    let mut owners = live["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.any(|owner| owner["controller"] == true)
}

/// The meaning of a command line's words.
#[derive(Debug, PartialEq)]
pub(in crate::cli) enum Meant {
    /// `KIND[,KIND] [NAME …]`; `None` for all kinds of the command.
    Kinds(Option<Vec<(String, String)>>, Vec<String>),
    /// `KIND/NAME …`, `NAME …`
    Each(Vec<Named>),
}

/// Reads them.
pub(in crate::cli) fn meant(words: &[String], by_label: bool) -> anyhow::Result<Meant> {
    let Some((first, names)) = words.split_first() else { return Ok(Meant::Kinds(None, Vec::new())) };
    if !first.contains('/') && (by_label || !names.is_empty()) {
        let kinds: Option<Vec<_>> = first.split(',').map(kind).collect();
        if let Some(kinds) = kinds {
            if by_label && !names.is_empty() {
                bail!("name workloads, or say which labels they have, not both");
            }
            if let Some(odd) = names.iter().find(|name| name.contains('/')) {
                bail!("{odd:?} names its kind again; say KIND NAME …, or KIND/NAME …");
            }
            return Ok(Meant::Kinds(Some(kinds), names.to_vec()));
        }
    }
    if by_label {
        bail!("name workloads, or say which labels they have, not both");
    }
    let all: Result<Vec<Named>, String> = words.iter().map(|word| word.parse()).collect();
    Ok(Meant::Each(all.map_err(|error| anyhow!(error))?))
}

/// Returns the version and kind of a word for a kind.
fn kind(word: &str) -> Option<(String, String)> {
    let named: Named = format!("{word}/x").parse().ok()?;
    let (group, kind) = named.kind?;
    Some((version_of(&group, &kind), kind))
}

fn version_of(group: &str, kind: &str) -> String {
    let known = facts().kinds.iter().find(|known| known.group == group && known.kind == kind);
    let version = known.map_or("v1", |known| known.version.as_str());
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

struct WorkloadSearch<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
    only: For,
}

impl WorkloadSearch<'_> {
    fn own_kinds(&self) -> Vec<(String, String)> {
        self.only.kinds.iter().map(|(version, kind)| ((*version).to_owned(), (*kind).to_owned())).collect()
    }

    async fn named(&self, named: &Named) -> anyhow::Result<Target> {
        if let Some((group, kind)) = &named.kind {
            return self.one(&version_of(group, kind), kind, &named.name).await;
        }
        let mut found = Vec::new();
        for (api_version, kind) in self.only.kinds {
            found.extend(self.read(api_version, kind, &named.name).await?);
        }
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => {
                let kinds: Vec<&str> = self.only.kinds.iter().map(|(_, kind)| *kind).collect();
                let hint = self.like(self.only.kinds, &named.name).await;
                bail!("there is no {} {:?} in namespace {}{hint}", kinds.join(" or "), named.name, self.namespace)
            }
            _ => {
                let names: Vec<String> = found.iter().map(Target::named).collect();
                bail!("there are several: say {}", names.join(" or "))
            }
        }
    }

    async fn one(&self, api_version: &str, kind: &str, name: &str) -> anyhow::Result<Target> {
        let served = self.cluster.served(api_version, kind).await?;
        let Some(target) = self.read(api_version, kind, name).await? else {
            let hint = self.like(&[(api_version, kind)], name).await;
            bail!("{} not found{hint}", quoted(&served, name));
        };
        if !self.only.kinds.contains(&(api_version, kind)) {
            bail!(self.only.refusal(&target.quoted(), kind));
        }
        Ok(target)
    }

    /// Returns a list of existing objects with similar names, or with this one in other namespaces. Nothing if the cluster does not say.
    async fn like(&self, kinds: &[(&str, &str)], name: &str) -> String {
        const ALIKE: u16 = 600;
        let mut there = Vec::new();
        for (api_version, kind) in kinds {
            let Ok(served) = self.cluster.served(api_version, kind).await else { continue };
            let listed = self.cluster.list(&served, Some(self.namespace), "").await.unwrap_or_default();
            there.extend(listed.into_iter().map(|live| self.target(&served, kind, live).key));
        }
        let alike = there_is(name, there.iter().map(|key| (key.name.as_str(), named(key))), ALIKE);
        if alike.is_empty() { self.elsewhere(kinds, name).await } else { alike }
    }

    /// Returns a list of the objects of this name in other namespaces, as a command is given them.
    async fn elsewhere(&self, kinds: &[(&str, &str)], name: &str) -> String {
        let mut there = Vec::new();
        for (api_version, kind) in kinds {
            let Ok(served) = self.cluster.served(api_version, kind).await else { continue };
            there.extend(self.cluster.named(&served, name).await.unwrap_or_default());
        }
        there_is(name, there.iter().map(|key| (key.name.as_str(), argument(key))), 1000)
    }

    fn target(&self, served: &Served, kind: &str, live: Value) -> Target {
        let name = live["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let namespace = served.namespaced.then(|| self.namespace.to_owned());
        let key = ObjectKey { group: served.group.clone(), kind: kind.to_owned(), namespace, name };
        Target { key, served: served.clone(), live }
    }

    async fn read(&self, api_version: &str, kind: &str, name: &str) -> Result<Option<Target>, ClusterError> {
        let served = self.cluster.served(api_version, kind).await?;
        let namespace = served.namespaced.then(|| self.namespace.to_owned());
        let key = ObjectKey { group: served.group.clone(), kind: kind.to_owned(), namespace, name: name.to_owned() };
        let live = self.cluster.get(&key, &served).await?;
        Ok(live.map(|live| Target { key, served, live }))
    }

    async fn all(&self, api_version: &str, kind: &str, selector: &str) -> anyhow::Result<Vec<Target>> {
        let served = self.cluster.served(api_version, kind).await?;
        if !self.only.kinds.contains(&(api_version, kind)) {
            bail!(self.only.refusal(&served.resource, kind));
        }
        let listed = self.cluster.list(&served, Some(self.namespace), selector).await?;
        Ok(listed.into_iter().map(|live| self.target(&served, kind, live)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str, by_label: bool) -> anyhow::Result<Meant> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        meant(&words, by_label)
    }

    fn kinds(all: &[&str]) -> Option<Vec<(String, String)>> {
        Some(all.iter().map(|kind| ("apps/v1".to_owned(), (*kind).to_owned())).collect())
    }

    #[test]
    fn workloads_are_named_as_for_kubectl() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let is =
            |words: &str, by_label: bool, wanted: Meant| assert_eq!(read(words, by_label).unwrap(), wanted, "{words}");
        is("deploy web db", false, Meant::Kinds(kinds(&["Deployment"]), names(&["web", "db"])));
        is("deploy,sts web", false, Meant::Kinds(kinds(&["Deployment", "StatefulSet"]), names(&["web"])));
        is("deploy", true, Meant::Kinds(kinds(&["Deployment"]), Vec::new()));
        is("", true, Meant::Kinds(None, Vec::new()));
        let each = |all: &[&str]| Meant::Each(all.iter().map(|one| one.parse().unwrap()).collect());
        is("deploy/web sts/db", false, each(&["deploy/web", "sts/db"]));
        is("web", false, each(&["web"]));
        // A workload may be called like a kind.
        is("deploy", false, each(&["deploy"]));
        is("web db", false, each(&["web", "db"]));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for (words, by_label) in
            [("web", true), ("deploy web", true), ("deploy sts/db", false), ("nonsense/web", false)]
        {
            assert!(read(words, by_label).is_err(), "{words}");
        }
    }
}
