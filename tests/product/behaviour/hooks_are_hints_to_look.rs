//! A forge that says that something was pushed is answered with a look at once: where it knows a secret, at most once a second,
//! and whatever it says beside.

use std::path::PathBuf;
use std::time::Duration;

use belay::config::Span;
use belay::telemetry::Hooked;
use belay::web::{Hook, Web};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::daemon::{World, deployment};

const SECRET: &str = "s3cret-1";
const BODY: &str = r#"{"ref":"refs/heads/elsewhere","repository":{"clone_url":"https://attacker.example/x.git"}}"#;

/// Returns the sample Deployment complete, in a repository that is asked once a day, and the file with the secrets of
/// its hooks.
async fn asked_daily() -> (World, Web, PathBuf) {
    let mut world = World::embedded().await;
    world.polls = true;
    world.config.interval = Span(Duration::from_hours(24));
    world.with_first_version().await;
    let file = world.repository.beside("hook-secret");
    std::fs::write(&file, format!("{SECRET}\n")).unwrap();
    let hook = Hook::new(file.clone(), world.look_request());
    let shown = world.shown_with([("shop".to_owned(), hook)].into());
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &["belay.example.com".to_owned()], shown).await.unwrap();
    (world, web, file)
}

/// Sends it; what was answered.
async fn send(web: &Web, request: String) -> String {
    let mut stream = TcpStream::connect(web.address()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn hook_to(path: &str, host: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    )
}

/// Returns the status that a hook with these headers is answered with.
async fn hook(web: &Web, headers: &str) -> u16 {
    code(&send(web, hook_to("/hooks/shop", "belay.example.com", headers, BODY)).await)
}

fn code(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

fn digest(secret: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(BODY.as_bytes());
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn signed(secret: &str) -> String {
    format!("X-Hub-Signature-256: sha256={}\r\n", digest(secret))
}

/// Returns how often the repository was looked at.
async fn looks(web: &Web) -> u64 {
    let metrics = crate::shows_itself_over_http::get(web, "/metrics").await;
    let line = "belay_fetches_total{source=\"shop\",result=\"ok\"} ";
    metrics.lines().find_map(|text| text.strip_prefix(line)).unwrap().parse().unwrap()
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_push_is_looked_at_whatever_the_forge() {
    let (mut world, web, _file) = asked_daily().await;
    let digest = digest(SECRET);
    let began = world.clock.now();
    for (number, headers) in [
        format!("X-GitHub-Event: push\r\nX-Hub-Signature: sha1=00\r\nX-Hub-Signature-256: sha256={digest}\r\n"),
        format!("X-Gitlab-Event: Push Hook\r\nX-Gitlab-Token: {SECRET}\r\n"),
        format!("X-Gitea-Event: push\r\nX-Gitea-Signature: {digest}\r\n"),
        format!("X-Forgejo-Event: push\r\nX-Forgejo-Signature: {digest}\r\n"),
        format!("X-Event-Key: repo:push\r\nX-Hub-Signature: sha256={digest}\r\n"),
        format!("X-Belay-Signature-256: sha256={digest}\r\n"),
    ]
    .iter()
    .enumerate()
    {
        let image = format!("web:{}", number + 2);
        let commit = world.push("web.yaml", &deployment("web", &image, ""), &image);
        assert_eq!(hook(&web, headers).await, 202, "{headers}");
        world.through(&commit).await;
    }
    assert!(world.clock.now().duration_since(began).as_mins() < 30, "nobody waited for the day to end");
    assert_eq!(world.metrics().hooks("shop", Hooked::Accepted), 6);
}

#[tokio::test(start_paused = true)]
async fn a_signing_token_without_a_key_proves_nothing() {
    let (mut world, web, file) = asked_daily().await;
    world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    let before = looks(&web).await;
    // Everybody can sign with no key.
    let mut mac = Hmac::<Sha256>::new_from_slice(b"").unwrap();
    mac.update(format!("1.2.{BODY}").as_bytes());
    let code = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, mac.finalize().into_bytes());
    let headers = [
        format!("webhook-id: 1\r\nwebhook-timestamp: 2\r\nwebhook-signature: v1,{code}\r\n"),
        signed("whsec_"),
        "X-Gitlab-Token: whsec_\r\n".to_owned(),
    ];
    for (text, status) in [("whsec_\n", 500), (" whsec_= \n", 500), ("whsec_\ns3cret-2\n", 401)] {
        std::fs::write(&file, text).unwrap();
        for headers in &headers {
            assert_eq!(hook(&web, headers).await, status, "{text:?}: {headers}");
        }
    }
    assert_eq!(looks(&web).await, before);
    assert_eq!(hook(&web, &signed("s3cret-2")).await, 202, "the other line counts");
}

#[tokio::test(start_paused = true)]
async fn who_does_not_know_the_secret_is_refused_and_nothing_is_looked_at() {
    let (mut world, web, file) = asked_daily().await;
    world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    let before = looks(&web).await;
    for headers in [
        String::new(),
        signed("wrong"),
        format!("X-Gitlab-Token: {SECRET}x\r\n"),
        "X-Gitlab-Token: \r\n".to_owned(),
        "X-Hub-Signature-256: sha256=\r\n".to_owned(),
    ] {
        assert_eq!(hook(&web, &headers).await, 401, "{headers}");
    }
    // The body is what is signed.
    let other = send(&web, hook_to("/hooks/shop", "localhost", &signed(SECRET), "{}")).await;
    assert_eq!(code(&other), 401);
    assert!(!other.contains(SECRET));
    assert_eq!(world.metrics().hooks("shop", Hooked::Refused), 6);
    // Nothing tells a source without a hook from one that is not there.
    let unknown = send(&web, hook_to("/hooks/nothing", "localhost", &signed(SECRET), BODY)).await;
    assert!(unknown.starts_with("HTTP/1.1 404") && !unknown.contains("nothing"), "{unknown}");
    for path in ["/hooks/shop", "/hooks/nothing"] {
        let get = send(&web, format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")).await;
        assert_eq!(code(&get), 405, "{path}");
    }
    let elsewhere = send(&web, hook_to("/hooks/shop", "attacker.example", &signed(SECRET), BODY)).await;
    assert_eq!(code(&elsewhere), 421);
    let large = format!(
        "POST /hooks/shop HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{}Content-Length: {}\r\n\r\n",
        signed(SECRET),
        (25 << 20) + 1
    );
    assert_eq!(code(&send(&web, large).await), 413);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(hook(&web, &signed(SECRET)).await, 500);
    assert_eq!(
        [Hooked::Accepted, Hooked::Invalid, Hooked::Error].map(|how| world.metrics().hooks("shop", how)),
        [0, 1, 1]
    );
    pass(3600).await;
    assert_eq!(looks(&web).await, before);
}

#[tokio::test(start_paused = true)]
async fn a_secret_may_be_changed_without_a_moment_in_which_neither_counts() {
    let (_world, web, file) = asked_daily().await;
    assert_eq!([hook(&web, &signed(SECRET)).await, hook(&web, &signed("s3cret-2")).await], [202, 401]);
    std::fs::write(&file, format!("{SECRET}\r\n\ns3cret-2\n")).unwrap();
    assert_eq!([hook(&web, &signed(SECRET)).await, hook(&web, &signed("s3cret-2")).await], [202, 202]);
    std::fs::write(&file, "s3cret-2\n").unwrap();
    assert_eq!([hook(&web, &signed(SECRET)).await, hook(&web, &signed("s3cret-2")).await], [401, 202]);
    // An empty line is no secret.
    assert_eq!(hook(&web, &signed("")).await, 401);
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_one_look_a_second_and_the_last_push_is_never_missed() {
    let (mut world, web, _file) = asked_daily().await;
    pass(60).await;
    let (look, before) = (world.look_request(), looks(&web).await);
    for _ in 0..1000 {
        look.pushed();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let commit = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    let (pushed, limit) = (world.clock.now(), Duration::from_millis(1010));
    look.pushed();
    tokio::time::sleep(limit).await;
    let took = looks(&web).await - before;
    assert!((10..=12).contains(&took), "{took} looks in 11 s");
    assert!(
        world.status().looked.is_some_and(|looked| looked >= pushed),
        "the last push was looked at within a second"
    );
    world.through(&commit).await;
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_is_sent_again_is_one_more_look_and_nothing_else() {
    let (mut world, web, _file) = asked_daily().await;
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    assert_eq!(hook(&web, &signed(SECRET)).await, 202);
    world.through(&second).await;
    let (records, before) = (world.records(), looks(&web).await);
    for _ in 0..5 {
        assert_eq!(hook(&web, &signed(SECRET)).await, 202);
        pass(60).await;
    }
    assert_eq!(looks(&web).await, before + 5);
    assert_eq!(world.records(), records);
}
