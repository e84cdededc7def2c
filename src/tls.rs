//! A leaf: whom belay trusts over TLS, to Git servers, receivers of notices, Prometheus and other daemons. rustls with ring, as for the cluster.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::regular_file::read_regular;

/// The largest `ca_file`, in bytes.
const CA_FILE: u64 = 1 << 20;

/// Returns the authorities that this machine trusts, or those in `SSL_CERT_FILE`. A certificate that can't be read is not
/// trusted; a server that needs it says so with each attempt.
#[must_use]
pub fn machine_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// Returns the certificates of a `ca_file`.
///
/// # Errors
/// Fails when the file can't be read, or has no certificates in PEM; the reason does not name the file.
pub fn read_authorities(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read_regular(file, CA_FILE).map_err(|error| error.to_string())?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if found.is_empty() => Err("there is no certificate in it, in PEM".to_owned()),
        Ok(found) => Ok(found),
        Err(error) => Err(format!("it can't be read as PEM: {error}")),
    }
}

/// Returns these authorities and those of a `ca_file`.
///
/// # Errors
/// As [`read_authorities`], and if a certificate can't be used as an authority.
pub fn with_authorities(mut roots: RootCertStore, file: &Path) -> Result<RootCertStore, String> {
    for authority in read_authorities(file)? {
        roots.add(authority).map_err(|error| error.to_string())?;
    }
    Ok(roots)
}

/// Returns the configuration of a client that trusts these authorities.
#[must_use]
pub fn client_config(roots: RootCertStore) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = versions.expect("ring has the versions of TLS that rustls has").with_root_certificates(roots);
    Arc::new(config.with_no_client_auth())
}
