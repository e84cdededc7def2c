//! The objects around a workload: what selects its pods or scales it, what it waits for, and the configuration that it reads.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::components::{Link, Mark};
use super::workload_row::address;
use crate::daemon::SourceStatus;
use crate::history::{History, HistoryError, Query};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Outcome, Workload, awaited, named_configuration, template};

/// The number of related objects, and of ConfigMaps and Secrets, that are shown.
const SHOWN: usize = 50;

/// An object around a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RelatedRow {
    pub object: ObjectKey,
    /// Its page, if it is a workload that is known.
    pub link: Option<String>,
    pub relation: &'static str,
    pub mark: Option<Mark>,
    pub state: String,
}

/// A ConfigMap or Secret that the pod template names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfigurationRow {
    pub object: ObjectKey,
    /// Its last change, as belay recorded it.
    pub changed: Option<ConfigurationChange>,
}

/// A change of a ConfigMap or Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfigurationChange {
    pub at: Timestamp,
    pub commit: Link,
}

/// Returns the objects of its source around a live workload.
pub(super) fn related(name: &str, source: &SourceStatus, workload: &ObjectKey, live: &Value) -> Vec<RelatedRow> {
    let Some(pods) = template(live) else { return Vec::new() };
    let about = source.related.iter().filter(|(key, related)| related.is_about(key, workload, pods));
    let about = about.map(|(key, related)| RelatedRow {
        object: key.clone(),
        link: None,
        relation: if key.kind == "HorizontalPodAutoscaler" { "scales it" } else { "selects its pods" },
        mark: related.is_wrong.then_some(TROUBLE),
        state: related.state.clone(),
    });
    let before = awaited(live, workload.namespace.as_deref()).unwrap_or_default().into_iter();
    about.chain(before.map(|key| RelatedRow::awaited(name, source, key))).take(SHOWN).collect()
}

/// The mark of an object that can't do its work.
const TROUBLE: Mark = Mark { class: "bad", shape: "✖", word: "trouble" };

impl RelatedRow {
    /// Returns a workload that is rolled out before this one.
    fn awaited(name: &str, source: &SourceStatus, key: ObjectKey) -> RelatedRow {
        let live = source.workloads.get(&key);
        let is_known = live.is_some() || source.under_way.contains_key(&key) || source.ended.contains_key(&key);
        let state = match live {
            Some(live) => live.message.clone(),
            // The daemon does not know the state of objects of other kinds.
            None if is_known || Workload::of(&key).is_none() => String::new(),
            None => "not in the cluster".to_owned(),
        };
        RelatedRow {
            link: is_known.then(|| address(name, &key)),
            relation: "goes before it",
            mark: is_known.then(|| Mark::of(source.state_of_workload(&key))),
            state,
            object: key,
        }
    }
}

/// Returns the ConfigMaps and Secrets that the pod template of a live workload names.
pub(super) fn configuration_of(workload: &ObjectKey, live: &Value) -> BTreeSet<ObjectKey> {
    let named = template(live).map(|template| named_configuration(template, workload.namespace.as_deref()));
    named.unwrap_or_default().into_iter().take(SHOWN).collect()
}

/// Returns these ConfigMaps and Secrets with their last changes: names and times, and never a value.
pub(super) fn read_configuration(
    history: &History,
    source: &str,
    named: BTreeSet<ObjectKey>,
) -> Result<Vec<ConfigurationRow>, HistoryError> {
    let row = |object: ObjectKey| {
        // A change that was rolled back was a change, and so was the way back.
        let changes = [Outcome::Complete, Outcome::RolledBack].into();
        let newest = Query { limit: Some(1), outcomes: changes, own: false, ..Query::of(source, &object) };
        let newest = history.records(&newest)?.into_iter().next();
        let changed = newest.map(|record| ConfigurationChange {
            at: record.ended.unwrap_or(record.started),
            commit: Link(record.commit),
        });
        Ok(ConfigurationRow { object, changed })
    };
    named.into_iter().map(row).collect()
}
