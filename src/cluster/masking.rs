//! The output of programs may hold the Secrets that they were given. It is taken out before anything is kept of it.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::{Cluster, ClusterError};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{named_configuration, template};

/// The length of a piece of a value that gives it away, in bytes.
const PIECE: usize = 8;
/// A shorter value is a word like `true` or a port, and everywhere.
const SHORTEST: usize = 5;
/// The bytes of the values of one workload's Secrets that are looked for. With more of them nothing of a message is shown.
const VALUES: usize = 1 << 20;
/// The workloads at once whose values take more than [`FEW`] bytes, and how long another waits for one of them to be done.
const LARGE: usize = 2;
const WAITS: Duration = Duration::from_secs(10);
const FEW: usize = 16 << 10;
/// The number of Secrets that are read for one workload.
const SECRETS: usize = 20;
/// The replacement for a value.
const MASK: &str = "***";

/// The values that must not be shown.
#[derive(Default)]
pub(super) struct Masking {
    /// The pieces of the values, and the whole of short ones, as numbers in their order.
    pieces: Vec<u64>,
    whole: Vec<u64>,
    /// True when there are more values than are looked for.
    hides_all: bool,
    _room: Option<OwnedSemaphorePermit>,
}

/// The values of Secrets, while they are read one after the other.
#[derive(Default)]
struct SecretValues {
    pieces: Vec<u64>,
    whole: Vec<u64>,
    /// The bytes of the values.
    bytes: usize,
    hides_all: bool,
    room: Option<OwnedSemaphorePermit>,
}

/// The room for the values of workloads with large Secrets. Cheap to clone.
#[derive(Clone)]
pub(super) struct MaskingRoom(Arc<Semaphore>);

impl Default for MaskingRoom {
    fn default() -> MaskingRoom {
        MaskingRoom(Arc::new(Semaphore::new(LARGE)))
    }
}

impl MaskingRoom {
    async fn enter(&self) -> Option<OwnedSemaphorePermit> {
        timeout(WAITS, Arc::clone(&self.0).acquire_owned()).await.ok()?.ok()
    }
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
        let mut values = SecretValues::default();
        let left = named.len().saturating_sub(SECRETS);
        if left > 0 {
            missing.push(format!(
                "{left} more Secrets, whose values are therefore not masked: at most {SECRETS} are read"
            ));
        }
        for secret in named.into_iter().take(SECRETS) {
            match self.secret(&secret).await {
                Ok(Some(secret)) => values.add_within(&secret, &self.masking_room).await,
                Ok(None) => {}
                Err(error) => missing.push(format!("{secret}, whose values are therefore not masked: {error}")),
            }
        }
        if values.hides_all {
            let limit = VALUES >> 10;
            missing.push(format!(
                "messages and logs, which may hold values of its Secrets: these have more than {limit} KiB"
            ));
        }
        values.into_masking()
    }

    async fn secret(&self, key: &ObjectKey) -> Result<Option<Value>, ClusterError> {
        let served = self.served("v1", "Secret").await?;
        self.get(key, &served).await
    }
}

impl SecretValues {
    /// Adds the values of a Secret, in the room that there is for many.
    async fn add_within(&mut self, secret: &Value, room: &MaskingRoom) {
        let values = secret["data"].as_object().into_iter().flatten();
        let more: usize = values.filter_map(|(_, value)| value.as_str()).map(|encoded| encoded.len() / 4 * 3).sum();
        if self.room.is_none() && !self.hides_all && self.bytes + more > FEW {
            self.room = room.enter().await;
            self.hides_all = self.room.is_none();
        }
        self.add(secret);
    }

    /// Adds the values of a Secret, as they are and in base64.
    fn add(&mut self, secret: &Value) {
        for encoded in secret["data"].as_object().into_iter().flatten().filter_map(|(_, value)| value.as_str()) {
            let Ok(value) = STANDARD.decode(encoded) else { continue };
            self.bytes += value.len();
            if self.hides_all || self.bytes > VALUES {
                *self = SecretValues { hides_all: true, ..SecretValues::default() };
                return;
            }
            self.add_value(encoded.as_bytes());
            self.add_value(&value);
            self.add_registries(&value);
        }
    }

    /// Adds the passwords of a `.dockerconfigjson`, which are in base64 once more in it.
    fn add_registries(&mut self, value: &[u8]) {
        let Ok(config) = serde_json::from_slice::<Value>(value) else { return };
        let registries = config.get("auths").unwrap_or(&config).as_object().into_iter().flatten();
        for auth in registries.filter_map(|(_, registry)| registry["auth"].as_str()) {
            let Ok(login) = STANDARD.decode(auth) else { continue };
            self.add_value(&login);
            if let Some(colon) = login.iter().position(|byte| *byte == b':') {
                self.add_value(&login[colon + 1..]);
            }
        }
    }

    fn add_value(&mut self, value: &[u8]) {
        self.pieces.extend(value.windows(PIECE).map(number));
        let word = value.trim_ascii();
        if (SHORTEST..PIECE).contains(&word.len()) {
            self.whole.push(number(word));
        }
    }

    /// Returns what hides all of them.
    fn into_masking(mut self) -> Masking {
        for numbers in [&mut self.pieces, &mut self.whole] {
            numbers.sort_unstable();
            numbers.dedup();
            numbers.shrink_to_fit();
        }
        Masking { pieces: self.pieces, whole: self.whole, hides_all: self.hides_all, _room: self.room }
    }
}

impl Masking {
    /// Returns a text without them.
    pub(super) fn apply(&self, text: &str) -> String {
        if self.hides_all && !text.is_empty() {
            return MASK.to_owned();
        }
        if self.pieces.is_empty() && self.whole.is_empty() {
            return text.to_owned();
        }
        let bytes = text.as_bytes();
        let mut hidden = vec![false; bytes.len()];
        let lengths =
            std::iter::once((PIECE, &self.pieces)).chain((SHORTEST..PIECE).map(|length| (length, &self.whole)));
        for (length, values) in lengths {
            for (at, window) in bytes.windows(length).enumerate() {
                if values.binary_search(&number(window)).is_ok() {
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

    /// Takes them out of the messages in a value. Its other texts are names and words of Kubernetes, by which belay rules: a value
    /// may be the same word.
    pub(super) fn apply_to_messages(&self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply_to_messages(item)),
            Value::Object(fields) => fields.iter_mut().for_each(|(name, field)| match field {
                Value::String(text) if name == "message" => *text = self.apply(text),
                field => self.apply_to_messages(field),
            }),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Returns a piece of at most eight bytes as a number, with its length where it is shorter.
fn number(piece: &[u8]) -> u64 {
    let length = if piece.len() < PIECE { piece.len() as u64 } else { 0 };
    piece.iter().fold(length, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn of(values: &[&str]) -> Masking {
        let mut secrets = SecretValues::default();
        let data: serde_json::Map<String, Value> =
            values.iter().enumerate().map(|(at, value)| (format!("k{at}"), json!(STANDARD.encode(value)))).collect();
        secrets.add(&json!({ "data": data }));
        secrets.into_masking()
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

    /// Fifty workloads may be looked at at once, each with twenty Secrets of a MiB.
    #[tokio::test(start_paused = true)]
    async fn secrets_of_any_size_take_little_memory() {
        let values = |count: usize, size: usize| {
            let value = |key: usize| {
                let bytes: Vec<u8> =
                    (0..size).map(|at| (at * 7919 + key * 104_729 + at / 251).to_le_bytes()[0]).collect();
                (format!("k{key}"), json!(STANDARD.encode(bytes)))
            };
            json!({"data": (0..count).map(value).collect::<serde_json::Map<_, _>>()})
        };
        let held = |masking: &Masking| (masking.pieces.capacity() + masking.whole.capacity()) * size_of::<u64>();
        let (twentieth, all_at_once) = (values(4, 60_000), values(10, 60_000));
        let room = MaskingRoom::default();
        let mut all: Vec<Masking> = Vec::new();
        for _ in 0..50 {
            let mut secrets = SecretValues::default();
            for _ in 0..20 {
                secrets.add_within(&twentieth, &room).await;
            }
            let masking = secrets.into_masking();
            assert_eq!(masking.apply("anything"), "***");
            all.push(masking);
        }
        assert_eq!(all.iter().map(held).sum::<usize>(), 0);
        for _ in 0..50 {
            let mut secrets = SecretValues::default();
            secrets.add_within(&all_at_once, &room).await;
            all.push(secrets.into_masking());
        }
        let held: usize = all.iter().map(held).sum();
        assert!(held < 64 << 20, "{held} bytes");
        let shown = all.iter().filter(|masking| masking.apply("anything") == "anything").count();
        assert_eq!(shown, LARGE, "those that have room");
    }

    #[test]
    fn a_long_value_is_hidden_to_its_end() {
        let value = format!("{}the very end", "0123456789".repeat(9_000));
        assert_eq!(of(&[&value]).apply("it is the very end of it"), "it is *** of it");
    }

    /// A Secret may hold any word: `Running`, or a container's name.
    #[test]
    fn words_by_which_belay_rules_are_left() {
        let masking = of(&["Running", "CrashLoopBackOff", "postgres"]);
        let status = |message: &str| {
            json!({"phase": "Running", "containerStatuses": [{"name": "postgres",
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": message}}}]})
        };
        let mut masked = status("no database postgres");
        masking.apply_to_messages(&mut masked);
        assert_eq!(masked, status("no database ***"));
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
