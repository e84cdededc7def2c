//! A panic is a fault of belay's own. The work on one object ends; the object's source goes on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::FutureExt as _;
use tracing::error;

use belay_core::rollout::{Reason, ReasonCode};

/// Returns a future's result, or the text of its panic. Whatever it changed must be right in any state.
pub async fn contained<T>(future: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|panic| text_of(&*panic))
}

/// Returns the same for a function that does not wait.
pub fn contained_now<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|panic| text_of(&*panic))
}

/// Returns the reason of a record that ends by a panic.
pub fn internal_error(what: &impl std::fmt::Display, panic: &str) -> Reason {
    error!(object = %what, panic, "belay's own fault: a panic");
    let message = format!("belay's own fault, not the manifest's: {panic}; please report it, with this manifest");
    Reason::new(ReasonCode::InternalError, message)
}

/// Returns the text of a panic.
pub fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without words".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_ends_only_what_it_happened_in() {
        assert_eq!(contained(async { 1 }).await, Ok(1));
        let number = 3;
        assert_eq!(contained::<()>(async { panic!("no {number}") }).await, Err("no 3".to_owned()));
        assert_eq!(contained_now::<()>(|| panic!("no")), Err("no".to_owned()));
        let reason = internal_error(&"ConfigMap shop/a", "no");
        assert!(reason.code == ReasonCode::InternalError && reason.message.contains("belay's own fault"), "{reason:?}");
    }
}
