//! One object.

use super::View;
use crate::api::call::Call;
use crate::api::negotiate::{Delivery, Negotiated};
use crate::api::query::not_a_number;
use crate::api::reply::Reply;
use crate::api::route::Target;
use crate::api::{ApiError, ApiServer};

impl ApiServer {
    /// Answers a GET of one object, or of its status.
    ///
    /// # Errors
    /// 404, 406; 504 for a revision that is yet to come.
    pub(in crate::api) fn get(&self, call: &Call, target: &Target) -> Result<Reply, ApiError> {
        let how = Negotiated::new(call, Delivery::Whole)?;
        if let Some(text) = call.query.text("resourceVersion") {
            let revision: u64 = text.parse().map_err(|_| {
                let why = not_a_number("ParseUint", text);
                ApiError::internal(format!("resourceVersion: Invalid value: {text:?}: {why}"))
            })?;
            self.not_in_the_future(revision)?;
        }
        let stored = self.find(target)?;
        View::new(&target.resource, &how, self.now()).stored(&stored)
    }

    /// Refuses revisions that are yet to come.
    pub(in crate::api) fn not_in_the_future(&self, revision: u64) -> Result<(), ApiError> {
        let current = self.store().revision();
        if revision <= current { Ok(()) } else { Err(ApiError::too_large_revision(revision, current)) }
    }
}
