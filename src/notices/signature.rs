//! The signature of a message: HMAC-SHA256 (RFC 2104) of its body, as forges sign theirs.

use belay_core::manifest::hex;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Returns the value of `X-Belay-Signature-256`: `sha256=` and the code in hexadecimal digits.
pub(super) fn signature(secret: &[u8], body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(body);
    format!("sha256={}", hex(&mac.finalize().into_bytes()))
}
