//! The cluster's own authority: certificates for its server and for its users.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// Names under which the server is known besides its address.
const NAMES: [&str; 5] =
    ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];

/// An authority that clients trust. Cheap to clone.
#[derive(Clone)]
pub struct Authority(Arc<CertifiedIssuer<'static, KeyPair>>);

/// A certificate and its key, both as PEM.
#[derive(Clone)]
pub struct Credentials {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Authority")
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Credentials")
    }
}

impl Authority {
    /// Returns a new authority, with a key that nobody else has.
    ///
    /// # Errors
    /// The key or certificate can't be made; says why.
    pub fn new() -> Result<Authority, String> {
        Authority::of(KeyPair::generate().map_err(|error| error.to_string())?)
    }

    /// Returns the authority with this key, as PEM, which may have been another process's: clients that trust that one
    /// trust this.
    ///
    /// # Errors
    /// It is no such key; says why.
    pub fn with_key(key: &str) -> Result<Authority, String> {
        Authority::of(KeyPair::from_pem(key).map_err(|error| error.to_string())?)
    }

    /// Returns its key, as PEM: its holder can be anybody.
    #[must_use]
    pub fn key(&self) -> String {
        self.0.key().serialize_pem()
    }

    fn of(key: KeyPair) -> Result<Authority, String> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "minicluster-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, key).map_err(|error| error.to_string())?;
        Ok(Authority(Arc::new(issuer)))
    }

    /// Returns its certificate, as PEM.
    #[must_use]
    pub fn certificate(&self) -> String {
        self.0.pem()
    }

    /// Returns its certificate as kubeconfigs carry it: PEM in base64.
    #[must_use]
    pub fn certificate_base64(&self) -> String {
        STANDARD.encode(self.certificate())
    }

    /// Returns a certificate for a user of the cluster, by name and group.
    ///
    /// # Errors
    /// The key or certificate can't be made; says why.
    pub fn user(&self, name: &str, group: &str) -> Result<Credentials, String> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().map_err(|error| error.to_string())?;
        let certificate = params.signed_by(&key, &self.0).map_err(|error| error.to_string())?;
        Ok(Credentials { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// Returns the configuration of a server at an address: a certificate for it, and a request for those of users.
    pub(super) fn server_config(&self, address: IpAddr) -> Result<Arc<ServerConfig>, String> {
        let mut params =
            CertificateParams::new(NAMES.map(str::to_owned).to_vec()).map_err(|error| error.to_string())?;
        params.distinguished_name.push(DnType::CommonName, "minicluster");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.subject_alt_names.push(SanType::IpAddress(address));
        params.subject_alt_names.push(SanType::IpAddress(IpAddr::from([127, 0, 0, 1])));
        let key = KeyPair::generate().map_err(|error| error.to_string())?;
        let certificate = params.signed_by(&key, &self.0).map_err(|error| error.to_string())?;
        let mut roots = RootCertStore::empty();
        let own = CertificateDer::from(self.0.der().to_vec());
        roots.add(own).map_err(|error| error.to_string())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .map_err(|error| error.to_string())?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate.der().clone()], key)
            .map_err(|error| error.to_string())?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}
