//! The request for a rolling update.

use serde_json::Value;

use super::super::TemplateMarks;
use super::{Bounds, ByHand, Refused};

/// The label that distinguishes the pods of the two controllers, unless another is asked for.
pub const DEFAULT_LABEL_KEY: &str = "deployment";

/// The label by which the daemon distinguishes pods.
pub const TEMPLATE_LABEL: &str = "belay.dev/template";

/// The request of a person for a rolling update.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// The controller whose pods are replaced.
    pub old: String,
    /// The name of the controller that replaces it. Without one, a new image ends under the old name.
    pub new: Option<String>,
    /// The target.
    pub to: To,
    /// The label that distinguishes the pods of the two controllers.
    pub label_key: String,
    /// The container that gets the image; needed if there are several.
    pub container: Option<String>,
    /// `imagePullPolicy` of that container; needed if the image stays the same.
    pub pull_policy: Option<String>,
    /// The new controller's marks about the commit that made it.
    pub marks: TemplateMarks,
    /// The numbers of pods above and below the wanted one that are allowed meanwhile.
    pub bounds: Bounds,
    /// The person who asks; `None` for the daemon.
    pub by: Option<ByHand>,
}

/// The target of a controller.
#[derive(Clone, Debug, PartialEq)]
pub enum To {
    /// The same with another image.
    Image(String),
    /// A ReplicationController as written in a manifest.
    Manifest(Box<Value>),
    /// The same, with the pod template of a manifest of its own name.
    Template(Box<Value>),
    /// Its template before the update that is under way.
    Back,
    /// The controller that [`Ask::new`] names, which is there already: goes on with an update, or takes it back where the
    /// two names have traded places.
    Existing,
}

impl Ask {
    /// Returns `old` with another image, everything else as usual.
    #[must_use]
    pub fn image(old: impl Into<String>, image: impl Into<String>) -> Ask {
        Ask {
            old: old.into(),
            new: None,
            to: To::Image(image.into()),
            label_key: DEFAULT_LABEL_KEY.to_owned(),
            container: None,
            pull_policy: None,
            marks: TemplateMarks::default(),
            bounds: Bounds::default(),
            by: None,
        }
    }

    /// Returns a request for `manifest` in the place of the controller of its name: the pods of its template in the
    /// place of the present ones.
    #[must_use]
    pub fn template(manifest: Value, marks: TemplateMarks) -> Ask {
        let old = manifest["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let label_key = TEMPLATE_LABEL.to_owned();
        Ask { to: To::Template(Box::new(manifest)), label_key, marks, ..Ask::image(old, "") }
    }

    pub(super) fn check(&self) -> Result<(), Refused> {
        if self.label_key.is_empty() {
            return Err(Refused::NoLabelKey);
        }
        if self.bounds.surge <= 0 && self.bounds.unavailable <= 0 {
            return Err(Refused::NoRoom);
        }
        let next = match &self.to {
            To::Manifest(manifest) => manifest["metadata"]["name"].as_str(),
            To::Image(_) | To::Template(_) | To::Back | To::Existing => self.new.as_deref(),
        };
        if next == Some(&self.old) {
            return Err(Refused::SameName { name: self.old.clone() });
        }
        if let (To::Manifest(_), Some(new), Some(written)) = (&self.to, &self.new, next)
            && new != written
        {
            return Err(Refused::OtherName { new: new.clone(), written: written.to_owned() });
        }
        Ok(())
    }

    /// Returns true when the new controller ends under the old one's name.
    pub(super) fn renames(&self) -> bool {
        self.labels() && self.new.is_none()
    }

    /// Returns true when a label that this update adds distinguishes the two controllers.
    pub(super) fn labels(&self) -> bool {
        matches!(self.to, To::Image(_) | To::Template(_))
    }

    /// Returns the last line for an update that had been done before.
    pub(super) fn success_before(&self, next: &str) -> String {
        format!("{} already", self.success(next))
    }

    /// Returns the last line.
    pub(super) fn success(&self, next: &str) -> String {
        match &self.to {
            To::Image(_) | To::Template(_) if self.new.is_none() => {
                format!("replicationcontroller/{} rolling updated", self.old)
            }
            To::Back => format!("replicationcontroller/{} rolling updated to {:?}", self.old, self.old),
            To::Image(_) | To::Template(_) | To::Manifest(_) | To::Existing => {
                format!("replicationcontroller/{next} rolling updated to {next:?}")
            }
        }
    }
}
