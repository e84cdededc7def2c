//! The lines of `belay status --wait` while it waits, one for each change, and the decision if waiting helps at all.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::cli::Globals;
use crate::cli::args::target::argument;
use crate::cli::output::{counted, plain, progress};
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::daemon::ask_daemon;
use crate::history::query::step_details;
use crate::history::{History, PublishedSource};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::canary::LiveCanary;
use belay_core::rollout::{Record, marks, namespace_stays};

/// The time without a change after which the live object is read.
const STILL: Duration = Duration::from_secs(5);

/// The last line about each object of a commit.
#[derive(Default)]
pub(super) struct WaitProgress {
    said: BTreeMap<(String, ObjectKey), Said>,
    /// The last line about each source.
    sources: BTreeMap<String, String>,
    pub(super) cluster: LazyCluster,
    /// The time since which no daemon answers, and true if that was said.
    unanswered: Option<(Instant, bool)>,
}

/// The cluster, connected to when it is asked for first.
#[derive(Default)]
pub(super) struct LazyCluster(Option<Option<Cluster>>);

impl LazyCluster {
    /// Returns the cluster; `None` if it can't be reached.
    pub(super) async fn get(&mut self, globals: &Globals) -> Option<Cluster> {
        if self.0.is_none() {
            self.0 = Some(globals.cluster("").await.ok());
        }
        self.0.clone().flatten()
    }
}

/// The last line about an object.
struct Said {
    line: String,
    /// True when its record is open.
    is_open: bool,
    /// The time of the next read of the live object, unless something changes until then.
    look_at: Instant,
}

/// The reason for which waiting for an object is of no use.
pub(super) enum NoUse {
    /// Another daemon follows the source.
    Standby(String),
    /// Somebody must act on these objects first.
    Stuck(Vec<String>),
}

impl WaitProgress {
    /// Prints the changes since the last read. Returns why it is of no use to wait on, if that is so.
    pub(super) async fn look(
        &mut self,
        globals: &Globals,
        (folder, history): (&Path, &History),
        records: &[Record],
    ) -> Option<NoUse> {
        let published = ask_daemon(folder).await;
        if self.is_newly_unanswered(published.is_none(), Instant::now()) {
            progress(plain(&format!("no daemon answers in {}; waiting for one", folder.display())));
        }
        self.say_sources(history, published.as_ref(), records);
        if let Some(why) = published.as_ref().and_then(|published| standby(published, records)) {
            return Some(NoUse::Standby(why));
        }
        // The newest record of an object counts, and it comes first.
        let mut newest: BTreeMap<(String, ObjectKey), &Record> = BTreeMap::new();
        records.iter().for_each(|record| {
            newest.entry((record.source.clone(), record.object.clone())).or_insert(record);
        });
        for (key, record) in newest {
            self.say_object(key, record, published.as_ref(), history);
        }
        self.stuck(globals).await
    }

    /// Returns `: 2 of 3 objects are through`; nothing before the commit's first object is known.
    pub(super) fn count(&self) -> String {
        let through = self.said.values().filter(|said| !said.is_open).count();
        match self.said.len() {
            0 => String::new(),
            all => format!(": {through} of {} through", counted(all, "object")),
        }
    }

    /// Returns true once, when no daemon has answered for a while.
    fn is_newly_unanswered(&mut self, is_unanswered: bool, now: Instant) -> bool {
        if !is_unanswered {
            self.unanswered = None;
            return false;
        }
        let (since, is_said) = self.unanswered.get_or_insert((now, false));
        let is_news = !*is_said && now >= *since + STILL;
        *is_said |= is_news;
        is_news
    }

    /// Prints, for each source that the commit came to, or may come to, the obstacle that keeps it from being followed.
    fn say_sources(
        &mut self,
        history: &History,
        published: Option<&BTreeMap<String, PublishedSource>>,
        records: &[Record],
    ) {
        let now = Clock::system().now();
        let names = history.followed().unwrap_or_default().into_iter().map(|followed| followed.source);
        for name in names.filter(|name| is_of(records, name)) {
            let standing = match published.and_then(|published| published.get(&name)) {
                Some(published) => Some(published.standing.clone()),
                None => history.standing(&name).ok().flatten(),
            };
            let Some(standing) = standing.map(|standing| standing.as_of(now)) else { continue };
            let why = standing.waits.or(standing.blocked).unwrap_or_default();
            if self.sources.insert(name.clone(), why.clone()).as_ref() != Some(&why) && !why.is_empty() {
                progress(plain(&format!("source {name}: {why}")));
            }
        }
    }

    fn say_object(
        &mut self,
        key: (String, ObjectKey),
        record: &Record,
        published: Option<&BTreeMap<String, PublishedSource>>,
        history: &History,
    ) {
        let source = published.and_then(|published| published.get(&record.source));
        let rollout = source.and_then(|source| source.under_way.iter().find(|(object, _)| *object == record.object));
        let is_open = !record.outcome.is_final();
        let message = match rollout.filter(|_| is_open) {
            Some((_, rollout)) => {
                let wrong = rollout.wrong.as_ref().map(|wrong| format!("; {wrong}")).unwrap_or_default();
                format!("{}: {}{wrong}", rollout.state, rollout.message)
            }
            None => {
                let waits_for = step_details::waits_for(history, record).ok().flatten();
                let more = waits_for.or_else(|| record.reason.as_ref().map(ToString::to_string));
                let more = more.map(|more| format!(": {more}")).unwrap_or_default();
                format!("{}{more}", record.outcome)
            }
        };
        let line = plain(&format!("{}: {message}", record.object));
        if self.said.get(&key).is_some_and(|said| said.line == line) {
            return;
        }
        progress(&line);
        self.said.insert(key, Said { line, is_open, look_at: Instant::now() + STILL });
    }

    /// Returns the objects that have not changed for a while and that somebody must act on, if there are no others that
    /// still move.
    async fn stuck(&mut self, globals: &Globals) -> Option<NoUse> {
        let (now, mut stuck) = (Instant::now(), Vec::new());
        let open: Vec<(ObjectKey, Instant)> = self
            .said
            .iter()
            .filter(|(_, said)| said.is_open)
            .map(|((_, key), said)| (key.clone(), said.look_at))
            .collect();
        if open.is_empty() || open.iter().any(|(_, look_at)| *look_at > now) {
            return None;
        }
        let cluster = self.cluster.get(globals).await?;
        for (key, _) in &open {
            // If one moves on by itself, the others may with it.
            let live = live(&cluster, key).await?;
            stuck.push(format!("{key}: {}", waits_for_somebody(key, &live)?));
        }
        Some(NoUse::Stuck(stuck))
    }
}

/// Returns an object as it is live; `None` if it is not there, or can't be read.
pub(super) async fn live(cluster: &Cluster, key: &ObjectKey) -> Option<Value> {
    let group = if key.group.is_empty() { String::new() } else { format!("{}/", key.group) };
    let discovered = cluster.discover().await.ok()?;
    for api_version in discovered.api_versions.iter().filter_map(|found| found.strip_suffix(&format!("/{}", key.kind)))
    {
        let is_of_group = match group.as_str() {
            "" => !api_version.contains('/'),
            group => api_version.starts_with(group),
        };
        if is_of_group && let Ok(served) = cluster.served(api_version, &key.kind).await {
            return cluster.get(key, &served).await.ok().flatten();
        }
    }
    None
}

/// Returns the obstacle of a live object that only a person can remove; `None` if it may move by itself.
fn waits_for_somebody(key: &ObjectKey, live: &Value) -> Option<String> {
    let finalizers = live["metadata"]["finalizers"].as_array();
    let named = finalizers.into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    if live["metadata"].get("deletionTimestamp").is_some() && !named.is_empty() {
        return Some(format!("is being deleted, and waits for whoever removes its finalizer {named}"));
    }
    if let Some(why) = namespace_stays(live).filter(|_| key.kind == "Namespace") {
        return Some(format!("is being deleted, and stays: {why}"));
    }
    if let Some(why) = marks::suspension(live) {
        return Some(format!("is suspended: {why} (belay resume-sync {} takes it up again)", argument(key)));
    }
    if live["spec"]["suspend"] == true && is_suspended_by_manifest(live) {
        return Some("is suspended by spec.suspend of its manifest (a commit lets it go on)".to_owned());
    }
    if let Some(canary) = LiveCanary::on(live) {
        return canary_waits(key, canary);
    }
    let paused = live["spec"]["paused"] == true;
    paused.then(|| format!("is paused (belay resume {} lets it go on)", argument(key)))
}

/// Returns the words for a canary that waits until a person promotes it; `None` if it goes on by itself.
pub(super) fn canary_waits(key: &ObjectKey, canary: LiveCanary) -> Option<String> {
    let waits = canary.waits_for_promotion;
    waits.then(|| format!("waits at {canary} (belay promote {} lets it go on)", argument(key)))
}

/// Returns true when belay wrote that a Job is suspended. A controller that queues Jobs lets those go on that it suspended.
fn is_suspended_by_manifest(live: &Value) -> bool {
    let entries = live["metadata"]["managedFields"].as_array().into_iter().flatten();
    let mut applied = entries.filter(|entry| entry["manager"] == marks::FIELD_MANAGER && entry["operation"] == "Apply");
    applied.any(|entry| entry.pointer("/fieldsV1/f:spec/f:suspend").is_some())
}

/// Returns why the daemon here does not roll the commit out, if another follows all the sources that it is for.
fn standby(published: &BTreeMap<String, PublishedSource>, records: &[Record]) -> Option<String> {
    let mut of: Vec<(&String, &PublishedSource)> = published.iter().filter(|(name, _)| is_of(records, name)).collect();
    of.sort_by_key(|(_, source)| source.standing.follower.standby);
    let (name, first) = of.first()?;
    let waits = first.standing.waits.as_deref().unwrap_or("another daemon follows it");
    first.standing.follower.standby.then(|| format!("source {name} {waits}"))
}

/// Returns true when a source is one of those that the commit touches; as long as that is not known, any may be.
fn is_of(records: &[Record], source: &str) -> bool {
    records.is_empty() || records.iter().any(|record| record.source == source)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::history::{Follower, SourceStanding};

    #[test]
    fn what_only_somebody_can_let_go_on_is_no_use_to_wait_for() {
        let key = ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "web".to_owned(),
        };
        let suspended = |manager: &str| json!([{"manager": manager, "operation": "Apply", "fieldsV1": {"f:spec": {"f:suspend": {}}}}]);
        for (live, why) in [
            (json!({"metadata": {}, "spec": {}}), None),
            (json!({"metadata": {"finalizers": ["a/b"]}, "spec": {"paused": false}}), None),
            (json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), None),
            (
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b", "c"]}}),
                Some("is being deleted, and waits for whoever removes its finalizer a/b, c"),
            ),
            (
                json!({"metadata": {"annotations": {marks::SUSPEND: "a fair"}}}),
                Some("is suspended: a fair (belay resume-sync deployment.apps/web -n shop takes it up again)"),
            ),
            (
                json!({"metadata": {}, "spec": {"paused": true}}),
                Some("is paused (belay resume deployment.apps/web -n shop lets it go on)"),
            ),
            (json!({"metadata": {"managedFields": suspended("kueue")}, "spec": {"suspend": true}}), None),
            (json!({"metadata": {"managedFields": suspended(marks::FIELD_MANAGER)}, "spec": {"suspend": false}}), None),
            (
                json!({"metadata": {"managedFields": suspended(marks::FIELD_MANAGER)}, "spec": {"suspend": true}}),
                Some("is suspended by spec.suspend of its manifest (a commit lets it go on)"),
            ),
        ] {
            assert_eq!(waits_for_somebody(&key, &live).as_deref(), why, "{live}");
        }
    }

    #[test]
    fn a_daemon_that_does_not_answer_is_told_of_once_that_has_lasted() {
        let (mut waiting, began) = (WaitProgress::default(), Instant::now());
        let mut is_told = |seconds: u64, is_unanswered: bool| {
            waiting.is_newly_unanswered(is_unanswered, began + Duration::from_secs(seconds))
        };
        assert!(!is_told(0, true) && !is_told(4, true) && is_told(5, true) && !is_told(60, true));
        assert!(!is_told(61, false) && !is_told(62, true) && is_told(67, true));
    }

    #[test]
    fn a_standby_is_no_use_to_wait_for() {
        let source = |standby: bool| PublishedSource {
            standing: SourceStanding {
                waits: standby.then(|| "waits: the daemon two follows this source already".to_owned()),
                follower: Follower { standby, ..Follower::default() },
                ..SourceStanding::default()
            },
            ..PublishedSource::default()
        };
        let published =
            |shop, infra| BTreeMap::from([("shop".to_owned(), source(shop)), ("infra".to_owned(), source(infra))]);
        let waits = "source infra waits: the daemon two follows this source already";
        assert_eq!(standby(&published(true, true), &[]).as_deref(), Some(waits));
        assert_eq!(standby(&published(false, true), &[]), None, "it may be for the other one");
        assert_eq!(standby(&BTreeMap::new(), &[]), None);
    }
}
