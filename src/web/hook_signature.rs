//! The proof that a hook is a forge's: the forge knows a secret of the source's. All comparisons take the same time,
//! whatever is wrong.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderMap;
use sha2::Sha256;

type Code = Hmac<Sha256>;

/// Headers with the HMAC-SHA256 of the body in hexadecimal digits, after `sha256=` or alone: belay's own form, GitHub's,
/// Bitbucket's, Forgejo's and Gitea's. GitHub's `X-Hub-Signature` begins with `sha1=`, and is no proof.
const DIGESTS: [&str; 5] =
    ["x-belay-signature-256", "x-hub-signature-256", "x-hub-signature", "x-forgejo-signature", "x-gitea-signature"];
/// The prefix of GitLab's signing tokens (Standard Webhooks).
const SIGNING: &str = "whsec_";

/// The proof in a request that its sender knows a secret.
#[derive(Debug, Default)]
pub(super) struct Proof {
    /// The secret itself, as GitLab says it.
    token: Option<Vec<u8>>,
    /// Codes of the body.
    digests: Vec<Vec<u8>>,
    /// Codes of the prefix and the body (Standard Webhooks, which newer GitLab speaks).
    prefix: Vec<u8>,
    prefixed: Vec<Vec<u8>>,
}

impl Proof {
    /// Returns the proof in the headers; `None` if there is none.
    pub(super) fn of(headers: &HeaderMap) -> Option<Proof> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let digest = |name: &&str| text(name).and_then(|text| digits(text.strip_prefix("sha256=").unwrap_or(text)));
        let mut proof = Proof {
            token: headers.get("x-gitlab-token").map(|token| token.as_bytes().to_vec()),
            digests: DIGESTS.iter().filter_map(digest).collect(),
            ..Proof::default()
        };
        if let (Some(id), Some(time), Some(codes)) =
            (text("webhook-id"), text("webhook-timestamp"), text("webhook-signature"))
        {
            proof.prefix = format!("{id}.{time}.").into_bytes();
            let code = |code: &str| STANDARD.decode(code.strip_prefix("v1,")?).ok();
            // One for each of its secrets.
            proof.prefixed = codes.split(' ').filter_map(code).take(4).collect();
        }
        let says_something = proof.token.is_some() || !proof.digests.is_empty() || !proof.prefixed.is_empty();
        says_something.then_some(proof)
    }

    /// Begins to check it by these secrets.
    pub(super) fn check<'s>(self, secrets: impl Iterator<Item = &'s str>) -> Checking {
        let codes = secrets.map(|secret| {
            let mut signing = code(&signing_key(secret));
            signing.update(&self.prefix);
            Codes { secret: secret.as_bytes().to_vec(), plain: code(secret.as_bytes()), signing }
        });
        Checking { codes: codes.collect(), proof: self }
    }
}

/// Returns true when the headers prove that the sender of a body knows one of these secrets.
#[must_use]
pub fn is_proven(secrets: &[&str], headers: &HeaderMap, body: &[u8]) -> bool {
    let secrets = secrets.iter().copied().filter(|secret| is_secret(secret));
    let checking = Proof::of(headers).map(|proof| proof.check(secrets));
    checking.is_some_and(|mut checking| {
        checking.update(body);
        checking.proves()
    })
}

/// A body on its way, as much as is here. Nothing of it is kept.
pub(super) struct Checking {
    codes: Vec<Codes>,
    proof: Proof,
}

/// The codes of one secret.
struct Codes {
    secret: Vec<u8>,
    plain: Code,
    signing: Code,
}

impl Checking {
    /// Adds the next part of the body.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        for codes in &mut self.codes {
            if !self.proof.digests.is_empty() {
                codes.plain.update(bytes);
            }
            if !self.proof.prefixed.is_empty() {
                codes.signing.update(bytes);
            }
        }
    }

    /// Returns true when the sender knows one of the secrets.
    pub(super) fn proves(self) -> bool {
        let Checking { codes, proof } = self;
        let fits = |mac: &Code, codes: &[Vec<u8>]| {
            codes.iter().filter(|code| mac.clone().verify_slice(code).is_ok()).count() > 0
        };
        let proves = |codes: &Codes| {
            // Codes of both are compared, so that the time says nothing of how much of the token is right.
            let token = proof
                .token
                .as_ref()
                .is_some_and(|token| code(token).verify_slice(&code(&codes.secret).finalize().into_bytes()).is_ok());
            token | fits(&codes.plain, &proof.digests) | fits(&codes.signing, &proof.prefixed)
        };
        codes.iter().filter(|codes| proves(codes)).count() > 0
    }
}

/// Returns true when a line of a secret file is a secret at all. `whsec_` without a key after it is one that everybody
/// knows.
pub(super) fn is_secret(line: &str) -> bool {
    line.strip_prefix(SIGNING).is_none_or(|key| !key.trim_matches(['=', ' ']).is_empty())
}

fn code(key: &[u8]) -> Code {
    Code::new_from_slice(key).expect("HMAC takes keys of any length")
}

/// Returns the key in a signing token; of another secret it is the secret.
fn signing_key(secret: &str) -> Vec<u8> {
    let key = secret.strip_prefix(SIGNING).and_then(|key| STANDARD.decode(key).ok());
    key.unwrap_or_else(|| secret.as_bytes().to_vec())
}

/// Returns the bytes that hexadecimal digits stand for.
fn digits(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes: Option<Vec<u8>> = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
    bytes.filter(|bytes| rest.is_empty() && !bytes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proves(headers: &[(&'static str, &str)], body: &[u8], secrets: &[&str]) -> Option<bool> {
        let headers = headers.iter().map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()));
        let proof = Proof::of(&headers.collect())?;
        let mut checking = proof.check(secrets.iter().copied());
        // In pieces, as it arrives.
        body.chunks(5).for_each(|bytes| checking.update(bytes));
        Some(checking.proves())
    }

    /// The example of GitHub's documentation.
    const SECRET: &str = "It's a Secret to Everybody";
    const BODY: &[u8] = b"Hello, World!";
    const DIGEST: &str = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    #[test]
    fn every_forge_is_understood() {
        let signed = format!("sha256={DIGEST}");
        for (name, value) in [
            ("x-hub-signature-256", signed.as_str()),
            ("x-hub-signature", &signed),
            ("x-belay-signature-256", &signed),
            ("x-gitea-signature", DIGEST),
            ("x-forgejo-signature", DIGEST),
            ("x-gitlab-token", SECRET),
        ] {
            assert_eq!(proves(&[(name, value)], BODY, &[SECRET]), Some(true), "{name}");
            assert_eq!(proves(&[(name, value)], BODY, &["old", SECRET]), Some(true), "{name}: the second secret");
            assert_eq!(proves(&[(name, value)], BODY, &["other"]), Some(false), "{name}");
            assert_eq!(proves(&[(name, value)], BODY, &[]), Some(false), "{name}");
            if name != "x-gitlab-token" {
                assert_eq!(proves(&[(name, value)], b"Hello, world!", &[SECRET]), Some(false), "{name}");
            }
        }
    }

    /// The example of the Standard Webhooks' libraries.
    #[test]
    fn what_newer_gitlab_signs_is_understood() {
        let headers = |time: &'static str| {
            [
                ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
                ("webhook-timestamp", time),
                ("webhook-signature", "v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
            ]
        };
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let body = br#"{"test": 2432232314}"#;
        assert_eq!(proves(&headers("1614265330"), body, &[secret]), Some(true));
        assert_eq!(proves(&headers("1614265331"), body, &[secret]), Some(false));
        assert_eq!(proves(&headers("1614265330"), body, &["whsec_AAAA", "whsec_%"]), Some(false));
    }

    #[test]
    fn a_signing_token_without_a_key_is_no_secret() {
        for line in ["whsec_", "whsec_=", "whsec_====", "whsec_ ="] {
            assert!(!is_secret(line), "{line}");
        }
        for line in ["whsec_AAAA", "whsec_%", "whsec", "secret"] {
            assert!(is_secret(line), "{line}");
        }
    }

    #[test]
    fn nothing_else_is_a_proof() {
        for (name, value) in [
            ("x-hub-signature", "sha1=d2f0ac6bd9d2b5e9d1b0b8c2b1d6f2b1a9d1b0b8"),
            ("x-hub-signature-256", "sha256="),
            ("x-hub-signature-256", "sha256=7571é"),
            ("x-gitea-signature", "757"),
            ("authorization", SECRET),
        ] {
            assert_eq!(proves(&[(name, value)], BODY, &[SECRET]), None, "{name}: {value}");
        }
        // The beginning of a code, or of a token, is none; nor is an empty one.
        for (name, value) in
            [("x-gitea-signature", &DIGEST[..32]), ("x-gitlab-token", &SECRET[..9]), ("x-gitlab-token", "")]
        {
            assert_eq!(proves(&[(name, value)], BODY, &[SECRET]), Some(false), "{name}: {value}");
        }
    }
}
