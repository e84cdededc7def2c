//! Hooks of Helm's charts that are deleted when those that may need them have succeeded.

use serde_json::Value;

use super::after::names;
use crate::manifest::{HookDeletion, Manifest, ObjectKey, deletes_hook};
use crate::rollout::{Outcome, Record, marks};

/// A hook that is deleted when others have succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookUntil {
    /// The hook.
    pub object: ObjectKey,
    /// The Jobs and Pods that may need it.
    pub names: Vec<ObjectKey>,
}

impl HookUntil {
    /// Returns the others of a manifest, whose value is given; `None` if it is no such hook.
    #[must_use]
    pub fn of(manifest: &Manifest, value: &Value) -> Option<HookUntil> {
        let text = marks::annotation(value, marks::UNTIL)?;
        let is_rendered = marks::annotation(value, marks::HOOK_RUN).is_some();
        if !is_rendered || !deletes_hook(value, HookDeletion::Succeeded) {
            return None;
        }
        let key = &manifest.key;
        let names = if text.is_empty() { Vec::new() } else { names(text, key.namespace.as_deref()).ok()? };
        Some(HookUntil { object: key.clone(), names })
    }

    /// Returns true when it is to be deleted: those that may need it have succeeded.
    #[must_use]
    pub fn is_over(&self, has_succeeded: impl Fn(&ObjectKey) -> bool) -> bool {
        self.names.iter().all(has_succeeded)
    }
}

/// Returns true when a hook has succeeded for a manifest with this hash, by its newest record, or by what the cluster remembers
/// where there is none. A hook for installing, which is `once`, succeeds for all that its manifest may become.
#[must_use]
pub fn has_succeeded(newest: Option<&Record>, remembered: Option<&str>, hash: &str, once: bool) -> bool {
    let Some(newest) = newest else { return remembered == Some(hash) };
    let is_well = matches!(newest.outcome, Outcome::Complete | Outcome::Unchanged);
    is_well && (once || newest.manifest_hash.as_deref() == Some(hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Scopes, read_file};

    fn until(annotations: &str) -> Option<HookUntil> {
        let text =
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: script, annotations: {{{annotations}}}}}\n");
        let file = read_file("a.yaml", text.as_bytes(), &Scopes::new("shop"));
        assert_eq!(file.complaints, []);
        HookUntil::of(&file.manifests[0], &file.manifests[0].value())
    }

    #[test]
    fn a_hook_has_succeeded_for_its_manifest() {
        use Outcome::{Complete, Failed, Skipped, Unchanged, UnderWay, Waiting};
        let commit = "0123456789abcdef0123456789abcdef01234567".parse().unwrap();
        let key = until("helm.sh/hook: pre-install, helm.sh/hook-delete-policy: hook-succeeded, belay.dev/hook-run: a, belay.dev/hook-until: ''").unwrap().object;
        let record = |outcome, hash: &str| {
            let planned = Record::planned("shop", &commit, key.clone(), jiff::Timestamp::UNIX_EPOCH);
            Record { outcome, manifest_hash: Some(hash.to_owned()), ..planned }
        };
        for (outcome, hash, expected) in [
            (Complete, "same", [true, true]),
            (Unchanged, "same", [true, true]),
            (Complete, "other", [false, true]),
            (Failed, "same", [false, false]),
            (Skipped, "same", [false, false]),
            (UnderWay, "same", [false, false]),
            (Waiting, "other", [false, false]),
        ] {
            let record = record(outcome, hash);
            let found = [false, true].map(|once| has_succeeded(Some(&record), Some("same"), "same", once));
            assert_eq!(found, expected, "{outcome:?} {hash}");
        }
        assert!(has_succeeded(None, Some("same"), "same", false), "the history was lost");
        assert!(!has_succeeded(None, Some("other"), "same", false) && !has_succeeded(None, None, "same", true));
    }

    #[test]
    fn it_is_over_when_all_that_need_it_have_succeeded() {
        let hook = "helm.sh/hook: pre-install, helm.sh/hook-delete-policy: hook-succeeded, belay.dev/hook-run: a";
        let both = until(&format!("{hook}, belay.dev/hook-until: 'job/create, infra/pod/patch'")).unwrap();
        let names: Vec<String> = both.names.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["Job shop/create", "Pod infra/patch"]);
        assert!(both.is_over(|_| true) && !both.is_over(|name| name.name == "create"));
        assert!(until(&format!("{hook}, belay.dev/hook-until: ''")).unwrap().is_over(|_| false), "nobody needs it");
        assert_eq!(until(hook), None);
        for (what, annotations) in [
            ("no hook", "belay.dev/hook-until: job/create"),
            ("not of a chart", "helm.sh/hook-delete-policy: hook-succeeded, belay.dev/hook-until: job/create"),
            ("it stays", "helm.sh/hook: pre-install, belay.dev/hook-run: a, belay.dev/hook-until: job/create"),
        ] {
            assert_eq!(until(annotations), None, "{what}");
        }
        assert_eq!(until(&format!("{hook}, belay.dev/hook-until: nonsense")), None);
    }
}
