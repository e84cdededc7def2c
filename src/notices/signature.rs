//! The signature of a message: HMAC-SHA256 (RFC 2104) of its body, as forges sign theirs.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Returns the value of `X-Belay-Signature-256`: `sha256=` and the code in hexadecimal digits.
pub(super) fn signature(secret: &[u8], body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(body);
    let mut text = "sha256=".to_owned();
    for byte in mac.finalize().into_bytes() {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
