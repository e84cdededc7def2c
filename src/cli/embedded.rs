//! The embedded cluster with a door, for the commands that bring one.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;

use crate::minicluster::{Access, Authority, Authorization, Builder, Door, Listening, MiniCluster, Token, User};

/// The embedded cluster, and its door.
pub(super) struct Embedded {
    pub cluster: MiniCluster,
    pub door: Listening,
    pub kubeconfig: String,
}

/// Starts the embedded cluster and opens its door: TLS with a certificate of its own, and a token that only the
/// kubeconfig knows.
pub(super) async fn start(builder: Builder, address: SocketAddr, token: String) -> anyhow::Result<Embedded> {
    let authority = Authority::new().map_err(|error| anyhow::anyhow!("failed to make a certificate: {error}"))?;
    let access = Access {
        tokens: vec![Token { token: token.clone(), user: User::admin() }],
        authorization: Authorization::AllowAll,
    };
    let builder = builder.access(access).root_certificate(authority.certificate());
    let cluster = builder.start().await.context("failed to start the embedded cluster")?;
    let door = cluster.listen(address, Door::Tls(authority)).await?;
    let kubeconfig = door.kubeconfig(Some(&token));
    Ok(Embedded { cluster, door, kubeconfig })
}

/// Writes a kubeconfig that only its owner may read.
pub(super) fn write_kubeconfig(path: &Path, text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;

    let written = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("failed to write {}", path.display()))
}

/// A token that nobody can guess: 256 bits of the system's randomness.
pub(super) fn new_token() -> anyhow::Result<String> {
    use std::io::Read as _;

    let mut bytes = [0_u8; 32];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    read.context("failed to read /dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Embedded {
    /// Closes the door and stops everything.
    pub(super) async fn stop(self) {
        self.door.close().await;
        self.cluster.stop().await;
    }
}
