//! The subject of a certificate (X.509, in DER): its common name and organizations. The certificate has been verified.

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const VERSION: u8 = 0xa0;
/// 2.5.4.3
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// 2.5.4.10
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

/// The subject of a certificate.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) common_name: String,
    pub(super) organizations: Vec<String>,
}

/// Reads a certificate's subject; `None` if it is not built as it should be.
pub(super) fn subject(certificate: &[u8]) -> Option<Subject> {
    let (certificate, _) = expect(certificate, SEQUENCE)?;
    let (mut body, _) = expect(certificate, SEQUENCE)?;
    if body.first() == Some(&VERSION) {
        body = element(body)?.2;
    }
    // Serial number, algorithm, issuer, validity.
    for _ in 0..4 {
        body = element(body)?.2;
    }
    let (mut names, _) = expect(body, SEQUENCE)?;
    let mut subject = Subject::default();
    while !names.is_empty() {
        let (mut set, rest) = expect(names, SET)?;
        names = rest;
        while !set.is_empty() {
            let (pair, rest) = expect(set, SEQUENCE)?;
            set = rest;
            let (kind, value) = expect(pair, OBJECT_IDENTIFIER)?;
            let text = String::from_utf8_lossy(element(value)?.1).into_owned();
            if kind == COMMON_NAME {
                subject.common_name = text;
            } else if kind == ORGANIZATION {
                subject.organizations.push(text);
            }
        }
    }
    Some(subject)
}

fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(bytes)?;
    (found == tag).then_some((content, rest))
}

/// Returns the first element: its tag, its content, and the rest.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, bytes) = bytes.split_first()?;
    let (&first, mut bytes) = bytes.split_first()?;
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        let count = usize::from(first & 0x7f);
        if count > size_of::<u32>() {
            return None;
        }
        let (digits, rest) = bytes.split_at_checked(count)?;
        length = digits.iter().fold(0, |length, digit| (length << 8) | usize::from(*digit));
        bytes = rest;
    }
    let (content, rest) = bytes.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    #[test]
    fn name_and_groups_are_read() {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "bob");
        params.distinguished_name.push(DnType::OrganizationName, "climbers");
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let bytes = certificate.der();
        let read = subject(bytes).unwrap();
        assert_eq!((read.common_name.as_str(), read.organizations.as_slice()), ("bob", &["climbers".to_owned()][..]));
        for end in 0..bytes.len() {
            // Cut anywhere, it is read as far as it goes or not at all.
            drop(subject(&bytes[..end]));
        }
        assert_eq!(subject(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
