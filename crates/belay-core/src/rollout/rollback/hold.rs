//! A hold: the mark that keeps a failed manifest from being applied again.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::manifest::ObjectKey;
use crate::rollout::ownership::field_path::FieldPath;
use crate::rollout::ownership::ignored_fields::IgnoredFields;
use crate::rollout::template::without_restart;
use crate::rollout::{CommitId, marks};

/// The most companions that one hold names, so that the annotation stays small.
const COMPANIONS: usize = 20;

/// The held manifest, and the reason. Written as JSON into the annotation [`marks::HOLD`], in the same write that takes
/// the workload back; so it survives lost history files, restarts and moved daemons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hold {
    /// The hash of the manifest that is held.
    pub manifest: String,
    /// The hash of the ConfigMaps and Secrets that its pod template names, as the repository had them; `None` if it
    /// names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// The short hash of the pod template that the workload went back to, without the time of a restart: its template
    /// while it is held. Empty for an
    /// object without one, a ConfigMap that went back with the workload that it failed with: that has its former
    /// manifest.
    pub template: String,
    /// The fields of that template that are left alone: they may change, and it is the same one.
    #[serde(default, rename = "leftAlone", skip_serializing_if = "Vec::is_empty")]
    pub ignored_fields: Vec<FieldPath>,
    /// The commit that brought the held manifest.
    pub commit: CommitId,
    /// The reason, in a sentence.
    pub reason: String,
    /// The time of the hold.
    pub since: Timestamp,
    /// The objects that failed, if this one only went back with them. It is released when one of their manifests
    /// changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<Companion>,
    /// The person who rolled it back by hand with `belay undo`; `None` if belay did so itself. The daemon writes it
    /// down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// An object that failed, and with which others went back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Companion {
    /// The object.
    pub object: ObjectKey,
    /// The hash of its manifest that failed.
    pub manifest: String,
}

impl Hold {
    /// Returns the hold on a manifest that names this configuration, because of a commit's change. It is about no pod
    /// template.
    #[must_use]
    pub fn new(manifest: &str, config: Option<&str>, commit: &CommitId, reason: &str, since: Timestamp) -> Hold {
        Hold {
            manifest: manifest.to_owned(),
            config: config.map(str::to_owned),
            template: String::new(),
            ignored_fields: Vec::new(),
            commit: commit.clone(),
            reason: reason.to_owned(),
            since,
            with: Vec::new(),
            by: None,
        }
    }

    /// Returns the same hold, left by somebody with `belay undo`.
    #[must_use]
    pub fn left_by(self, by: &str) -> Hold {
        Hold { by: Some(by.to_owned()), ..self }
    }

    /// Returns the hold on a live object. A text that is not a hold (somebody wrote it by hand) holds nothing.
    #[must_use]
    pub fn on(object: &Value) -> Option<Hold> {
        marks::read(object, marks::HOLD)
    }

    /// Returns the annotation's text.
    #[must_use]
    pub fn to_annotation(&self) -> String {
        marks::written(self)
    }

    /// Returns true when it keeps this manifest from being applied. A hold for another manifest, or from when the
    /// configuration that it names was another, does nothing: the change releases it.
    #[must_use]
    pub fn keeps(&self, manifest: &str, config: Option<&str>) -> bool {
        self.manifest == manifest && self.config.as_deref() == config
    }

    /// Returns true when it is about a workload that has this pod template. A restart leaves it the same.
    #[must_use]
    pub fn is_about(&self, template: &Value) -> bool {
        let ignored_fields = IgnoredFields::of(&self.ignored_fields);
        // Earlier builds wrote the time of a restart into the hash.
        self.template == held_template_hash(template, &ignored_fields)
            || self.template == ignored_fields.template_hash(template)
    }

    /// Returns the same hold about this pod template, of which these fields are left alone.
    #[must_use]
    pub fn about(self, template: &Value, ignored_fields: &IgnoredFields) -> Hold {
        let template = held_template_hash(template, ignored_fields);
        Hold { template, ignored_fields: ignored_fields.in_template(), ..self }
    }

    /// Returns the same hold about a pod template that took the place of the one that it was about.
    #[must_use]
    pub fn moved_to(self, template: &Value) -> Hold {
        let ignored_fields = IgnoredFields::of(&self.ignored_fields);
        self.about(template, &ignored_fields)
    }

    /// Returns true when the manifests of all objects that it went back with still are the ones that failed; `hash`
    /// knows the repository's.
    #[must_use]
    pub fn keeps_companions(&self, hash: impl Fn(&ObjectKey) -> Option<String>) -> bool {
        self.with.iter().all(|companion| hash(&companion.object).as_ref() == Some(&companion.manifest))
    }

    /// Returns the same hold, for an object that only went back with these.
    #[must_use]
    pub fn together_with(mut self, companions: impl IntoIterator<Item = Companion>) -> Hold {
        self.with = companions.into_iter().take(COMPANIONS).collect();
        self
    }
}

/// Returns the short hash by which a hold names a pod template: without the time of a restart, and without the fields
/// that are left alone.
#[must_use]
pub fn held_template_hash(template: &Value, ignored_fields: &IgnoredFields) -> String {
    ignored_fields.template_hash(&without_restart(template))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hold() -> Hold {
        Hold {
            manifest: "abc".to_owned(),
            config: None,
            template: "0123456789abcdef".to_owned(),
            ignored_fields: Vec::new(),
            commit: "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d".parse().unwrap(),
            reason: "exceeded its progress deadline".to_owned(),
            since: "2026-11-21T01:02:03Z".parse().unwrap(),
            with: Vec::new(),
            by: None,
        }
    }

    #[test]
    fn a_hold_is_read_back_as_it_was_written() {
        let object = json!({"metadata": {"annotations": {marks::HOLD: hold().to_annotation()}}});
        assert_eq!(Hold::on(&object), Some(hold()));
    }

    #[test]
    fn it_is_about_its_template_whatever_is_decided_of_what_is_left_alone() {
        let template = |image: &str, cpu: u64| json!({"spec": {"image": image, "cpu": cpu}});
        let cpu: FieldPath = "/spec/template/spec/cpu".parse().unwrap();
        let replicas: FieldPath = "/spec/replicas".parse().unwrap();
        let held = hold().about(&template("web:1", 1), &IgnoredFields::of([&cpu, &replicas]));
        assert_eq!(held.ignored_fields, [cpu]);
        let object = json!({"metadata": {"annotations": {marks::HOLD: held.to_annotation()}}});
        let held = Hold::on(&object).unwrap();
        assert!(held.is_about(&template("web:1", 2)) && !held.is_about(&template("web:2", 1)));
        assert!(held.moved_to(&template("web:3", 1)).is_about(&template("web:3", 9)));
        let plain = hold().about(&template("web:1", 1), &IgnoredFields::default());
        assert!(plain.is_about(&template("web:1", 1)) && !plain.is_about(&template("web:1", 2)));
        assert!(!plain.to_annotation().contains("leftAlone"));
    }

    #[test]
    fn a_restart_leaves_it_about_its_template() {
        let template = |restarted: Option<&str>, image: &str| {
            let annotations = restarted.map(|at| json!({marks::RESTARTED_AT: at})).unwrap_or_default();
            json!({"metadata": {"annotations": annotations}, "spec": {"image": image}})
        };
        for before in [None, Some("2026-11-20T01:02:03Z")] {
            let held = hold().about(&template(before, "web:1"), &IgnoredFields::default());
            for now in [None, before, Some("2026-11-21T09:00:00Z")] {
                assert!(held.is_about(&template(now, "web:1")), "{before:?} {now:?}");
                assert!(!held.is_about(&template(now, "web:2")), "{before:?} {now:?}");
            }
        }
        let template = template(Some("2026-11-20T01:02:03Z"), "web:1");
        let of_an_earlier_build = Hold { template: IgnoredFields::default().template_hash(&template), ..hold() };
        assert!(of_an_earlier_build.is_about(&template));
    }

    #[test]
    fn it_keeps_only_its_own_manifest_with_its_own_configuration() {
        assert!(hold().keeps("abc", None));
        assert!(!hold().keeps("abd", None));
        assert!(!hold().keeps("abc", Some("1")));
    }

    #[test]
    fn what_went_back_with_another_is_let_go_with_it() {
        let object = ObjectKey { group: String::new(), kind: "Pod".to_owned(), namespace: None, name: "a".to_owned() };
        let held = hold().together_with([Companion { object, manifest: "1".to_owned() }]);
        assert!(held.keeps_companions(|_| Some("1".to_owned())));
        assert!(!held.keeps_companions(|_| Some("2".to_owned())));
        assert!(!held.keeps_companions(|_| None));
        assert!(hold().keeps_companions(|_| None));
    }

    #[test]
    fn what_is_no_hold_holds_nothing() {
        for text in ["", "true", "{}", "[1", "{\"manifest\": 3}"] {
            assert_eq!(Hold::on(&json!({"metadata": {"annotations": {marks::HOLD: text}}})), None, "{text}");
        }
    }
}
