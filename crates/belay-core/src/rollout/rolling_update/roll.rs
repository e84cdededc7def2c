//! One controller grows while the other shrinks, within the bounds; then the other goes.

use serde_json::{Value, json};

use super::super::marks;
use super::build::{original_size, source_id, written_size};
use super::label::{self, change, guarded};
use super::names::Controller;
use super::{
    ByHand, DESIRED, DeletedController, Left, Live, NEXT, ORIGINAL, Refused, RollingUpdate, SOURCE_ID, Sizes, Step, To,
    Write,
};

/// The two controllers of a roll: forward, the old one and the next; back, the other way round.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    pub from: Controller<'a>,
    pub to: Controller<'a>,
}

impl RollingUpdate {
    /// Returns the next step on the way to the next controller.
    pub(super) fn step_forward(&mut self, live: &Live) -> Result<Step, Refused> {
        let name = self.next_name(live);
        let next = name.as_deref().and_then(|name| live.controller(name));
        let Some(old) = live.controller(&self.ask.old) else {
            return if self.ask.renames() { self.without_old(live) } else { self.finish_without_old(live) };
        };
        if old.is_being_deleted() {
            return Ok(Step::wait(format!("{} to be gone", old.name())));
        }
        let Some(next) = next else { return self.create(old, name, live) };
        if next.name() == old.name() {
            return Err(Refused::SameName { name: old.name().to_owned() });
        }
        let related = is_update_of(old, next);
        let mut said = Vec::new();
        if let To::Image(image) = &self.ask.to {
            let present = next.image(self.ask.container.as_deref());
            if present != image {
                return Err(Refused::OtherImage { present: present.to_owned() });
            }
        }
        if let To::Template(_) = &self.ask.to
            && next.annotation(marks::COMMIT) != self.ask.marks.commit.as_deref()
        {
            let commit = next.annotation(marks::COMMIT).unwrap_or_default().to_owned();
            return Err(Refused::OtherCommit { next: next.name().to_owned(), commit });
        }
        if self.ask.new.is_some() && !related && is_update_of(next, old) {
            // The two names the other way round: the update is rolled back.
            return self.step_back_from(next, old, live);
        }
        if self.ask.to == To::Existing && !related {
            let (old, image) = (old.name().to_owned(), next.image(None).to_owned());
            return Err(Refused::Strangers { old, next: next.name().to_owned(), image });
        }
        // One that others have made again under the old name is none that this update is from: it gets no label, either.
        check_source(old, next)?;
        if self.ask.labels() {
            if self.created.is_none() && !std::mem::replace(&mut self.found_told, true) {
                said.push(format!("Found existing update in progress ({}), resuming.", next.name()));
            }
            if let Some(step) = label::step(&self.ask, old, next.name(), live) {
                return Ok(step.after_saying(said));
            }
        }
        check_selectors(old, next)?;
        Ok(self.roll(Pair { from: old, to: next }, live)?.after_saying(said))
    }

    fn create(&mut self, old: Controller<'_>, name: Option<String>, live: &Live) -> Result<Step, Refused> {
        if let Some(step) = self.is_there_already(old, live) {
            return Ok(step);
        }
        let body = super::build::next(&self.ask, old, name)?;
        let next = Controller(&body).name().to_owned();
        if next == old.name() {
            return Err(Refused::SameName { name: next });
        }
        match &self.ask.to {
            To::Image(_) | To::Template(_) => {
                if let Some(step) = label::step(&self.ask, old, &next, live) {
                    return Ok(step);
                }
            }
            To::Manifest(_) | To::Back | To::Existing => {}
        }
        check_selectors(old, Controller(&body))?;
        self.created = Some(next.clone());
        Ok(Step::Write { write: Write::Create(body), says: vec![format!("Created {next}")] })
    }

    /// Returns one step of the roll.
    pub(super) fn roll(&mut self, pair: Pair<'_>, live: &Live) -> Result<Step, Refused> {
        let Pair { from, to } = pair;
        // Only the annotations of a controller without pods say that it has been rolled.
        let was_empty = original_size(from)? == Some(0);
        let finished = from.size() == 0 && to.annotation(DESIRED).is_none() && (to.size() > 0 || was_empty);
        let desired = match written_size(to, DESIRED)? {
            Some(desired) => desired,
            None if finished => to.size(),
            None => original_size(from)?.unwrap_or_else(|| from.size()),
        };
        if desired < 0 {
            return Err(Refused::NoPods { name: to.name().to_owned(), actual: desired });
        }
        if !finished && let Some(step) = remember(pair, desired) {
            return Ok(step);
        }
        let next_ready = to.ready(&live.pods);
        let sizes = Sizes { desired, old: from.size(), next: to.size(), next_ready, bounds: self.ask.bounds };
        let said = self.say_sizes(pair, &sizes);
        let lagging = [to, from].into_iter().find(|one| !one.is_settled());
        let step = match (lagging, sizes.up()) {
            (Some(lagging), _) => Step::wait(format!("{} to have {} pods", lagging.name(), lagging.size())),
            (None, Some(size)) => {
                self.rested = false;
                scale(to, size, "up")
            }
            (None, None) if sizes.are_reached() => self.finish(pair),
            (None, None) => match sizes.down().filter(|_| std::mem::take(&mut self.rested)) {
                Some(size) => scale(from, size, "down"),
                None => Step::Rest { sizes, says: Vec::new() },
            },
        };
        Ok(step.after_saying(said))
    }

    fn say_sizes(&mut self, pair: Pair<'_>, sizes: &Sizes) -> Vec<String> {
        if std::mem::replace(&mut self.sizes_told, true) {
            return Vec::new();
        }
        let (next, old) = (pair.to.name(), pair.from.name());
        let mut says = Vec::new();
        if self.created.as_deref() != Some(next) {
            says.push(format!("Continuing update with existing controller {next}."));
        }
        says.push(format!(
            "Scaling up {next} from {} to {}, scaling down {old} from {} to 0 (keep {} pods available, don't exceed {} pods)",
            sizes.next,
            sizes.desired,
            sizes.old,
            sizes.floor(),
            sizes.ceiling(),
        ));
        says
    }

    /// Finishes the update when everything has its size: the marks and the other controller go.
    fn finish(&mut self, pair: Pair<'_>) -> Step {
        let Pair { from, to } = pair;
        let uid = from.uid().to_owned();
        let delete = Write::Delete { name: from.name().to_owned(), uid, pods: Left::Deleted };
        if self.ask.renames() {
            // The marks stay until the next one has the name: they name the rest of the work.
            let says = vec![format!("Update succeeded. Deleting old controller: {}", from.name())];
            return Step::Write { write: delete, says };
        }
        if let Some(step) = unmark(to) {
            return step;
        }
        let says = vec![format!("Update succeeded. Deleting {}", from.name())];
        self.deleted = Some(DeletedController { uid: from.uid().to_owned(), last: self.ask.success(to.name()) });
        Step::Write { write: delete, says }
    }
}

/// Returns the annotations that must be written before the first size changes.
fn remember(pair: Pair<'_>, desired: i64) -> Option<Step> {
    let Pair { from, to } = pair;
    if to.annotation(DESIRED).is_none() || to.annotation(SOURCE_ID).is_none() {
        let marks = json!({DESIRED: desired.to_string(), SOURCE_ID: source_id(from)});
        return Some(change(to, json!({"metadata": {"annotations": marks}})));
    }
    if from.annotation(ORIGINAL).is_none() {
        return Some(change(from, json!({"metadata": {"annotations": {ORIGINAL: from.size().to_string()}}})));
    }
    None
}

/// Takes the marks of the update off a controller, if there are any.
pub(super) fn unmark(of: Controller<'_>) -> Option<Step> {
    let marked = [DESIRED, SOURCE_ID, ORIGINAL, NEXT].iter().any(|mark| of.annotation(mark).is_some());
    let none = Value::Null;
    marked.then(|| {
        let marks = json!({DESIRED: none, SOURCE_ID: none, ORIGINAL: none, NEXT: none});
        change(of, json!({"metadata": {"annotations": marks}}))
    })
}

/// Returns true when `next` is the successor of `old` in an update that is under way.
pub(super) fn is_update_of(old: Controller<'_>, next: Controller<'_>) -> bool {
    let rolled_from = || ByHand::on(next.0).and_then(|hand| hand.from);
    next.replaces(old.name())
        || old.annotation(NEXT) == Some(next.name())
        // Its own marks are gone already, the old one is not.
        || (old.annotation(ORIGINAL).is_some() && rolled_from().as_deref() == Some(old.name()))
}

pub(super) fn scale(of: Controller<'_>, size: i64, direction: &str) -> Step {
    let patch = guarded(of, json!({"spec": {"replicas": size}}));
    let says = vec![format!("Scaling {} {direction} to {size}", of.name())];
    Step::Write { write: Write::Change { name: of.name().to_owned(), patch }, says }
}

/// Checks that the selectors of the two match different pods.
fn check_selectors(old: Controller<'_>, next: Controller<'_>) -> Result<(), Refused> {
    let present = old.selector();
    let differs = |(key, value): (&str, &str)| present.get(key).is_some_and(|present| *present != value);
    if next.selector().into_iter().any(differs) {
        return Ok(());
    }
    Err(Refused::SameSelector { next: next.name().to_owned(), old: old.name().to_owned() })
}

/// Checks that the next controller is not part of another update.
fn check_source(old: Controller<'_>, next: Controller<'_>) -> Result<(), Refused> {
    let expected = source_id(old);
    match next.annotation(SOURCE_ID) {
        Some(found) if found != expected => Err(Refused::Annotations {
            name: next.name().to_owned(),
            annotation: SOURCE_ID,
            expected,
            found: found.to_owned(),
        }),
        _ => Ok(()),
    }
}
