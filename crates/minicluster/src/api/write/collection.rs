//! Deletion of many objects at once.

use super::delete::Deletion;
use crate::api::call::Call;
use crate::api::negotiate::{Delivery, Negotiated};
use crate::api::options::{DeleteOptions, ListOptions};
use crate::api::read::{ListFacts, View};
use crate::api::reply::Reply;
use crate::api::route::Target;
use crate::api::{ApiError, ApiServer};

/// After so many deletions others get their turn, so that watches keep up.
const PORTION: usize = 64;

impl ApiServer {
    /// Answers a DELETE of a collection: every object that the selectors select. Answers with these objects.
    ///
    /// # Errors
    /// As the real server refuses it; objects deleted before the mistake stay deleted.
    pub(in crate::api) async fn delete_collection(&self, call: &Call, target: &Target) -> Result<Reply, ApiError> {
        let options = DeleteOptions::new(call)?;
        let list = ListOptions::new(&call.query, &target.resource, false)?;
        let how = Negotiated::new(call, Delivery::Whole)?;
        if target.resource.definition.namespaced && target.namespace.is_none() {
            return Err(ApiError::method_not_allowed());
        }
        let (objects, facts) = self.objects_of(target, &list)?;
        for (index, object) in objects.iter().enumerate() {
            let one = Target {
                name: Some(object.name().to_owned()),
                namespace: object.namespace().map(str::to_owned),
                ..target.clone()
            };
            match self.delete_object(&one, &options) {
                Err(error) if error.code != 404 => return Err(error),
                Ok(Deletion::Gone(_) | Deletion::Pending(_)) | Err(_) => {}
            }
            if index % PORTION == PORTION - 1 {
                tokio::task::yield_now().await;
            }
        }
        let facts = ListFacts { revision: facts.revision, ..ListFacts::default() };
        View::new(&target.resource, &how, self.now()).list(&objects, &facts)
    }
}
