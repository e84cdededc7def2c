//! The body of an answer while it arrives. Few large ones are in memory at once.

use http_body_util::BodyExt as _;
use kube::client::Body;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The most bytes that an answer may have which is kept whole: several times what etcd stores in one object. Lists are read
/// item by item.
const ANSWER_LIMIT: usize = 32 * 1024 * 1024;
/// From how many bytes on an answer is large, and how many of those the whole program reads at once.
pub(super) const LARGE_ANSWER: usize = 1 << 20;
static LARGE_ANSWERS: Semaphore = Semaphore::const_new(2);

/// Waits until one more large answer may be read. It is given back when it is dropped.
pub(super) async fn large_answer() -> Option<SemaphorePermit<'static>> {
    // It is never closed.
    LARGE_ANSWERS.acquire().await.ok()
}

/// The body of an answer. Few large ones are in memory at once: the room for one is given back with this.
#[derive(Default)]
pub(super) struct ResponseBody {
    pub text: Vec<u8>,
    large: Option<SemaphorePermit<'static>>,
}

impl ResponseBody {
    pub(super) async fn from(mut body: Body) -> Result<ResponseBody, String> {
        let mut received = ResponseBody::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(broke_off)?;
            let Some(bytes) = frame.data_ref() else { continue };
            let length = received.text.len() + bytes.len();
            if length > ANSWER_LIMIT {
                return Err(format!("the answer has more than {} MiB", ANSWER_LIMIT >> 20));
            }
            if length > LARGE_ANSWER && received.large.is_none() {
                received.large = large_answer().await;
            }
            received.text.extend_from_slice(bytes);
        }
        Ok(received)
    }
}

pub(super) fn broke_off(error: impl std::fmt::Display) -> String {
    format!("the answer broke off: {error}")
}
