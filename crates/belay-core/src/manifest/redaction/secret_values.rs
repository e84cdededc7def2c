//! Tells the values of a chart that may be secret: an import prints values, and so do the errors of a tool.

/// Words in the names of values that nobody should read.
const SECRET: [&str; 11] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "apikey",
    "api_key",
    "private",
    "auth",
    "dsn",
];

/// Words in the names of values that look as if they were made at random, and are no secrets.
const IDENTIFIERS: [&str; 7] = ["tag", "digest", "version", "revision", "commit", "sha", "checksum"];
/// The number of characters from which on a value looks as if it was made at random.
const RANDOM: usize = 12;

/// Whether a value may be one that nobody should read: its name says so, or it looks like a password or a key.
#[must_use]
pub fn may_be_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let last = name.rsplit('.').next().unwrap_or_default();
    let has_user = value.contains("://") && value.contains('@');
    let identifies = IDENTIFIERS.iter().any(|word| last.contains(word));
    let named = last.ends_with("key") || SECRET.iter().any(|word| name.contains(word));
    named || has_user || value.contains("-----BEGIN ") || (looks_random(value) && !identifies)
}

/// Returns true when letters and digits are mixed in a text, and not joined as words and names are.
fn looks_random(value: &str) -> bool {
    let has = |kind: fn(&char) -> bool| value.chars().any(|c| kind(&c));
    let (small, large) = (has(char::is_ascii_lowercase), has(char::is_ascii_uppercase));
    let joined = value.contains(['.', '-', ' ', ':', ',', '{']);
    // In base64 there are slashes, too; in paths and names there rarely are letters of both sizes and digits.
    let mixed = if value.contains(['/', '_']) { small && large } else { small || large };
    value.len() >= RANDOM && !joined && has(char::is_ascii_digit) && mixed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_may_be_secret_is_known_by_its_name() {
        let secret = ["db.password", "API_TOKEN", "aws.secretAccessKey", "tls.key", "authHeader"];
        assert!(secret.iter().all(|name| may_be_secret(name, "1")));
        assert!(may_be_secret("db", "postgres://ada:x@db") && !may_be_secret("image.tag", "1.2"));
        for value in ["hunter2hunter2", "AKIAIOSFODNN7EXAMPLE", "c2Vjc/V0IGhlcmU5", "-----BEGIN CERTIFICATE-----"] {
            assert!(may_be_secret("bootstrap", value), "{value}");
        }
        for (name, value) in [
            ("image.tag", "545177a545177a545177"),
            ("host", "shop-2.example.com"),
            ("size", "100000000000000"),
            ("image", "r.example.com/web2:1.0"),
            ("mode", "ReadWriteOnce"),
            ("folder", "/var/lib/data1"),
            ("database", "shop_production_2"),
        ] {
            assert!(!may_be_secret(name, value), "{name} {value}");
        }
    }
}
