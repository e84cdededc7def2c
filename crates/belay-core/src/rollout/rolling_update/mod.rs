//! The rolling update of ReplicationControllers, which no controller does by itself: from the live objects to the next
//! write.
//!
//! A second controller with the new template grows while the first one shrinks; at the end it takes the first one's name,
//! or keeps its own. The names of the annotations, the order of the steps and the texts are those of `kubectl
//! rolling-update`, which kubectl had until 1.17.
//!
//! All that must be known to go on is written on the two controllers. So [`RollingUpdate::step`] reads the live objects
//! and returns the one next write; its performer reads again after it. Killed after any write, the same request goes on
//! where it was. Only the lines that were printed already, and the end of the update period, are kept in between.

mod already;
mod ask;
mod back;
mod build;
mod by_hand;
mod label;
mod names;
mod progress;
mod refused;
mod rename;
mod roll;
mod sizes;
mod step;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub use ask::{Ask, DEFAULT_LABEL_KEY, TEMPLATE_LABEL, To};
pub use by_hand::{ByHand, has_begun, is_under_way};
pub use names::{DESIRED, NEXT, ORIGINAL, RENAMED_FROM, RENAMING, SOURCE_ID};
pub use refused::Refused;
pub use sizes::{Bounds, Sizes};
pub use step::{Left, Step, Write};

use super::marks;
use names::Controller;

/// The live objects of one namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    /// All its ReplicationControllers.
    pub controllers: Vec<Value>,
    /// The pods that [`RollingUpdate::selectors`] choose.
    pub pods: Vec<Value>,
}

impl Live {
    fn controller(&self, name: &str) -> Option<Controller<'_>> {
        self.controllers.iter().find(|one| one["metadata"]["name"] == name).map(Controller)
    }

    /// Returns the controller that is to take the place of `old`, by the mark that it carries.
    fn successor_of(&self, old: &str) -> Option<Controller<'_>> {
        self.controllers.iter().map(Controller).find(|one| one.replaces(old))
    }
}

/// The progress of an update that was begun before, by its live objects.
#[derive(Clone, Debug, PartialEq)]
pub enum Begun {
    /// There is none.
    Nothing,
    /// The next controller is there, and the old one too.
    Growing {
        /// The next controller.
        next: Box<Value>,
        /// The commit that it comes from.
        commit: Option<String>,
    },
    /// All pods are new: only the name is missing.
    Renaming,
}

impl Begun {
    /// Returns the progress for the controller of that name.
    #[must_use]
    pub fn of(old: &str, live: &Live) -> Begun {
        let successor = live.successor_of(old).filter(|next| next.name() != old);
        match live.controller(old) {
            Some(parked) if parked.annotation(RENAMED_FROM).is_some() => Begun::Renaming,
            Some(old) if old.is_being_deleted() && successor.is_some() => Begun::Renaming,
            None if successor.is_some() => Begun::Renaming,
            None => Begun::Nothing,
            Some(old) => {
                let remembered = old.annotation(NEXT).and_then(|next| live.controller(next));
                let next = successor.or(remembered.filter(|next| next.name() != old.name()));
                next.map_or(Begun::Nothing, |next| Begun::Growing {
                    next: Box::new(next.0.clone()),
                    commit: next.annotation(marks::COMMIT).map(str::to_owned),
                })
            }
        }
    }
}

/// One rolling update that is being carried out.
#[derive(Clone, Debug)]
pub struct RollingUpdate {
    ask: Ask,
    /// True when the update period has passed since something was scaled up.
    rested: bool,
    /// True when an update that was found under way has been reported.
    found_told: bool,
    /// True when the wanted sizes have been reported.
    sizes_told: bool,
    /// The controller that this run has made.
    created: Option<String>,
    /// True when this run has finished a renaming: only waiting is left.
    renamed: bool,
    /// True when the controller that is renamed has been seen gone once already.
    gone_seen: bool,
    /// True when this run has written anything.
    acted: bool,
    /// The other controller, once this run has deleted it: only its end is left to be awaited.
    deleted: Option<DeletedController>,
}

/// A controller that has been deleted at the end of an update.
#[derive(Clone, Debug)]
struct DeletedController {
    uid: String,
    /// The line for when it is gone.
    last: String,
}

impl RollingUpdate {
    /// Returns an update that has been asked for; the live objects decide if it begins or goes on.
    ///
    /// # Errors
    /// Fails when the request makes no sense, whatever is live.
    pub fn new(ask: Ask) -> Result<RollingUpdate, Refused> {
        ask.check()?;
        Ok(RollingUpdate {
            ask,
            rested: false,
            found_told: false,
            sizes_told: false,
            created: None,
            renamed: false,
            gone_seen: false,
            acted: false,
            deleted: None,
        })
    }

    /// Returns the name under which its writes are to be made.
    #[must_use]
    pub fn manager(&self) -> &'static str {
        if self.ask.by.is_some() { marks::ROLLING_UPDATE_MANAGER } else { marks::FIELD_MANAGER }
    }

    /// Returns the selectors of the pods that [`Live`] must have, for the live controllers.
    #[must_use]
    pub fn selectors(&self, controllers: &[Value]) -> Vec<String> {
        let live = Live { controllers: controllers.to_vec(), pods: Vec::new() };
        let next = self.next_name(&live).and_then(|name| live.controller(&name));
        let mut texts: Vec<String> = [live.controller(&self.ask.old), next]
            .into_iter()
            .flatten()
            .map(|controller| controller.selector_without(&[&self.ask.label_key, RENAMING]))
            .collect();
        texts.sort();
        texts.dedup();
        texts
    }

    /// Notes that the update period has passed: a scale-down may be considered.
    pub fn rested(&mut self) {
        self.rested = true;
    }

    /// Returns the next step.
    ///
    /// # Errors
    /// [`Refused`], with advice.
    pub fn step(&mut self, live: &Live) -> Result<Step, Refused> {
        let step = self.decide(live)?;
        self.acted |= matches!(step, Step::Write { .. });
        Ok(step)
    }

    fn decide(&mut self, live: &Live) -> Result<Step, Refused> {
        if let Some(DeletedController { uid, last }) = &self.deleted {
            // A finalizer keeps it for a while. If the deletion did not come to pass, it is made again.
            match live.controllers.iter().map(Controller).find(|one| one.uid() == uid) {
                None => return Ok(Step::Done(last.clone())),
                Some(going) if going.is_being_deleted() => {
                    return Ok(Step::wait(format!("{} to be gone", going.name())));
                }
                Some(_) => {}
            }
        }
        if let Some(parked) = live.controller(&self.ask.old).filter(|old| old.annotation(RENAMED_FROM).is_some()) {
            return self.finish_renaming(parked, live);
        }
        if self.renamed {
            return Ok(self.settled_under_old_name(live));
        }
        match &self.ask.to {
            To::Back => self.step_back(live),
            To::Image(_) | To::Template(_) | To::Manifest(_) | To::Existing => self.step_forward(live),
        }
    }

    /// Returns the result of a dry run: the names of the two controllers.
    ///
    /// # Errors
    /// As [`RollingUpdate::step`].
    pub fn dry_run(&mut self, live: &Live) -> Result<(String, String), Refused> {
        let old = self.ask.old.clone();
        let next = match self.step(live)? {
            Step::Write { write: Write::Create(body), .. } => {
                Some(body["metadata"]["name"].as_str().unwrap_or_default().to_owned())
            }
            _ => self.next_name(live),
        };
        let next = match next {
            Some(next) => next,
            None => build::synthesised_name(&self.ask, live)?,
        };
        Ok(if self.ask.to == To::Back { (next, old) } else { (old, next) })
    }

    /// Returns the name of the controller that takes the other's place: as said, else as the old one remembers, else as
    /// the mark of one says.
    fn next_name(&self, live: &Live) -> Option<String> {
        if let To::Manifest(manifest) = &self.ask.to {
            return manifest["metadata"]["name"].as_str().map(str::to_owned);
        }
        if self.ask.new.is_some() {
            return self.ask.new.clone();
        }
        let remembered = live.controller(&self.ask.old).and_then(|old| old.annotation(NEXT).map(str::to_owned));
        remembered.or_else(|| live.successor_of(&self.ask.old).map(|next| next.name().to_owned()))
    }
}
