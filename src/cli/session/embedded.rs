//! The embedded cluster, listening, for the commands that bring one.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::time_warp::ClockPace;
use crate::regular_file::read_own_text;
use belay_core::manifest::{hex, parse_hex};
use minicluster::{Access, Authority, Authorization, Builder, Listening, MiniCluster, Token, Transport, User};

pub(in crate::cli) use super::kubeconfig::write as write_kubeconfig;

/// The file with a cluster's identity, beside its state.
const IDENTITY: &str = "identity.json";

/// The embedded cluster, and the server that others reach it by.
pub(in crate::cli) struct Embedded {
    pub cluster: MiniCluster,
    pub server: Listening,
    pub kubeconfig: String,
    pace: Option<ClockPace>,
}

/// The identity of a cluster for its clients, and their rights.
pub(in crate::cli) struct CertificateIdentity {
    authority: Authority,
    token: String,
    signing_key: [u8; 32],
    authorization: Authorization,
}

/// An identity as it lies in a file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KeptFiles {
    authority_key: String,
    token: String,
    signing_key: String,
}

impl CertificateIdentity {
    /// Returns a new one.
    pub(in crate::cli) fn new() -> anyhow::Result<CertificateIdentity> {
        CertificateIdentity::with_token(new_token()?)
    }

    fn with_token(token: String) -> anyhow::Result<CertificateIdentity> {
        let authority = Authority::new().map_err(|error| anyhow::anyhow!("failed to make a certificate: {error}"))?;
        Ok(CertificateIdentity {
            authority,
            token,
            signing_key: random_bytes()?,
            authorization: Authorization::default(),
        })
    }

    /// Sets the rights of its users, other than the one of the kubeconfig.
    pub(in crate::cli) fn authorizing(self, authorization: Authorization) -> CertificateIdentity {
        CertificateIdentity { authorization, ..self }
    }

    /// Returns the one in a folder, or a new one that is put there.
    pub(in crate::cli) fn kept_in(folder: &Path) -> anyhow::Result<CertificateIdentity> {
        let path = folder.join(IDENTITY);
        match read_own_text(&path, 64 << 10) {
            Ok(text) => CertificateIdentity::read(&text).with_context(|| {
                format!("failed to read {}; without it clients don't know the cluster again", path.display())
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let identity = CertificateIdentity::new()?;
                let kept = KeptFiles {
                    authority_key: identity.authority.key(),
                    token: identity.token.clone(),
                    signing_key: hex(&identity.signing_key),
                };
                write_kubeconfig(&path, &serde_json::to_string_pretty(&kept)?)?;
                Ok(identity)
            }
            Err(error) => Err(error).with_context(|| format!("failed to read {}", path.display())),
        }
    }

    fn read(text: &str) -> anyhow::Result<CertificateIdentity> {
        // The text may hold keys, which an error must not repeat.
        let kept: KeptFiles =
            serde_json::from_str(text).map_err(|_| anyhow::anyhow!("it is not as belay writes it"))?;
        let authority = Authority::with_key(&kept.authority_key);
        let authority = authority.map_err(|error| anyhow::anyhow!("its key can't be used: {error}"))?;
        let signing_key = parse_hex(&kept.signing_key).context("its signing key can't be used")?;
        Ok(CertificateIdentity { authority, token: kept.token, signing_key, authorization: Authorization::default() })
    }
}

/// Starts the embedded cluster and lets it listen: TLS with a certificate of its own, and a token that only the
/// kubeconfig knows.
pub(in crate::cli) async fn start(builder: Builder, address: SocketAddr, token: String) -> anyhow::Result<Embedded> {
    start_as(builder, address, CertificateIdentity::with_token(token)?, 1.0).await
}

/// Starts the embedded cluster with an identity, its time `speed` times as fast as the machine's, and lets it listen.
pub(in crate::cli) async fn start_as(
    builder: Builder,
    address: SocketAddr,
    identity: CertificateIdentity,
    speed: f64,
) -> anyhow::Result<Embedded> {
    let CertificateIdentity { authority, token, signing_key, authorization } = identity;
    let access = Access { tokens: vec![Token { token: token.clone(), user: User::admin() }], authorization };
    let builder =
        builder.name("belay").access(access).signing_key(signing_key).root_certificate(authority.certificate());
    let usual = (speed - 1.0).abs() < f64::EPSILON;
    let (cluster, pace) = if usual {
        (builder.start().await, None)
    } else {
        let pace = ClockPace::start(speed).await?;
        let starting = pace.handle().spawn(builder.clock(pace.clock()).start());
        (starting.await.context("the embedded cluster broke off")?, Some(pace))
    };
    let cluster = cluster.context("failed to start the embedded cluster")?;
    // Connections are in real time whatever the cluster's is.
    let server = cluster.listen(address, Transport::Tls(authority)).await?;
    let kubeconfig = server.kubeconfig(Some(&token));
    Ok(Embedded { cluster, server, kubeconfig, pace })
}

/// Returns a token that nobody can guess: 256 bits of the system's randomness.
pub(in crate::cli) fn new_token() -> anyhow::Result<String> {
    Ok(hex(&random_bytes()?))
}

fn random_bytes() -> anyhow::Result<[u8; 32]> {
    use std::io::Read as _;

    let mut bytes = [0_u8; 32];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    read.context("failed to read /dev/urandom")?;
    Ok(bytes)
}

impl Embedded {
    /// Closes the server and stops everything.
    pub(in crate::cli) async fn stop(self) {
        self.server.close().await;
        self.cluster.stop().await;
        drop(self.pace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_the_same_again() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (
            CertificateIdentity::kept_in(folder.path()).unwrap(),
            CertificateIdentity::kept_in(folder.path()).unwrap(),
        );
        assert_eq!(
            (one.token, one.signing_key, one.authority.key()),
            (two.token, two.signing_key, two.authority.key())
        );
        std::fs::write(folder.path().join(IDENTITY), "{\"token\": \"secret\"}").unwrap();
        let error = format!("{:#}", CertificateIdentity::kept_in(folder.path()).err().unwrap());
        assert!(error.contains(IDENTITY) && !error.contains("secret"), "{error}");
    }
}
