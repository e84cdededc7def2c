//! A list: all objects of a scope, or a page of them.

use std::sync::Arc;

use super::view::{ListFacts, View};
use crate::api::call::Call;
use crate::api::negotiate::{Delivery, Negotiated};
use crate::api::options::{Continue, ListOptions, ListStart, Match};
use crate::api::reply::Reply;
use crate::api::route::Target;
use crate::api::store::{Page, PartOfList, Scope, Snapshot, Stored};
use crate::api::{ApiError, ApiServer};

impl ApiServer {
    /// Answers a GET of a collection, or a watch of it.
    ///
    /// # Errors
    /// 400, 406, 410, 422, 504.
    pub(in crate::api) fn list(&self, call: &Call, target: &Target) -> Result<Reply, ApiError> {
        let watches = target.watch || call.query.flag("watch").unwrap_or_default();
        let delivery = if watches { Delivery::Stream } else { Delivery::Whole };
        let options = ListOptions::new(&call.query, &target.resource, target.watch)?;
        let how = Negotiated::new(call, delivery)?;
        let scope = scope(target, &options);
        if options.watch {
            return Ok(self.watch(target, &options, how, &scope));
        }
        let (objects, facts) = self.objects_of(target, &options)?;
        View::new(&target.resource, &how, self.now()).list(&objects, &facts)
    }

    /// Returns the objects that a list asks for.
    ///
    /// # Errors
    /// 410 where the revision is forgotten, 504 where it is yet to come.
    pub(in crate::api) fn objects_of(
        &self,
        target: &Target,
        options: &ListOptions,
    ) -> Result<(Vec<Arc<Stored>>, ListFacts), ApiError> {
        let scope = scope(target, options);
        let mut page = Page::default();
        if let Some(next) = &options.next {
            page.after = Some(next.after.clone());
            page.at = next.revision;
        } else if let ListStart::At(revision) = options.start
            && (options.matched == Some(Match::Exact) || (options.matched.is_none() && options.limit > 0))
        {
            page.at = Some(revision);
        }
        if let ListStart::At(revision) = options.start {
            self.not_in_the_future(revision)?;
        }
        if let Some(revision) = page.at {
            self.not_in_the_future(revision)?;
        }
        let group_resource = &target.resource.group_resource;
        let too_old = |_| expired(options.next.as_ref());
        let wanted = |object: &Stored| selected(object, options);
        if options.limit == 0 {
            let Snapshot { revision, mut objects } =
                self.store().snapshot(group_resource, &scope, &page).map_err(too_old)?;
            objects.retain(|object| wanted(object));
            return Ok((objects, ListFacts { revision, ..ListFacts::default() }));
        }
        let part = self.store().part(group_resource, &scope, &page, options.limit, wanted).map_err(too_old)?;
        let PartOfList { revision, objects, more } = part;
        let mut facts = ListFacts { revision, ..ListFacts::default() };
        if more {
            let after = objects.last().map(|object| object.path.to_string()).unwrap_or_default();
            if !options.selects() {
                // Counted once for a list: of a revision, each page leaves as many less as it has.
                let known = options.next.as_ref().filter(|next| next.revision.is_some()).and_then(|next| next.left);
                facts.remaining = Some(match known {
                    Some(left) => left.saturating_sub(objects.len()),
                    None => {
                        let rest = Page { at: Some(revision), after: Some(after.clone()) };
                        self.store().count(group_resource, &scope, &rest).map_err(too_old)?
                    }
                });
            }
            facts.next = Some(Continue { revision: Some(revision), after, left: facts.remaining }.token());
        }
        Ok((objects, facts))
    }
}

/// Returns the smallest part of the resource that holds everything asked for.
pub(super) fn scope(target: &Target, options: &ListOptions) -> Scope {
    let scope = match (&target.namespace, &target.name) {
        (Some(namespace), Some(name)) => return Scope::Object(format!("{namespace}/{name}")),
        (None, Some(name)) => return Scope::Object(name.clone()),
        (Some(namespace), None) => Scope::Namespace(namespace.clone()),
        (None, None) => Scope::All,
    };
    match options.fields.name() {
        Some(name) if !target.resource.definition.namespaced => Scope::Object(name.to_owned()),
        _ => options.fields.narrow(scope),
    }
}

/// Returns true when an object is asked for.
pub(super) fn selected(object: &Stored, options: &ListOptions) -> bool {
    #[cfg(test)]
    crate::work_count::count(crate::work_count::Counted::Selected);
    options.labels.matches(|key| object.label(key)) && options.fields.matches(object)
}

fn expired(next: Option<&Continue>) -> ApiError {
    let Some(next) = next else {
        return ApiError::new(410, "Expired", "The resourceVersion for the provided list is too old.");
    };
    let token = Continue { revision: None, ..next.clone() }.token();
    let message = "The provided continue parameter is too old to display a consistent list result. You can start a new \
                   list without the continue parameter, or use the continue token in this response to retrieve the \
                   remainder of the results. Continuing with the provided token results in an inconsistent list - \
                   objects that were created, modified, or deleted between the time the first chunk was returned and \
                   now may show up in the list.";
    ApiError { continue_token: Some(token), ..ApiError::new(410, "Expired", message) }
}
