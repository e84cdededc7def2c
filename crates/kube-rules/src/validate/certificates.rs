//! Requests for certificates. The content of a request, and its signature, are not checked.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::super::value_ext::{ValueExt, repeated_values};
use super::errors::{Errors, Path};
use super::names;

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
const BLOCK: &str = "-----BEGIN CERTIFICATE REQUEST-----";
/// So short may a certificate be valid, in seconds.
const SHORTEST: i64 = 600;
/// So long may the name of a signer be: a domain, and as much again.
const LONGEST_SIGNER: usize = 571;

/// Checks a CertificateSigningRequest, its metadata apart.
pub fn request(object: &Value, errors: &mut Errors) {
    let (spec, at) = (&object["spec"], Path::root("spec"));
    let is_request = STANDARD
        .decode(spec.text("request"))
        .is_ok_and(|bytes| String::from_utf8_lossy(&bytes).lines().any(|line| line.trim_end() == BLOCK));
    if !is_request {
        errors.invalid(&at.field("request"), &spec["request"], "PEM block type must be CERTIFICATE REQUEST");
    }
    let (usages, list) = (spec.list("usages"), at.field("usages"));
    if usages.is_empty() {
        errors.required(&list, "");
    }
    let repeated = repeated_values(usages);
    for (index, usage) in usages.iter().enumerate() {
        if !USAGES.iter().any(|known| usage == known) {
            errors.not_supported(&list.index(index), usage, &USAGES);
        }
        if repeated[index] {
            errors.duplicate(&list.index(index), usage);
        }
    }
    signer(spec.text("signerName"), &at.field("signerName"), errors);
    if let Some(seconds) = spec.int("expirationSeconds").filter(|seconds| *seconds < SHORTEST) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(&at.field("expirationSeconds"), seconds, detail);
    }
}

/// Checks that a signer is named by a domain and a path in it.
fn signer(name: &str, at: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(at, "");
    }
    let Some((domain, path)) = name.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.invalid(at, name, detail);
    };
    let labels: Vec<&str> = domain.split('.').collect();
    for label in &labels {
        errors.each_invalid(at, domain, &of_label(label, &names::dns_1123_label(label)));
    }
    if labels.len() < 2 {
        errors.invalid(at, domain, "should be a domain with at least two segments separated by dots");
    }
    for part in path.split('.') {
        errors.each_invalid(at, path, &of_label(part, &names::dns_1123_subdomain(part)));
    }
    if name.len() > LONGEST_SIGNER {
        errors.too_long(at, LONGEST_SIGNER);
    }
}

/// Returns the faults of one part of a name.
fn of_label(label: &str, said: &[String]) -> Vec<String> {
    said.iter().map(|detail| format!("validating label {label:?}: {detail}")).collect()
}
