//! A list: all objects of a scope, or a page of them.

use std::sync::Arc;

use super::view::{ListFacts, View};
use crate::api::call::Call;
use crate::api::negotiate::{Delivery, Negotiated};
use crate::api::options::{Continue, ListOptions, Match, Start};
use crate::api::reply::Reply;
use crate::api::route::Target;
use crate::api::store::{Page, Scope, Snapshot, Stored};
use crate::api::{ApiError, ApiServer};

impl ApiServer {
    /// GET of a collection, or a watch of it.
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

    /// The objects that a list asks for.
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
        } else if let Start::At(revision) = options.start
            && (options.matched == Some(Match::Exact) || (options.matched.is_none() && options.limit > 0))
        {
            page.at = Some(revision);
        }
        if let Start::At(revision) = options.start {
            self.not_in_the_future(revision)?;
        }
        if let Some(revision) = page.at {
            self.not_in_the_future(revision)?;
        }
        let snapshot = self.store().snapshot(&target.resource.shelf, &scope, &page);
        Ok(cut(snapshot.map_err(|_| expired(options.next.as_ref()))?, options))
    }
}

/// The smallest part of the shelf that holds everything asked for.
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

/// Cuts what was asked for out of a snapshot.
fn cut(snapshot: Snapshot, options: &ListOptions) -> (Vec<Arc<Stored>>, ListFacts) {
    let Snapshot { revision, objects } = snapshot;
    let mut facts = ListFacts { revision, ..ListFacts::default() };
    let mut wanted = objects.into_iter().filter(|object| selected(object, options));
    if options.limit == 0 {
        return (wanted.collect(), facts);
    }
    let objects: Vec<Arc<Stored>> = wanted.by_ref().take(options.limit).collect();
    let remaining = wanted.count();
    if remaining > 0 {
        let after = objects.last().map(|object| object.path.to_string()).unwrap_or_default();
        facts.next = Some(Continue { revision: Some(revision), after }.token());
        facts.remaining = (!options.selects()).then_some(remaining);
    }
    (objects, facts)
}

/// Whether an object is asked for.
pub(super) fn selected(object: &Stored, options: &ListOptions) -> bool {
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
