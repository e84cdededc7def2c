//! A hold as it was known last, kept beside the cluster. It is in force if the cluster has lost it: the object was
//! deleted, somebody else created it again, or the cluster's store was set back to an older state.

use serde_json::{Map, Value};

use super::target::RollbackTarget;
use crate::rollout::{Hold, TemplateMarks, marks, template, template_hash};

/// A hold, and the further facts for creating the object again with it.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptHold {
    /// The hold.
    pub hold: Hold,
    /// The pod template that the object has while it is held; `None` for objects without one.
    pub template: Option<Value>,
    /// The marks of that template.
    pub marks: TemplateMarks,
    /// The object that has the hold; empty before it was written.
    pub uid: String,
    /// The generation that the object had when it was first seen with the hold; of an object without one, a number below
    /// zero that tells its content.
    pub generation: i64,
}

impl KeptHold {
    /// Returns the hold on a live object. A template that somebody has changed since is not used for that.
    #[must_use]
    pub fn on(live: &Value) -> Option<KeptHold> {
        let hold = Hold::on(live)?;
        let template = template(live).filter(|present| hold.is_about(present)).cloned();
        let (marks, uid) = (TemplateMarks::on(live), marks::uid(live).to_owned());
        Some(KeptHold { hold, template, marks, uid, generation: version(live) })
    }

    /// Returns the hold to keep when this one is seen after `before`. A template that is known stays known.
    #[must_use]
    pub fn after(self, before: Option<&KeptHold>) -> KeptHold {
        let Some(before) = before.filter(|before| before.hold == self.hold) else { return self };
        // A lower generation is that of a cluster whose store was set back since.
        let is_younger = self.generation > before.generation && before.generation > 0;
        let generation = if before.uid == self.uid && is_younger { before.generation } else { self.generation };
        if self.template.is_some() {
            return KeptHold { generation, ..self };
        }
        let (template, marks) = (before.template.clone(), before.marks.clone());
        KeptHold { template, marks, generation, ..self }
    }

    /// Returns the target of the rollback that was decided; `None` if its template is not known.
    #[must_use]
    pub fn target(&self) -> Option<RollbackTarget> {
        let commit = self.marks.commit.as_deref().and_then(|commit| commit.parse().ok());
        let (template, marks) = (self.template.clone()?, self.marks.clone());
        Some(RollbackTarget { template, marks, revision: None, commit })
    }

    /// Returns true when a live object has lost this hold, so that it is to be written again. A person who takes it off
    /// an object leaves the object's identity and generation as they were: that releases it.
    #[must_use]
    pub fn is_lost_on(&self, live: &Value) -> bool {
        let is_the_same = !self.uid.is_empty() && self.uid == marks::uid(live);
        let is_as_it_was =
            if self.generation < 0 { version(live) == self.generation } else { version(live) >= self.generation };
        Hold::on(live).as_ref() != Some(&self.hold) && !(is_the_same && is_as_it_was)
    }
}

/// Returns the generation of an object; below zero, for one without, what tells its content.
fn version(live: &Value) -> i64 {
    let generation = marks::generation(live);
    if generation > 0 {
        return generation;
    }
    let content: Map<String, Value> = live
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(field, _)| !matches!(field.as_str(), "metadata" | "status"))
        .map(|(field, value)| (field.clone(), value.clone()))
        .collect();
    let hash = u64::from_str_radix(&template_hash(&Value::Object(content)), 16).unwrap_or_default();
    -i64::try_from(hash >> 1).unwrap_or(i64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::CommitId;
    use serde_json::json;

    fn hold() -> Hold {
        let commit: CommitId = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d".parse().unwrap();
        let at = "2026-11-21T01:02:03Z".parse().unwrap();
        let template = json!({"spec": {"containers": [{"name": "app", "image": "web:1"}]}});
        Hold::new("abc", None, &commit, "it failed", at).about(&template, &Default::default())
    }

    fn live(uid: &str, generation: i64, image: &str, hold: Option<&Hold>) -> Value {
        let annotations = hold.map(|hold| json!({marks::HOLD: hold.to_annotation()})).unwrap_or_default();
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "uid": uid, "generation": generation, "annotations": annotations},
            "spec": {"template": {"spec": {"containers": [{"name": "app", "image": image}]}}}})
    }

    #[test]
    fn it_is_in_force_where_the_cluster_has_lost_it() {
        let kept = KeptHold::on(&live("1", 7, "web:1", Some(&hold()))).unwrap();
        let unwritten = KeptHold { uid: String::new(), generation: 0, ..kept.clone() };
        let other = Hold { manifest: "another".to_owned(), ..hold() };
        // Each case is a name, the kept hold, the live object, and true if the hold is lost there.
        for (case, kept, live, expected) in [
            ("it has the hold", &kept, live("1", 7, "web:1", Some(&hold())), false),
            ("somebody took it off", &kept, live("1", 7, "web:1", None), false),
            ("somebody took it off and went on", &kept, live("1", 9, "web:3", None), false),
            ("somebody made the object anew", &kept, live("2", 1, "web:2", None), true),
            ("the store was set back", &kept, live("1", 6, "web:2", None), true),
            ("the store was set back to the same hold", &kept, live("1", 6, "web:2", Some(&hold())), false),
            ("the store was set back to an older hold", &kept, live("1", 6, "web:1", Some(&other)), true),
            ("somebody holds another manifest since", &kept, live("1", 9, "web:1", Some(&other)), false),
            ("it was not written yet", &unwritten, live("1", 6, "web:2", None), true),
        ] {
            assert_eq!(kept.is_lost_on(&live), expected, "{case}");
        }
    }

    /// A ConfigMap has no generation: one that is as it was has been released, and one with another content was set back.
    #[test]
    fn what_has_no_generation_is_told_by_its_content() {
        let hold = hold();
        let map = |data: &str, hold: Option<&Hold>| {
            let annotations = hold.map(|hold| json!({marks::HOLD: hold.to_annotation()})).unwrap_or_default();
            json!({"kind": "ConfigMap", "metadata": {"uid": "1", "annotations": annotations}, "data": {"A": data}})
        };
        let kept = KeptHold::on(&map("one", Some(&hold))).unwrap();
        assert!(!kept.is_lost_on(&map("one", None)), "somebody took it off");
        assert!(kept.is_lost_on(&map("two", None)), "the store was set back");
        let drifted = KeptHold::on(&map("three", Some(&hold))).unwrap().after(Some(&kept));
        assert!(drifted.is_lost_on(&map("one", None)) && !drifted.is_lost_on(&map("three", None)));
    }

    #[test]
    fn a_hold_that_was_written_again_after_a_restore_can_be_taken_off() {
        let kept = KeptHold::on(&live("1", 7, "web:1", Some(&hold()))).unwrap();
        let again = KeptHold::on(&live("1", 4, "web:1", Some(&hold()))).unwrap().after(Some(&kept));
        assert!(kept.is_lost_on(&live("1", 4, "web:1", None)));
        assert!(!again.is_lost_on(&live("1", 4, "web:1", None)), "somebody took it off");
        let later = KeptHold::on(&live("1", 9, "web:1", Some(&hold()))).unwrap().after(Some(&again));
        assert!(later.is_lost_on(&live("1", 3, "web:2", None)), "the store was set back once more");
    }

    #[test]
    fn a_template_that_is_known_stays_known() {
        let first = KeptHold::on(&live("1", 7, "web:1", Some(&hold()))).unwrap();
        assert!(first.template.is_some());
        let drifted = KeptHold::on(&live("1", 8, "web:9", Some(&hold()))).unwrap();
        assert_eq!(drifted.template, None);
        assert_eq!(drifted.after(Some(&first)), first, "also since when it is held");
        let again = KeptHold::on(&live("2", 1, "web:1", Some(&hold()))).unwrap().after(Some(&first));
        assert_eq!((again.uid.as_str(), again.generation), ("2", 1));
        let other = Hold { reason: "another".to_owned(), ..hold() };
        let other = KeptHold::on(&live("1", 9, "web:9", Some(&other))).unwrap();
        assert_eq!(other.clone().after(Some(&first)), other);
    }
}
