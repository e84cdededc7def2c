//! Objects as people name them: `web`, `deploy/web`, `deployment.apps/web`.

use std::str::FromStr;

use belay_core::manifest::ObjectKey;
use kube_facts::facts;

/// A name that was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The kind, if it was said: group (if said) and kind.
    pub kind: Option<(String, String)>,
    /// The name.
    pub name: String,
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Named, String> {
        let Some((kind, name)) = text.split_once('/') else {
            return if text.is_empty() {
                Err("a name is missing".to_owned())
            } else {
                Ok(Named { kind: None, name: text.to_owned() })
            };
        };
        if name.is_empty() || name.contains('/') {
            return Err(format!("{text:?} is not KIND/NAME; name the namespace with -n"));
        }
        match facts().called(kind) {
            Some(known) => Ok(Named { kind: Some((known.group.clone(), known.kind.clone())), name: name.to_owned() }),
            None => Err(format!("there is no kind {kind:?}; say deployment, statefulset, daemonset …")),
        }
    }
}

impl Named {
    /// Returns true when an object is meant, in `namespace` or, with `None`, in any.
    #[must_use]
    pub fn means(&self, key: &ObjectKey, namespace: Option<&str>) -> bool {
        let kind = self.kind.as_ref().is_none_or(|(group, kind)| *group == key.group && *kind == key.kind);
        kind && self.name == key.name && namespace.is_none_or(|namespace| key.namespace.as_deref() == Some(namespace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_may_be_shortened() {
        let kind = |text: &str| text.parse::<Named>().unwrap().kind.map(|(group, kind)| format!("{group}/{kind}"));
        assert_eq!(kind("web"), None);
        for text in ["deploy/web", "Deployment/web", "deployments.apps/web"] {
            assert_eq!(kind(text).as_deref(), Some("apps/Deployment"), "{text}");
        }
        assert_eq!(kind("rc/web").as_deref(), Some("/ReplicationController"));
        assert!("nonsense/web".parse::<Named>().is_err());
        assert!("deploy/".parse::<Named>().is_err());
    }
}
