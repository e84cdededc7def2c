use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams, PostParams, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::super::{Access, Authorization, MiniCluster, Token, User};
use super::*;

const ANYWHERE: &str = "127.0.0.1:0";

async fn open(access: Access, server: Transport) -> (MiniCluster, Listening) {
    let cluster = MiniCluster::builder().access(access).start().await.unwrap();
    let listening = cluster.listen(ANYWHERE.parse().unwrap(), server).await.unwrap();
    (cluster, listening)
}

async fn client(kubeconfig: &str) -> Client {
    // Tests may run before anything else has chosen a provider; a second choice changes nothing.
    drop(rustls::crypto::ring::default_provider().install_default());
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// Sends bytes and reads until the other side closes, or has nothing more to say for a while.
async fn exchange(address: SocketAddr, sent: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(sent).await.unwrap();
    let mut read = Vec::new();
    drop(tokio::time::timeout(Duration::from_millis(500), stream.read_to_end(&mut read)).await);
    String::from_utf8_lossy(&read).into_owned()
}

#[tokio::test]
async fn a_connection_serves_many_requests() {
    let (_cluster, server) = open(Access::default(), Transport::Plain).await;
    let request = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n".repeat(3);
    let answers = exchange(server.address(), request.as_bytes()).await;
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 3, "{answers}");
    assert!(server.url().starts_with("http://127.0.0.1:"));
}

#[tokio::test]
async fn what_is_no_request_is_refused() {
    let (_cluster, server) = open(Access::default(), Transport::Plain).await;
    assert!(exchange(server.address(), b"\x16\x03\x01 hello\r\n\r\n").await.starts_with("HTTP/1.1 400"));
    let many = format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "a: b\r\n".repeat(HEADERS + 1));
    assert!(exchange(server.address(), many.as_bytes()).await.starts_with("HTTP/1.1 431"));
    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(HEADER_BYTES));
    let answer = exchange(server.address(), long.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431") || answer.starts_with("HTTP/1.1 414"), "{answer}");
    let large = "POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n[]";
    assert!(exchange(server.address(), large.as_bytes()).await.starts_with("HTTP/1.1 400"));
    assert!(
        exchange(server.address(), b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.contains("200 OK"),
        "still there"
    );
}

#[tokio::test]
async fn closing_the_server_ends_what_goes_on() {
    let (cluster, server) = open(Access::default(), Transport::Plain).await;
    let namespaces: Api<Namespace> = Api::all(client(&server.kubeconfig(None)).await);
    let mut watch = namespaces.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    assert!(watch.try_next().await.unwrap().is_some());
    let address = server.address();
    tokio::time::timeout(FAREWELL * 2, server.close()).await.expect("it does not wait for watches");
    assert!(TcpStream::connect(address).await.is_err());
    drop(tokio::time::timeout(FAREWELL, watch.collect::<Vec<_>>()).await.expect("the watch has ended"));
    cluster.stop().await;
}

#[tokio::test]
async fn users_are_known_by_token_and_by_certificate() {
    let admin = User { name: "root".to_owned(), groups: vec!["system:masters".to_owned()], ..User::default() };
    let tokens = vec![Token { token: "secret".to_owned(), user: admin }];
    let access = Access { tokens, authorization: Authorization::Rbac };
    let authority = Authority::new().unwrap();
    let (_cluster, server) = open(access, Transport::Tls(authority.clone())).await;
    let namespaces = |client: &Client| Api::<Namespace>::all(client.clone());
    let root = client(&server.kubeconfig(Some("secret"))).await;
    assert_eq!(namespaces(&root).list(&ListParams::default()).await.unwrap().items.len(), 4);
    let nobody = client(&server.kubeconfig(None)).await;
    assert!(namespaces(&nobody).list(&ListParams::default()).await.is_err());
    let stranger = client(&server.kubeconfig(Some("guess"))).await;
    assert!(namespaces(&stranger).list(&ListParams::default()).await.is_err());
    let credentials = authority.user("ann", "climbers").unwrap();
    let data = |pem: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pem);
    let user = format!(
        "user: {{client-certificate-data: {}, client-key-data: {}}}",
        data(&credentials.certificate),
        data(&credentials.key)
    );
    let ann = client(&server.kubeconfig(None).replace("user: {}", &user)).await;
    let review = Api::<SelfSubjectReview>::all(ann).create(&PostParams::default(), &SelfSubjectReview::default()).await;
    let known = review.unwrap().status.unwrap().user_info.unwrap();
    assert_eq!(known.username.as_deref(), Some("ann"));
    assert_eq!(known.groups.unwrap(), ["climbers", "system:authenticated"]);
}

#[tokio::test]
async fn an_address_that_is_taken_is_said() {
    let (cluster, server) = open(Access::default(), Transport::Plain).await;
    let refusal = cluster.listen(server.address(), Transport::Plain).await.unwrap_err();
    assert!(refusal.to_string().starts_with(&format!("failed to listen on {}", server.address())));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_its_headers_too_slowly_is_left() {
    let cluster = MiniCluster::builder().start().await.unwrap();
    for sent in ["", "GET /livez HTTP/1.1\r\nHost: x\r\na: b"] {
        let (mut slow, ours) = tokio::io::duplex(1024);
        let serving = serve(ours, cluster.api.clone(), Peer::default(), CancellationToken::new());
        let serving = tokio::spawn(serving);
        let started = tokio::time::Instant::now();
        slow.write_all(sent.as_bytes()).await.unwrap();
        let mut read = Vec::new();
        tokio::time::timeout(HEADER_TIMEOUT * 2, slow.read_to_end(&mut read)).await.expect("it is closed").unwrap();
        serving.await.unwrap();
        assert!(started.elapsed() <= HEADER_TIMEOUT + Duration::from_secs(1), "{sent:?}: {:?}", started.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_its_answer_is_left() {
    let cluster = MiniCluster::builder().start().await.unwrap();
    let (mut deaf, ours) = tokio::io::duplex(1024);
    let serving = serve(ours, cluster.api.clone(), Peer::default(), CancellationToken::new());
    let started = tokio::time::Instant::now();
    deaf.write_all(b"GET /api/v1 HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    tokio::time::timeout(UNREAD * 2, serving).await.expect("it is left");
    assert!(started.elapsed() >= UNREAD, "{:?}", started.elapsed());
    let mut read = Vec::new();
    deaf.read_to_end(&mut read).await.unwrap();
    assert_eq!(read.len(), 1024, "no more than there is room for");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_its_answer_slowly_gets_all_of_it() {
    let cluster = MiniCluster::builder().start().await.unwrap();
    let (mut slow, ours) = tokio::io::duplex(1024);
    let serving = serve(ours, cluster.api.clone(), Peer::default(), CancellationToken::new());
    let serving = tokio::spawn(serving);
    slow.write_all(b"GET /api/v1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let (mut read, mut some, started) = (Vec::new(), [0; 1024], tokio::time::Instant::now());
    loop {
        tokio::time::sleep(UNREAD - Duration::from_secs(1)).await;
        match slow.read(&mut some).await.unwrap() {
            0 => break,
            count => read.extend_from_slice(&some[..count]),
        }
    }
    assert!(started.elapsed() > UNREAD * 2, "{:?}", started.elapsed());
    let text = String::from_utf8(read).unwrap();
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(body).unwrap()["resources"].is_array());
    serving.await.unwrap();
}

#[tokio::test]
async fn beyond_the_limit_a_connection_waits_for_another_to_end() {
    let cluster = MiniCluster::builder().start().await.unwrap();
    let listener = TcpListener::bind(ANYWHERE).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    let one = Arc::new(Semaphore::new(1));
    tasks.spawn(accept(listener, one, cluster.api.clone(), None, stop.clone(), tasks.clone()));
    let ask = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut first = TcpStream::connect(address).await.unwrap();
    first.write_all(ask.as_bytes()).await.unwrap();
    let mut some = [0; 12];
    first.read_exact(&mut some).await.unwrap();
    assert_eq!(&some, b"HTTP/1.1 200");
    let mut second = TcpStream::connect(address).await.unwrap();
    second.write_all(ask.as_bytes()).await.unwrap();
    let waiting = tokio::time::timeout(Duration::from_millis(200), second.read_exact(&mut some)).await;
    assert!(waiting.is_err(), "it was served beside the first");
    drop(first);
    second.read_exact(&mut some).await.unwrap();
    assert_eq!(&some, b"HTTP/1.1 200");
    stop.cancel();
}
