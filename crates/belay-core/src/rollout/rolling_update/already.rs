//! The same command after its end, or after somebody has deleted the old controller before it.

use serde_json::Value;

use super::super::marks;
use super::build::written_size;
use super::names::Controller;
use super::roll::{scale, unmark};
use super::{ByHand, DESIRED, Live, Refused, RollingUpdate, Step, To};

impl RollingUpdate {
    /// Finishes an update whose old controller is gone, and whose next one keeps its own name.
    pub(super) fn finish_without_old(&self, live: &Live) -> Result<Step, Refused> {
        let old = &self.ask.old;
        let next = self.next_name(live).and_then(|name| live.controller(&name)).filter(|next| {
            let rolled_from = || ByHand::on(next.0).and_then(|hand| hand.from);
            next.replaces(old) || rolled_from().as_ref() == Some(old)
        });
        let Some(next) = next else { return Err(Refused::NotFound { name: old.clone() }) };
        if !self.is_asked_for(next) {
            let present = next.image(self.ask.container.as_deref()).to_owned();
            return Err(Refused::Replaced { old: old.clone(), next: next.name().to_owned(), present });
        }
        // If somebody deleted the old one half way, the wanted size counts.
        match written_size(next, DESIRED)? {
            Some(desired) if desired > next.size() => return Ok(scale(next, desired, "up")),
            Some(desired) if desired < next.size() => return Ok(scale(next, desired, "down")),
            _ => {}
        }
        if !next.is_settled() {
            return Ok(Step::wait(format!("{} to have {} pods", next.name(), next.size())));
        }
        Ok(unmark(next).unwrap_or_else(|| {
            let ask = &self.ask;
            Step::Done(if self.acted { ask.success(next.name()) } else { ask.success_before(next.name()) })
        }))
    }

    /// Returns true when the next controller is the one that this update asks for.
    fn is_asked_for(&self, next: Controller<'_>) -> bool {
        match &self.ask.to {
            To::Image(image) => next.image(self.ask.container.as_deref()) == image,
            To::Manifest(manifest) => {
                let has = |container: &Value| container["image"] == next.image(container["name"].as_str());
                containers(manifest).iter().all(has)
            }
            To::Template(_) | To::Back | To::Existing => true,
        }
    }

    /// Returns the last step if the controller and each of its pods have the wanted image: the same command was through
    /// before.
    pub(super) fn is_there_already(&self, old: Controller<'_>, live: &Live) -> Option<Step> {
        let ask = &self.ask;
        let To::Image(image) = &ask.to else { return None };
        let several = ask.container.is_none() && containers(old.0).len() > 1;
        let other_commit = ask.marks.commit.as_deref().is_some_and(|id| old.annotation(marks::COMMIT) != Some(id));
        if !ask.renames() || ask.pull_policy.is_some() || several || other_commit {
            return None;
        }
        let container = ask.container.as_deref();
        let has = |template: &Value| image_in(template, container) == Some(image);
        if !has(&old.0["spec"]["template"]) || live.pods.iter().any(|pod| old.owns(pod) && !has(pod)) {
            return None;
        }
        Some(if old.is_settled() {
            Step::Done(ask.success_before(old.name()))
        } else {
            Step::wait(format!("{} to have {} pods", old.name(), old.size()))
        })
    }
}

fn containers(controller: &Value) -> &[Value] {
    controller["spec"]["template"]["spec"]["containers"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the image of a container of a pod or of a template; of the first where none is named.
fn image_in<'t>(template: &'t Value, container: Option<&str>) -> Option<&'t str> {
    let all = template["spec"]["containers"].as_array()?;
    let one = match container {
        Some(name) => all.iter().find(|one| one["name"] == name),
        None => all.first(),
    };
    one?["image"].as_str()
}
