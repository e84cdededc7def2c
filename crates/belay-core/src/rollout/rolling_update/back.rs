//! The way back: the two controllers trade places.

use serde_json::json;

use super::build::{original_size, source_id};
use super::label::change;
use super::names::Controller;
use super::roll::{Pair, is_update_of};
use super::{DESIRED, Live, Refused, RollingUpdate, SOURCE_ID, Step};

impl RollingUpdate {
    /// Returns the next step back to the old controller.
    pub(super) fn step_back(&mut self, live: &Live) -> Result<Step, Refused> {
        let Some(old) = live.controller(&self.ask.old) else {
            return Err(Refused::NotFound { name: self.ask.old.clone() });
        };
        let Some(name) = self.next_name(live) else {
            return Err(Refused::NothingUnderWay { old: self.ask.old.clone() });
        };
        let Some(next) = live.controller(&name) else {
            return Err(Refused::NothingToRollBack { name, old: self.ask.old.clone() });
        };
        self.step_back_from(old, next, live)
    }

    /// Returns the next step back from `next` to `old`.
    pub(super) fn step_back_from(
        &mut self,
        old: Controller<'_>,
        next: Controller<'_>,
        live: &Live,
    ) -> Result<Step, Refused> {
        if !is_update_of(old, next) && !is_update_of(next, old) {
            return Err(Refused::NothingUnderWay { old: old.name().to_owned() });
        }
        if !next.replaces(old.name()) {
            // The way there had taken its mark off already; the way back is known by it to the last write.
            return Ok(change(next, json!({"metadata": {"annotations": {SOURCE_ID: source_id(old)}}})));
        }
        let pair = Pair { from: next, to: old };
        let on_its_way = old.annotation(SOURCE_ID) == Some(&source_id(next)) && old.annotation(DESIRED).is_some();
        let is_back = next.size() == 0 && original_size(old)?.is_none_or(|original| original == old.size());
        if on_its_way || is_back {
            return self.roll(pair, live);
        }
        // One that somebody deleted meanwhile was made again without its annotations; a person is told so.
        let anew = self.ask.by.is_none().then(|| old.size());
        let original = original_size(old)?.or(anew);
        let original = original.ok_or_else(|| Refused::NoOriginalSize { name: old.name().to_owned() })?;
        Ok(trade_places(old, next, original))
    }
}

fn trade_places(old: Controller<'_>, next: Controller<'_>, original: i64) -> Step {
    let marks = json!({DESIRED: original.to_string(), SOURCE_ID: source_id(next)});
    let says = vec![format!("Setting {:?} replicas to {original}", old.name())];
    change(old, json!({"metadata": {"annotations": marks}})).after_saying(says)
}
