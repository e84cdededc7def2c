//! An embedded cluster behind a port, and the kubeconfig that leads to it.

use std::path::Path;

use minicluster::{Access, Authority, Authorization, Builder, Listening, MiniCluster, Token, Transport, User};

/// Starts a cluster that listens, and writes a kubeconfig for it; its administrator's token is in it. The port is closed
/// when the second part is dropped.
pub async fn open(builder: Builder, kubeconfig: &Path) -> (MiniCluster, Listening) {
    let token = "a-token-of-this-test".to_owned();
    let access = Access {
        tokens: vec![Token { token: token.clone(), user: User::admin() }],
        authorization: Authorization::Rbac,
    };
    let cluster = builder.access(access).start().await.unwrap();
    let server = cluster.listen(([127, 0, 0, 1], 0).into(), Transport::Tls(Authority::new().unwrap())).await.unwrap();
    std::fs::write(kubeconfig, server.kubeconfig(Some(&token))).unwrap();
    (cluster, server)
}
