//! A cluster for kubectl, or for any other client: `cargo run --example with_kubectl`, then the command that it prints.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::net::Ipv4Addr;

#[cfg(test)]
use k8s_openapi::api::core::v1::Node;
#[cfg(test)]
use kube::api::{Api, ListParams};
#[cfg(test)]
use kube::config::{KubeConfigOptions, Kubeconfig};
use minicluster::{Access, Authority, Listening, MiniCluster, Token, Transport, User};

const TOKEN: &str = "a-token-for-this-example";

/// Returns a cluster that admits any holder of the token, over TLS with a certificate of its own.
async fn serve() -> Result<(MiniCluster, Listening), Box<dyn Error>> {
    let authority = Authority::new()?;
    let mut access = Access::default();
    access.tokens.push(Token { token: TOKEN.to_owned(), user: User::admin() });
    let builder = MiniCluster::builder().nodes(2).access(access).root_certificate(authority.certificate());
    let cluster = builder.start().await?;
    // Port 0: any that is free.
    let server = cluster.listen((Ipv4Addr::LOCALHOST, 0).into(), Transport::Tls(authority)).await?;
    Ok((cluster, server))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (cluster, server) = serve().await?;
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, server.kubeconfig(Some(TOKEN)))?;
    println!("kubectl --kubeconfig {} get nodes,pods -A", kubeconfig.display());
    println!("Enter ends the cluster.");
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    server.close().await;
    cluster.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_client_finds_its_way_by_the_kubeconfig() -> Result<(), Box<dyn Error>> {
    drop(rustls::crypto::ring::default_provider().install_default());
    let (cluster, server) = serve().await?;
    let kubeconfig = Kubeconfig::from_yaml(&server.kubeconfig(Some(TOKEN)))?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let nodes: Api<Node> = Api::all(kube::Client::try_from(config)?);
    let found = || async { nodes.list(&ListParams::default()).await.map(|list| list.items.len()) };
    while found().await? < 2 {
        tokio::task::yield_now().await;
    }
    server.close().await;
    cluster.stop().await;
    Ok(())
}
