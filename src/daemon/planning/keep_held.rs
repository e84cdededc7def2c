//! The corrections of an object whose manifest is held: everything but the held template; the whole object, if it was
//! deleted.

use serde_json::Value;

use super::planner::Planner;
use super::refused::complaints;
use crate::cluster::{ClusterError, Served};
use belay_core::rollout::rollback::KeptHold;
use belay_core::rollout::{
    Hold, PlanStep, TemplateMarks, Wanted, held_body, make_held, settle_held, take_surplus, template,
};

impl Planner<'_> {
    /// Plans the corrections of an object whose manifest is held.
    pub async fn keep(
        &self,
        served: &Served,
        wanted: &Wanted,
        live: Option<&Value>,
        (hold, kept): (Hold, Option<KeptHold>),
    ) -> Result<PlanStep, ClusterError> {
        let kept = kept.filter(|kept| kept.hold == hold);
        let Some(whole) = self.held_body(wanted, live, (&hold, kept)).await? else { return Ok(PlanStep::Held(hold)) };
        if live.is_some_and(|live| self.is_as_applied(wanted, &whole, live)) {
            return Ok(PlanStep::Held(hold));
        }
        let surplus = self.surplus(served, wanted, live, &whole).await?;
        match self.try_without(served, wanted, live, &whole, surplus.as_ref()).await {
            Ok(would_be) => {
                let step = settle_held(hold, live, whole, &would_be);
                Ok(if surplus.is_some() { take_surplus(step) } else { step })
            }
            Err(ClusterError::Missing { .. }) if live.is_none() => Ok(make_held(&whole)),
            Err(error) if error.is_the_worlds() => Err(error),
            Err(error) => Ok(PlanStep::Rejected(error.to_reason(), complaints(wanted, &error))),
        }
    }

    /// Returns the object to apply while its manifest is held: with the template of its rollback, or, if it has none,
    /// with its former manifest. `None` if that is not known any more.
    async fn held_body(
        &self,
        wanted: &Wanted,
        live: Option<&Value>,
        (hold, kept): (&Hold, Option<KeptHold>),
    ) -> Result<Option<Value>, ClusterError> {
        let body = |manifest: &Value, marks: &TemplateMarks, template: Option<&Value>| {
            held_body(manifest, self.source, marks, hold, template)
        };
        let manifest = wanted.manifest.value();
        if hold.template.is_empty() {
            let Some(memory) = self.memory else { return Ok(None) };
            let former = memory.good_former(&wanted.key).await;
            return Ok(former.map(|former| body(&former.manifest.value(), &TemplateMarks::default(), None)));
        }
        let present = live.and_then(|live| Some((live, template(live)?)));
        if let Some((live, present)) = present.filter(|(_, present)| hold.is_about(present)) {
            return Ok(Some(body(&manifest, &TemplateMarks::on(live), Some(present))));
        }
        if let Some(KeptHold { template: Some(template), marks, .. }) = kept {
            return Ok(Some(body(&manifest, &marks, Some(&template))));
        }
        let Some((live, present)) = present else { return Ok(None) };
        let kept = self.ask(&wanted.key, || self.cluster.revisions(&wanted.key, live)).await;
        let kept = self.or_nothing(kept)?.into_iter().find(|one| hold.is_about(&one.template));
        Ok(Some(match kept {
            Some(revision) => body(&manifest, &revision.marks, Some(&revision.template)),
            None => body(&manifest, &TemplateMarks::on(live), Some(present)),
        }))
    }
}
