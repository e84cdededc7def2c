//! The outcome of a commit is its status at GitHub, GitLab, Gitea and Forgejo: pending at once, and then the result.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belay::config::{Config, NotifyConfig};
use belay::notices::{self, Http, Links, Receiver, Settings};
use belay::telemetry::NoticeLabels;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::daemon::{World, broken, config_map, deployment};

const TOKEN: &str = "token-of-the-forge";

/// One request.
#[derive(Clone, Debug)]
struct Seen {
    head: String,
    body: Value,
}

impl Seen {
    fn header(&self, name: &str) -> &str {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or_default()
    }
}

/// A forge on loopback. It answers so, and with 201 when nothing is said.
#[derive(Clone)]
struct Forge {
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    answers: Arc<Mutex<Vec<String>>>,
}

impl Forge {
    fn start() -> Forge {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let forge =
            Forge { port: listener.local_addr().unwrap().port(), seen: Arc::default(), answers: Arc::default() };
        let (seen, answers) = (Arc::clone(&forge.seen), Arc::clone(&forge.answers));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut text = String::new();
                let mut bytes = [0; 4096];
                loop {
                    let length = stream.read(&mut bytes).unwrap_or_default();
                    text.push_str(&String::from_utf8_lossy(&bytes[..length]));
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                    let wanted: usize =
                        head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
                    if length == 0 || body.len() >= wanted {
                        let body = serde_json::from_str(body).unwrap_or_default();
                        seen.lock().unwrap().push(Seen { head: head.to_owned(), body });
                        break;
                    }
                }
                let answer = answers.lock().unwrap().pop();
                let answer = answer.unwrap_or_else(|| "HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n".to_owned());
                drop(stream.write_all(answer.as_bytes()));
            }
        });
        forge
    }

    fn answers(&self, answer: &str) {
        self.answers.lock().unwrap().insert(0, answer.to_owned());
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Returns the states that were written of a commit.
    fn states(&self, commit: &str) -> Vec<String> {
        let of = |seen: &Seen| seen.head.lines().next().unwrap().contains(&format!("/statuses/{commit} "));
        self.seen().iter().filter(|seen| of(seen)).map(|seen| seen.body["state"].as_str().unwrap().to_owned()).collect()
    }
}

struct Telling {
    forge: Forge,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

fn receiver(token: &Path, forge: &Forge, kind: &str) -> Vec<NotifyConfig> {
    std::fs::write(token, format!("{TOKEN}\n")).unwrap();
    let text = format!(
        "[[source]]\nname = \"shop\"\nrepository = \"/srv\"\n[[notify]]\nname = \"forge\"\nkind = \"{kind}\"\n\
         allow_private = true\nurl = \"http://127.0.0.1:{}/repos/o/r/\"\ntoken_file = {token:?}\n",
        forge.port
    );
    Config::parse(&text, "belay.toml").unwrap().notify
}

/// Begins to tell a forge what the daemon of this world writes down.
fn tell(world: &World, forge: &Forge, kind: &str) -> Telling {
    let stop = CancellationToken::new();
    let branches = [("shop".to_owned(), "main".to_owned())];
    let public_url = Some("https://belay.example.com".to_owned());
    let links = Links { public_url, branches: branches.into(), ..Links::default() };
    let (history, clock, metrics) = (world.history().clone(), world.clock.clone(), world.metrics());
    let settings = Settings { history, clock, metrics, links, post: Arc::new(Http::new()) };
    let receivers = receiver(&world.repository.beside("token"), forge, kind);
    let task = tokio::spawn(notices::tell(receivers, None, settings, stop.clone()));
    Telling { forge: forge.clone(), stop, task }
}

impl Telling {
    async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

async fn told(kind: &str) -> (World, Telling) {
    let mut world = World::embedded().await;
    world.with_first_version().await;
    let telling = tell(&world, &Forge::start(), kind);
    pass(1).await;
    (world, telling)
}

/// Returns the sample Deployment's second version, which takes its time.
fn slow() -> String {
    deployment("web", "web:2", "  minReadySeconds: 10\n")
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn pending_then_success_or_failure_with_the_reason() {
    for (kind, name, token, failed) in [
        ("github", "context", ("authorization", "Bearer token-of-the-forge"), "failure"),
        ("gitlab", "name", ("private-token", TOKEN), "failed"),
        ("gitea", "context", ("authorization", "token token-of-the-forge"), "failure"),
    ] {
        let (mut world, telling) = told(kind).await;
        for number in 0..300 {
            world.repository.write(format!("{number}.yaml"), config_map(&format!("map-{number}"), "1"));
        }
        let good = world.push("web.yaml", &slow(), "Second version");
        world.through(&good).await;
        pass(60).await;
        assert_eq!(telling.forge.states(&good), ["pending", "success"], "{kind}");
        let bad = world.push("web.yaml", &broken("web", "image-pull-error"), "Third version");
        world.through(&bad).await;
        pass(60).await;
        assert_eq!(telling.forge.states(&bad), ["pending", failed], "{kind}");
        let last = telling.forge.seen().pop().unwrap();
        assert!(last.head.starts_with(&format!("POST /repos/o/r/statuses/{bad} HTTP/1.1")), "{}", last.head);
        assert_eq!((last.header(token.0), &last.body[name]), (token.1, &"belay/shop".into()));
        assert_eq!(last.body["target_url"], format!("https://belay.example.com/commits/{bad}"));
        let branch = if kind == "gitlab" { "main".into() } else { Value::Null };
        assert_eq!(last.body["ref"], branch, "{kind}");
        let description = last.body["description"].as_str().unwrap();
        assert!(description.starts_with("rolled-back: Deployment default/web: "), "{description}");
        assert!(kind != "github" || description.chars().count() <= 140, "{description}");
        assert_eq!(world.metrics().notices("forge", NoticeLabels::Sent), 4);
        telling.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_person_undoes_is_corrected() {
    let (mut world, telling) = told("github").await;
    let second = world.push("web.yaml", &slow(), "Second version");
    world.through(&second).await;
    pass(60).await;
    world.undo_to("web:1").await;
    pass(60).await;
    assert_eq!(telling.forge.states(&second), ["pending", "success", "failure"]);
    telling.end().await;
}

#[tokio::test(start_paused = true)]
async fn gitlab_s_refusal_of_what_is_so_already_is_none() {
    let (mut world, telling) = told("gitlab").await;
    let body =
        "{\"message\":\"Cannot transition status via :enqueue from :pending (Reason(s): Status cannot transition\"}";
    let length = body.len();
    telling.forge.answers(&format!("HTTP/1.1 400 Bad Request\r\ncontent-length: {length}\r\n\r\n{body}"));
    let second = world.push("web.yaml", &slow(), "Second version");
    world.through(&second).await;
    pass(60).await;
    assert_eq!(telling.forge.states(&second), ["pending", "success"]);
    let counted = [NoticeLabels::Sent, NoticeLabels::Failed, NoticeLabels::GivenUp]
        .map(|how| world.metrics().notices("forge", how));
    assert_eq!(counted, [2, 0, 0]);
    telling.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_forge_that_is_asked_too_much_is_left_alone_for_as_long_as_it_says() {
    for wish in [
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: 600\r\n",
        "HTTP/1.1 503 Away\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\nretry-after: Thu, 01 Jan 2026 00:10:00 GMT\r\n",
        "HTTP/1.1 403 Forbidden\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\nx-ratelimit-remaining: 0\r\nx-ratelimit-reset: 1767226200\r\n",
    ] {
        let (mut world, telling) = told("github").await;
        telling.forge.answers(&format!("{wish}content-length: 0\r\n\r\n"));
        let second = world.push("web.yaml", &slow(), "Second version");
        world.through(&second).await;
        pass(500).await;
        assert_eq!(telling.forge.states(&second), ["pending"], "{wish}");
        pass(130).await;
        assert_eq!(telling.forge.states(&second), ["pending", "success"], "{wish}");
        telling.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_the_same_status_has_the_same_delivery_id() {
    let (mut world, telling) = told("gitea").await;
    for _ in 0..3 {
        telling.forge.answers("HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n");
    }
    let second = world.push("web.yaml", &slow(), "Second version");
    world.through(&second).await;
    pass(30).await;
    let forge = telling.forge.clone();
    telling.end().await;
    world.kill().await;
    forge.answers.lock().unwrap().clear();
    let before = forge.seen();
    world.start();
    let telling = tell(&world, &forge, "gitea");
    pass(120).await;
    let after = forge.seen().split_off(before.len());
    assert_eq!(after.len(), 1, "{after:#?}");
    assert_eq!(after[0].body["state"], "success");
    let same: Vec<&Seen> = before.iter().filter(|seen| seen.body == after[0].body).collect();
    assert!(
        !same.is_empty()
            && same.iter().all(|seen| seen.header("x-belay-delivery") == after[0].header("x-belay-delivery"))
    );
    telling.end().await;
}

/// `belay notify test` reads the repository, writes nothing, and says what the token needs. The token is never shown.
#[tokio::test]
async fn a_forge_is_tried_without_a_status() {
    let home = tempfile::tempdir().unwrap();
    let now = jiff::Timestamp::UNIX_EPOCH;
    for (kind, needed) in
        [("github", "Commit statuses: read and write"), ("gitlab", "the scope api"), ("gitea", "write:repository")]
    {
        let forge = Forge::start();
        let said = format!("no access for {TOKEN}");
        forge.answers("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
        forge.answers(&format!("HTTP/1.1 403 Forbidden\r\ncontent-length: {}\r\n\r\n{said}", said.len()));
        let receiver = Receiver::new(receiver(&home.path().join("token"), &forge, kind).remove(0));
        let links = Links::default();
        let taken = receiver.try_out(now, &links, &Http::new()).await.unwrap();
        assert!(taken.is_taken(), "{taken}");
        let refused = receiver.try_out(now, &links, &Http::new()).await.unwrap().to_string();
        assert!(refused.contains(needed) && refused.contains("no access for …"), "{refused}");
        assert!(!refused.contains(TOKEN), "{refused}");
        for seen in forge.seen() {
            assert!(seen.head.starts_with("GET /repos/o/r HTTP/1.1"), "{}", seen.head);
            assert_eq!(seen.body, Value::Null);
        }
        assert_eq!(forge.seen().len(), 2);
    }
}
