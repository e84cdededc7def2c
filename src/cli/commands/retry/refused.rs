//! `belay retry` of an object that is not live as its manifest says: refused, waiting, or given up. The request is
//! written on the Lease of its source, which the daemon renews every few seconds; so Kubernetes decides who may ask.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::cli::Globals;
use crate::cli::args::target::{On, named};
use crate::cli::args::workload::Named;
use crate::cli::output::{Format, progress, say, say_value};
use crate::cli::session::source_leases::SourceLeases;
use crate::clock::Clock;
use crate::cluster::{Cluster, Mode};
use crate::history::{History, HistoryError};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{ObjectState, Outcome, ReasonCode, RetryRequest, marks};

/// The objects that a daemon tries again by itself, each with its source and why.
pub(super) type Refused = BTreeMap<ObjectKey, (String, String)>;

/// Takes those words off the list that name an object which the daemon's history knows to be refused or to wait. Without that
/// history, none.
pub(super) fn take_refused(globals: &Globals, on: &mut On, namespace: &str) -> Refused {
    let known = known(globals, |history| {
        let mut known = refused(history)?;
        known.extend(waiting(history)?);
        Ok(known)
    });
    let mut taken = Refused::new();
    on.workloads.retain(|word| {
        let meant: Vec<_> = known.iter().filter(|(key, _)| means(word, key, namespace)).collect();
        let is_meant = !meant.is_empty();
        taken.extend(meant.into_iter().map(|(key, why)| (key.clone(), why.clone())));
        !is_meant
    });
    taken
}

/// Returns the objects in a namespace and those in none, or in all, that the daemon's history knows to be refused or
/// given up. Without that history, none.
pub(super) fn all(globals: &Globals, namespace: Option<&str>) -> Refused {
    let mut all = known(globals, refused);
    let is_here =
        |key: &ObjectKey| namespace.is_none() || key.namespace.is_none() || key.namespace.as_deref() == namespace;
    all.retain(|key, _| is_here(key));
    all
}

fn known(globals: &Globals, of: impl Fn(&History) -> Result<Refused, HistoryError>) -> Refused {
    let history = globals.history_to_look_at().ok().and_then(|location| location.read().ok());
    history.and_then(|history| of(&history).ok()).unwrap_or_default()
}

/// Returns the refused objects of all sources, and those that were given up.
fn refused(history: &History) -> Result<Refused, HistoryError> {
    let mut found = Refused::new();
    for source in history.followed()?.into_iter().map(|followed| followed.source) {
        for (key, standing) in history.object_standings(&source)? {
            let code = standing.reason.as_ref().map(|reason| reason.code.clone());
            let is_given_up = matches!(code, Some(ReasonCode::NotServed | ReasonCode::Missing));
            if standing.state == ObjectState::Rejected || is_given_up {
                let why = standing.reason.map(|reason| reason.message).unwrap_or_default();
                found.insert(key, (source.clone(), why));
            }
        }
    }
    Ok(found)
}

/// Returns the waiting objects of all sources.
fn waiting(history: &History) -> Result<Refused, HistoryError> {
    let mut found = Refused::new();
    for source in history.followed()?.into_iter().map(|followed| followed.source) {
        let open = history.open_records(&source)?.into_iter();
        let waiting = open.filter(|record| record.outcome == Outcome::Waiting);
        found.extend(waiting.map(|record| (record.object, (source.clone(), "it waits".to_owned()))));
    }
    Ok(found)
}

/// Returns true when a word names an object: `secret/key`, or `key`.
fn means(word: &str, key: &ObjectKey, namespace: &str) -> bool {
    let here = key.namespace.as_deref().is_none_or(|other| other == namespace);
    let named = match (word.parse::<Named>(), word.split_once('/')) {
        (Ok(named), _) => named.means(key, None),
        // A kind that is not one of Kubernetes' own.
        (Err(_), Some((kind, name))) => kind.eq_ignore_ascii_case(&key.kind) && name == key.name,
        (Err(_), None) => false,
    };
    here && named
}

/// Asks the daemons of these objects to try them again. `is_alone` is true unless the command prints other objects, too.
pub(super) async fn ask(cluster: &Cluster, on: &On, refused: &Refused, is_alone: bool) -> anyhow::Result<()> {
    let mut by_source: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (key, (source, _)) in refused {
        by_source.entry(source).or_default().insert(key.to_string());
    }
    let leases = SourceLeases::read(cluster).await?;
    let mode = if on.dry_run { Mode::DryRun } else { Mode::Real };
    for (source, objects) in by_source {
        let request = RetryRequest { objects, at: Clock::system().now() };
        leases.annotate(source, marks::RETRY, &request, mode).await?;
    }
    tell(on, refused, is_alone)
}

fn tell(on: &On, refused: &Refused, is_alone: bool) -> anyhow::Result<()> {
    let tried = if on.dry_run { " (server dry run)" } else { "" };
    for (key, (_, why)) in refused {
        progress(format!("note: {}: {why}", named(key)));
        match on.output {
            Format::Table | Format::Wide => say(format!("{} will be tried again{tried}", named(key))),
            Format::Name => say(named(key)),
            Format::Json | Format::Yaml if is_alone => {}
            // Standard output has one document.
            Format::Json | Format::Yaml => progress(format!("{} will be tried again{tried}", named(key))),
        }
    }
    if is_alone && matches!(on.output, Format::Json | Format::Yaml) {
        let names: Vec<String> = refused.keys().map(ToString::to_string).collect();
        say_value(&json!({"triedAgain": names}), on.output)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_any_kind_are_named() {
        let key = |group: &str, kind: &str, namespace: Option<&str>| ObjectKey {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: "a".to_owned(),
        };
        let table = [
            ("secret/a", key("", "Secret", Some("shop")), true),
            ("a", key("", "Secret", Some("shop")), true),
            ("deploy/a", key("apps", "Deployment", Some("shop")), true),
            ("widget/a", key("example.com", "Widget", Some("shop")), true),
            ("a", key("", "Namespace", None), true),
            ("secret/a", key("", "Secret", Some("other")), false),
            ("secret/a", key("", "ConfigMap", Some("shop")), false),
            ("secret/b", key("", "Secret", Some("shop")), false),
            ("widget/a", key("example.com", "Gadget", Some("shop")), false),
        ];
        for (word, key, expected) in table {
            assert_eq!(means(word, &key, "shop"), expected, "{word} {key}");
        }
    }
}
