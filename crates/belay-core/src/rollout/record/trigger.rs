//! The trigger of a record: a person or a program, or the change of the pod template.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::manifest::ObjectKey;

/// The trigger of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "by", content = "who")]
pub enum Trigger {
    /// A commit changed the manifest, and none of the next two fits.
    Commit,
    /// A commit changed the image of a container.
    NewImage,
    /// A commit changed a ConfigMap or Secret that the pod template names, and nothing else of the workload's template.
    ConfigChange,
    /// The pods were created again, and nothing else changed of them: by `belay restart` or kubectl, the manager that
    /// wrote it; null if a commit says so.
    Restart(Option<String>),
    /// An autoscaler changed the number of pods; its name.
    Autoscaler(
        #[serde(serialize_with = "as_text", deserialize_with = "of_text")]
        #[schemars(with = "String")]
        ObjectKey,
    ),
    /// Somebody said `belay retry`, or took the hold off the object.
    Retry,
    /// Somebody took the workload back by hand; the manager that wrote it.
    UndoByHand(String),
    /// Somebody else changed the object; the manager that wrote it.
    Drift(String),
    /// Another object failed, and this one goes back with it; its name.
    Together(
        #[serde(serialize_with = "as_text", deserialize_with = "of_text")]
        #[schemars(with = "String")]
        ObjectKey,
    ),
    /// Its dependencies are complete; the text lists them like its annotation.
    After(String),
    /// Somebody replaced the pods of a ReplicationController with `belay rolling-update`; the manager that wrote it.
    RollingUpdate(String),
    /// Not known any more: the history was lost, and this record was made of what the cluster and Git still say. Facts
    /// that neither of them has are left out of it.
    Rebuilt,
}

impl Trigger {
    /// The words of all of them.
    pub const WORDS: [&str; 12] = [
        "commit",
        "new-image",
        "config-change",
        "restart",
        "autoscaler",
        "retry",
        "undo-by-hand",
        "drift",
        "together",
        "after",
        "rolling-update",
        "rebuilt",
    ];

    /// Returns the word for it, as programs read it too.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Trigger::Commit => "commit",
            Trigger::NewImage => "new-image",
            Trigger::ConfigChange => "config-change",
            Trigger::Restart(_) => "restart",
            Trigger::Autoscaler(_) => "autoscaler",
            Trigger::Retry => "retry",
            Trigger::UndoByHand(_) => "undo-by-hand",
            Trigger::Drift(_) => "drift",
            Trigger::Together(_) => "together",
            Trigger::After(_) => "after",
            Trigger::RollingUpdate(_) => "rolling-update",
            Trigger::Rebuilt => "rebuilt",
        }
    }

    /// Returns the trigger that a word stands for, with whose hand it was, or with the object that it names.
    #[must_use]
    pub fn of_word(word: &str, who: Option<String>, object: Option<ObjectKey>) -> Option<Trigger> {
        let name = |who: Option<String>| who.unwrap_or_default();
        Some(match word {
            "commit" => Trigger::Commit,
            "new-image" => Trigger::NewImage,
            "config-change" => Trigger::ConfigChange,
            "restart" => Trigger::Restart(who),
            "autoscaler" => Trigger::Autoscaler(object?),
            "retry" => Trigger::Retry,
            "undo-by-hand" => Trigger::UndoByHand(name(who)),
            "drift" => Trigger::Drift(name(who)),
            "together" => Trigger::Together(object?),
            "after" => Trigger::After(name(who)),
            "rolling-update" => Trigger::RollingUpdate(name(who)),
            "rebuilt" => Trigger::Rebuilt,
            _ => return None,
        })
    }

    /// Returns the person or program behind it; `None` for the triggers without one.
    #[must_use]
    pub fn who(&self) -> Option<Cow<'_, str>> {
        match self {
            Trigger::Commit | Trigger::NewImage | Trigger::ConfigChange | Trigger::Retry | Trigger::Rebuilt => None,
            Trigger::Restart(who) => who.as_deref().map(Cow::Borrowed),
            Trigger::Autoscaler(object) | Trigger::Together(object) => Some(Cow::Owned(object.to_string())),
            Trigger::UndoByHand(who) | Trigger::Drift(who) | Trigger::After(who) | Trigger::RollingUpdate(who) => {
                Some(Cow::Borrowed(who))
            }
        }
    }

    /// Returns the object that it names; `None` for the triggers that name none.
    #[must_use]
    pub fn object(&self) -> Option<&ObjectKey> {
        match self {
            Trigger::Autoscaler(object) | Trigger::Together(object) => Some(object),
            _ => None,
        }
    }

    /// Returns true when a commit triggered it, whatever that changed.
    #[must_use]
    pub fn is_commit(&self) -> bool {
        matches!(self, Trigger::Commit | Trigger::NewImage | Trigger::ConfigChange | Trigger::Restart(None))
    }
}

fn as_text<S: serde::Serializer>(object: &ObjectKey, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(object)
}

/// Reads an object as it is written: `Deployment shop/web`. Its group is not written.
fn of_text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<ObjectKey, D::Error> {
    let text = String::deserialize(deserializer)?;
    let (kind, name) = text.split_once(' ').unwrap_or(("", &text));
    let (namespace, name) = match name.split_once('/') {
        Some((namespace, name)) => (Some(namespace.to_owned()), name),
        None => (None, name),
    };
    Ok(ObjectKey { group: String::new(), kind: kind.to_owned(), namespace, name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trigger_is_read_as_it_is_written() {
        let object = |text: &str| -> ObjectKey {
            let (kind, name) = text.split_once(' ').unwrap();
            let namespace = name.split_once('/').map(|(namespace, _)| namespace.to_owned());
            let name = name.rsplit('/').next().unwrap().to_owned();
            ObjectKey { group: String::new(), kind: kind.to_owned(), namespace, name }
        };
        for word in Trigger::WORDS {
            for (who, of) in [(None, "Namespace shop"), (Some("ada"), "Deployment shop/web")] {
                let trigger = Trigger::of_word(word, who.map(str::to_owned), Some(object(of))).unwrap();
                let json = serde_json::to_string(&trigger).unwrap();
                assert_eq!(serde_json::from_str::<Trigger>(&json).unwrap(), trigger, "{json}");
            }
        }
        for text in ["", " ", "/", "a/b", "Deployment a/b/c"] {
            let json = serde_json::json!({"by": "autoscaler", "who": text});
            let read: Trigger = serde_json::from_value(json).unwrap();
            assert_eq!(read.word(), "autoscaler", "{text}");
        }
    }
}
