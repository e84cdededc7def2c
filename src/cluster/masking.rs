//! The output of programs may hold the Secrets that they were given. It is taken out before anything is kept of it.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Cluster, ClusterError};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{named_configuration, template};

/// The length of a piece of a value that gives it away, in bytes.
const PIECE: usize = 8;
/// A shorter value is a word like `true` or a port, and everywhere.
const SHORTEST: usize = 5;
/// The length of one value that is masked, in bytes; a Secret has at most 1 MiB.
const VALUE_LIMIT: usize = 64 << 10;
/// The number of Secrets that are read for one workload.
const SECRETS: usize = 20;
/// The replacement for a value.
const MASK: &str = "***";

/// The values that must not be shown.
#[derive(Clone, Debug, Default)]
pub(super) struct Masking {
    pieces: BTreeSet<Vec<u8>>,
    whole: BTreeSet<Vec<u8>>,
}

impl Cluster {
    /// Returns the values that the pods of a workload may know and nobody should read: the Secrets that its template
    /// names, and those that the pods themselves do, to which others (webhooks, for one) may have added some. A Secret
    /// that belay may not read can't be masked: it is named in `missing`.
    pub(super) async fn masking(
        &self,
        key: &ObjectKey,
        live: &Value,
        pods: &[Value],
        missing: &mut Vec<String>,
    ) -> Masking {
        let namespace = key.namespace.as_deref();
        let mut named: Vec<ObjectKey> = Vec::new();
        for of in template(live).into_iter().chain(pods) {
            let more = named_configuration(of, namespace).into_iter().filter(|named| named.kind == "Secret");
            named.extend(more.filter(|more| !named.contains(more)).collect::<Vec<_>>());
        }
        let mut masking = Masking::default();
        let left = named.len().saturating_sub(SECRETS);
        if left > 0 {
            missing.push(format!(
                "{left} more Secrets, whose values are therefore not masked: at most {SECRETS} are read"
            ));
        }
        for secret in named.into_iter().take(SECRETS) {
            match self.secret(&secret).await {
                Ok(Some(secret)) => masking.hide(&secret),
                Ok(None) => {}
                Err(error) => missing.push(format!("{secret}, whose values are therefore not masked: {error}")),
            }
        }
        masking
    }

    async fn secret(&self, key: &ObjectKey) -> Result<Option<Value>, ClusterError> {
        let served = self.served("v1", "Secret").await?;
        self.get(key, &served).await
    }
}

impl Masking {
    /// Hides the values of a Secret, as they are and in base64.
    fn hide(&mut self, secret: &Value) {
        for encoded in secret["data"].as_object().into_iter().flatten().filter_map(|(_, value)| value.as_str()) {
            let Ok(value) = STANDARD.decode(encoded) else { continue };
            self.hide_value(encoded.as_bytes());
            self.hide_value(&value);
            self.hide_registries(&value);
        }
    }

    /// Hides the passwords of a `.dockerconfigjson`, which are in base64 once more in it.
    fn hide_registries(&mut self, value: &[u8]) {
        let Ok(config) = serde_json::from_slice::<Value>(value) else { return };
        let registries = config.get("auths").unwrap_or(&config).as_object().into_iter().flatten();
        for auth in registries.filter_map(|(_, registry)| registry["auth"].as_str()) {
            let Ok(login) = STANDARD.decode(auth) else { continue };
            self.hide_value(&login);
            if let Some(colon) = login.iter().position(|byte| *byte == b':') {
                self.hide_value(&login[colon + 1..]);
            }
        }
    }

    fn hide_value(&mut self, value: &[u8]) {
        let value = &value[..value.len().min(VALUE_LIMIT)];
        self.pieces.extend(value.windows(PIECE).map(<[u8]>::to_vec));
        let word = value.trim_ascii();
        if (SHORTEST..PIECE).contains(&word.len()) {
            self.whole.insert(word.to_vec());
        }
    }

    /// Returns a text without them.
    pub(super) fn apply(&self, text: &str) -> String {
        if self.pieces.is_empty() && self.whole.is_empty() {
            return text.to_owned();
        }
        let bytes = text.as_bytes();
        let mut hidden = vec![false; bytes.len()];
        let lengths =
            std::iter::once((PIECE, &self.pieces)).chain((SHORTEST..PIECE).map(|length| (length, &self.whole)));
        for (length, values) in lengths {
            for (at, window) in bytes.windows(length).enumerate() {
                if values.contains(window) {
                    hidden[at..at + length].fill(true);
                }
            }
        }
        let mut masked = String::with_capacity(text.len());
        let mut before = false;
        for (at, c) in text.char_indices() {
            let now = hidden[at..at + c.len_utf8()].contains(&true);
            match (before, now) {
                (_, false) => masked.push(c),
                (false, true) => masked.push_str(MASK),
                (true, true) => {}
            }
            before = now;
        }
        masked
    }

    /// Takes the texts in a value out.
    pub(super) fn apply_within(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.apply(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply_within(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.apply_within(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn of(values: &[&str]) -> Masking {
        let mut masking = Masking::default();
        let data: serde_json::Map<String, Value> =
            values.iter().enumerate().map(|(at, value)| (format!("k{at}"), json!(STANDARD.encode(value)))).collect();
        masking.hide(&json!({ "data": data }));
        masking
    }

    #[test]
    fn values_and_their_pieces_are_taken_out() {
        let masking = of(&["correct-horse-battery", "pw123", "80", "zwölf Boxkämpfer"]);
        let is = |text: &str, wanted: &str| assert_eq!(masking.apply(text), wanted);
        is("connect with correct-horse-battery: refused", "connect with ***: refused");
        is("…t-horse-batt…", "…***…");
        is("pw123, port 80", "***, port 80");
        is("given Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5", "given ***");
        is("zwölf Boxkämpfer jagen", "*** jagen");
        is("nothing of it", "nothing of it");
    }

    #[test]
    fn the_password_of_a_registry_is_taken_out() {
        let auth = STANDARD.encode("ada:horse7");
        let masking = of(&[&json!({"auths": {"registry.example.com": {"auth": auth}}}).to_string()]);
        assert_eq!(masking.apply("login with horse7 failed"), "login with *** failed");
        assert_eq!(masking.apply(&format!("Basic {auth}")), "Basic ***");
    }

    #[test]
    fn where_nothing_is_secret_nothing_is_changed() {
        assert_eq!(Masking::default().apply("hello"), "hello");
        assert_eq!(of(&["", "1"]).apply("1 hello"), "1 hello");
    }

    proptest! {
        #[test]
        fn no_piece_is_left(value in "\\PC{8,40}", before in "\\PC{0,20}", from in 0usize..30, after in "\\PC{0,20}") {
            let piece: String = value.chars().skip(from).collect();
            let masked = of(&[&value]).apply(&format!("{before}{piece}{after}"));
            let left = value.as_bytes().windows(PIECE).find(|piece| masked.as_bytes().windows(PIECE).any(|seen| seen == *piece));
            prop_assert!(left.is_none(), "{masked:?}");
        }
    }
}
