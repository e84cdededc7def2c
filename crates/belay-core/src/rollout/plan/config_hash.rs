//! A hash in a pod template of the ConfigMaps and Secrets that its pods read, so that a change of those is one of the
//! template, and rolls the workload out.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::manifest::{ManifestHash, ObjectKey, hex};
use crate::rollout::{Workload, marks, workload};

/// The prefix that makes these hashes differ from all others of the same texts.
const PURPOSE: &str = "belay.dev/config-hash 1\n";
/// The contents of a ConfigMap or Secret. Labels and annotations are not read by pods.
const CONTENTS: [&str; 3] = ["data", "binaryData", "stringData"];

/// The configuration hash for the pod template of one workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigHash {
    /// The hash of the configuration as the repository has it; `None` if a change of it is not to roll the workload
    /// out, or if it names none of the repository's.
    pub asked: Option<String>,
    /// The condition under which it is asked for, if there is one.
    pub only: Option<Only>,
    /// True when the plan is about a change of the configuration. A template without a hash gets one with that, or with
    /// another change of the template, and not for being asked for alone.
    pub changed: bool,
    /// The hash that is sent: decided when the live object is known.
    pub sent: Option<String>,
}

/// The workloads for which a hash is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// A workload whose template has a hash already: nobody knows its source's setting.
    WhereSaid,
    /// A new workload: the hash of a live one stays as it is for now.
    New,
}

impl ConfigHash {
    /// Decides the hash when the live object is known: `said` is the hash that its template has. `None` if there is
    /// no object.
    #[must_use]
    pub fn decided(self, said: Option<Option<&str>>) -> ConfigHash {
        let fits = match self.only {
            None => true,
            Some(Only::WhereSaid) => matches!(said, Some(Some(_))),
            Some(Only::New) => said.is_none(),
        };
        let as_said = || said.flatten().map(str::to_owned);
        let asked = ConfigHash { asked: if fits { self.asked } else { as_said() }, only: None, ..self };
        match said {
            None => asked.anew(),
            Some(said) => ConfigHash { sent: asked.beside(said), ..asked },
        }
    }

    /// Returns the hash that is sent for as long as nothing else of the template changes.
    fn beside(&self, said: Option<&str>) -> Option<String> {
        match said {
            None if !self.changed => None,
            _ => self.asked.clone().or_else(|| said.map(str::to_owned)),
        }
    }

    /// Returns the hash of a new object, and of one whose template changes.
    #[must_use]
    pub fn anew(self) -> ConfigHash {
        ConfigHash { sent: self.asked.clone(), ..self }
    }

    /// Returns a hash that keeps a template as it was rolled out, whatever the repository holds now.
    #[must_use]
    pub fn as_it_was(rolled_out: Option<String>) -> ConfigHash {
        ConfigHash { asked: rolled_out.clone(), sent: rolled_out, ..ConfigHash::default() }
    }
}

/// Returns true when a change of the configuration rolls a workload out: its manifest decides, else its source. A Job's
/// template can't change.
#[must_use]
pub fn rolls_on_config(key: &ObjectKey, manifest: &Value, of_source: bool) -> bool {
    let own = marks::annotation(manifest, marks::ROLL_ON_CONFIG).map(|text| text == "true");
    Workload::of(key).is_some_and(Workload::can_go_back) && own.unwrap_or(of_source)
}

/// Returns the hash of a ConfigMap's or Secret's content; for another kind, of nothing.
#[must_use]
pub fn contents_hash(manifest: &Value) -> ManifestHash {
    let held = CONTENTS.iter().filter_map(|name| Some(((*name).to_owned(), manifest.get(*name)?.clone())));
    ManifestHash::of(&Value::Object(held.collect()))
}

/// Returns one hash of all that the pods of a template read, from those that the repository has; `None` if it has
/// none of them. All 256 bits, over everything that all of them hold: who does not know the rest can't try a single
/// value.
#[must_use]
pub fn config_hash<'a>(contents: impl IntoIterator<Item = (&'a ObjectKey, ManifestHash)>) -> Option<String> {
    let mut digest = Sha256::new_with_prefix(PURPOSE);
    let mut any = false;
    for (key, hash) in contents {
        any = true;
        digest.update(format!("{key}\n{hash}\n"));
    }
    any.then(|| hex(&digest.finalize()))
}

/// Returns the hash that a pod template says.
#[must_use]
pub fn config_hash_in(template: &Value) -> Option<&str> {
    marks::annotation(template, marks::CONFIG_HASH)
}

/// Lets the pod template of an object say this hash; with `None`, none. An object without a template stays as it is.
pub fn say_config_hash(object: &mut Value, hash: Option<&str>) {
    if workload::template(object).is_none() {
        return;
    }
    let template = &mut object["spec"]["template"];
    let Some(hash) = hash else {
        if let Some(Value::Object(said)) = template.pointer_mut("/metadata/annotations") {
            said.remove(marks::CONFIG_HASH);
        }
        return;
    };
    for path in ["/metadata", "/metadata/annotations"] {
        let (parent, name) = path.rsplit_once('/').unwrap_or_default();
        let Some(Value::Object(parent)) = template.pointer_mut(parent) else { return };
        let member = parent.entry(name).or_insert_with(|| Map::new().into());
        if !member.is_object() {
            *member = json!({});
        }
    }
    template["metadata"]["annotations"][marks::CONFIG_HASH] = json!(hash);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(asked: &ConfigHash, said: Option<Option<&str>>) -> Option<String> {
        asked.clone().decided(said).sent
    }

    fn asked(changed: bool, only: Option<Only>) -> ConfigHash {
        ConfigHash { asked: Some("new".to_owned()), only, changed, sent: None }
    }

    #[test]
    fn a_template_without_a_hash_gets_one_when_the_configuration_changes() {
        let new = Some("new".to_owned());
        assert_eq!(sent(&asked(false, None), Some(None)), None, "being asked for is no reason to roll out");
        assert_eq!(asked(false, None).decided(Some(None)).anew().sent, new, "with another change of the template");
        assert_eq!(sent(&asked(true, None), Some(None)), new);
        assert_eq!(sent(&asked(false, None), Some(Some("old"))), new);
        assert_eq!(sent(&asked(false, None), None), new, "a new object");
    }

    #[test]
    fn what_is_not_asked_for_any_more_stays_until_the_template_changes() {
        let no_more = ConfigHash::default().decided(Some(Some("old")));
        assert_eq!(no_more.sent.as_deref(), Some("old"));
        assert_eq!(no_more.anew().sent, None);
    }

    #[test]
    fn a_condition_is_met_or_nothing_is_asked_for() {
        let (new, old) = (Some("new".to_owned()), Some("old".to_owned()));
        let where_said = asked(true, Some(Only::WhereSaid));
        assert_eq!((sent(&where_said, None), sent(&where_said, Some(None))), (None, None));
        assert_eq!(sent(&where_said, Some(Some("old"))), new);
        let only_new = asked(true, Some(Only::New));
        assert_eq!((sent(&only_new, None), sent(&only_new, Some(None))), (new, None));
        assert_eq!(sent(&only_new, Some(Some("old"))), old);
        assert_eq!(only_new.decided(Some(Some("old"))).anew().sent, old, "also when its template changes");
    }

    #[test]
    fn a_template_says_what_it_is_told_to() {
        let empty = json!({"spec": {"template": {"spec": {}}}});
        let mut object = empty.clone();
        say_config_hash(&mut object, None);
        assert_eq!(object, empty);
        for before in [json!({}), json!({"metadata": null}), json!({"metadata": {"annotations": {"a": "b"}}})] {
            let mut object = json!({"spec": {"template": before}});
            say_config_hash(&mut object, Some("hash"));
            assert_eq!(config_hash_in(&object["spec"]["template"]), Some("hash"), "{object}");
            say_config_hash(&mut object, None);
            assert_eq!(config_hash_in(&object["spec"]["template"]), None);
        }
        let mut other = json!({"data": {}});
        say_config_hash(&mut other, Some("hash"));
        assert_eq!(other, json!({"data": {}}));
    }

    #[test]
    fn only_what_pods_read_of_an_object_counts() {
        let map = |value: &str, team: &str| json!({"kind": "ConfigMap", "metadata": {"labels": {"team": team}}, "data": {"A": value}});
        assert_eq!(contents_hash(&map("1", "a")), contents_hash(&map("1", "b")));
        assert_ne!(contents_hash(&map("1", "a")), contents_hash(&map("2", "a")));
    }

    #[test]
    fn the_hash_is_whole_and_of_all() {
        let key = |name: &str| ObjectKey {
            group: String::new(),
            kind: "Secret".to_owned(),
            namespace: Some("shop".to_owned()),
            name: name.to_owned(),
        };
        let of = |text: &str| contents_hash(&json!({"data": {"token": text}}));
        let (one, other) = (key("one"), key("other"));
        let hash = config_hash([(&one, of("1")), (&other, of("2"))]).unwrap();
        assert_eq!(hash.len(), 64);
        assert_ne!(Some(hash), config_hash([(&one, of("1")), (&other, of("3"))]));
        assert_ne!(config_hash([(&one, of("1"))]), Some(of("1").to_string()));
        assert_eq!(config_hash([]), None);
    }

    #[test]
    fn the_manifest_has_the_last_word() {
        let key = |group: &str, kind: &str| ObjectKey {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: None,
            name: "web".to_owned(),
        };
        let says = |text: &str| json!({"metadata": {"annotations": {marks::ROLL_ON_CONFIG: text}}});
        let web = key("apps", "Deployment");
        assert!(rolls_on_config(&web, &says("true"), false));
        assert!(!rolls_on_config(&web, &says("false"), true));
        assert!(rolls_on_config(&web, &json!({}), true));
        assert!(!rolls_on_config(&web, &json!({}), false));
        assert!(!rolls_on_config(&key("batch", "Job"), &says("true"), true));
    }
}
