//! `belay notify test`: one message, and what came back. And what a running belay sends.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use crate::fixture::Fixture;
use crate::program::{Running, belay, run};
use crate::support::daemon::config_map;

/// Returns a receiver that answers each message so, and what it is sent: headers and body.
fn receiver(answer: &'static str) -> (u16, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, sent) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while lines.read_line(&mut head).unwrap() > 2 {}
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap();
            let mut body = vec![0; length];
            lines.read_exact(&mut body).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            if tell.send((head, serde_json::from_slice(&body).unwrap())).is_err() {
                return;
            }
        }
    });
    (port, sent)
}

/// The trace of a commit arrives where `[telemetry]` says, with the token; nothing else is known of either.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_is_traced_by_a_running_belay() {
    let mut stage = Fixture::new().await;
    let commit = stage.repository.commit_file("web.yaml", &config_map("web", "1"), "First version");
    stage.repository.push();
    let (port, sent) = receiver("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}");
    let home = stage.home.path();
    std::fs::write(home.join("token"), "token-1\n").unwrap();
    let (repository, token) = (stage.repository.path(), home.join("token"));
    let config = format!(
        "[[source]]\nname = \"shop\"\nrepository = {repository:?}\n[telemetry]\notlp = \"http://127.0.0.1:{port}/path-1\"\n\
         token_file = {token:?}\n"
    );
    std::fs::write(home.join("belay.toml"), config).unwrap();
    let mut command = belay(home);
    command.args(["run", "--config", "belay.toml"]).args(stage.globals());
    command.stdout(Stdio::null()).stderr(std::fs::File::create(home.join("log")).unwrap());
    let mut running = Running(command.spawn().unwrap());
    let (head, body) = sent.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("{}", stage.log()));
    assert!(head.starts_with("POST /path-1/v1/traces ") && head.contains("authorization: Bearer token-1"), "{head}");
    let of_resource = &body["resourceSpans"][0]["resource"]["attributes"];
    assert!(of_resource.to_string().contains(&commit), "{of_resource}");
    let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let names: Vec<&str> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["commit shop", "fetch", "plan", "apply ConfigMap default/web"]);
    let root = &spans[0];
    assert_eq!((&root["status"]["code"], &root["parentSpanId"]), (&1.into(), &Value::Null));
    running.signal("-TERM");
    assert!(running.ended().await.is_some_and(|ended| ended.success()), "{}", stage.log());
    assert!(!stage.log().contains("token-1") && !stage.log().contains("path-1"), "{}", stage.log());
}

fn configure(home: &Path, notify: &str) -> String {
    let path = home.join("belay.toml");
    std::fs::write(&path, format!("[[source]]\nrepository = \"/srv/shop.git\"\n{notify}")).unwrap();
    path.display().to_string()
}

#[test]
fn a_test_says_what_came_back() {
    let home = tempfile::tempdir().unwrap();
    let (port, sent) = receiver("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
    let url = home.path().join("url");
    std::fs::write(&url, format!("http://127.0.0.1:{port}/services/token-1\n")).unwrap();
    let config = configure(
        home.path(),
        &format!("[[notify]]\nname = \"chat\"\nkind = \"slack\"\nurl_file = {url:?}\nallow_private = true\n"),
    );
    let ran = run(home.path(), &["notify", "test", "chat", "--config", &config]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "chat took the message: 200 OK: ok\n", ""));
    let (head, body) = sent.recv().unwrap();
    assert!(head.starts_with("POST /services/token-1 ") && head.contains("x-belay-event: test"), "{head}");
    assert_eq!(body["text"], "A test of belay: messages arrive here.");
    let ran = run(home.path(), &["notify", "test", "chat", "--config", &config, "-o", "json"]);
    let answer: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(answer, serde_json::json!({"receiver": "chat", "taken": true, "answer": "200 OK: ok"}));

    let ran = run(home.path(), &["notify", "test", "chta", "--config", &config]);
    assert_eq!((ran.code, ran.err.as_str()), (1, "error: there is no receiver \"chta\"; there is chat\n"));
    let config = configure(home.path(), "");
    let ran = run(home.path(), &["notify", "test", "chat", "--config", &config]);
    assert!(ran.code == 1 && ran.err.contains("no [[notify]]"), "{}", ran.err);
}

#[test]
fn what_is_refused_says_so_and_never_shows_the_address() {
    let home = tempfile::tempdir().unwrap();
    let (port, _sent) =
        receiver("HTTP/1.1 403 Forbidden\r\ncontent-length: 13\r\nconnection: close\r\n\r\ninvalid_token");
    let hook = |rest: &str| {
        let notify = format!(
            "[[notify]]\nname = \"ops\"\nkind = \"webhook\"\nurl = \"https://127.0.0.1:{port}/token-1\"\n{rest}"
        );
        let config = configure(home.path(), &notify.replace("https", if rest.is_empty() { "https" } else { "http" }));
        let ran = run(home.path(), &["notify", "test", "ops", "--config", &config, "-vv"]);
        assert!(ran.code == 1 && !ran.err.contains("token-1"), "{}", ran.err);
        let json = run(home.path(), &["notify", "test", "ops", "--config", &config, "-o", "json"]);
        let answer: Value = serde_json::from_str(&json.out).unwrap();
        assert!(json.code == 1 && answer["taken"] == false && !json.out.contains("token-1"), "{}", json.out);
        let why = answer.get("answer").or(answer.get("error")).and_then(Value::as_str).unwrap();
        assert!(ran.err.contains(why), "{} {why}", ran.err);
        ran.err
    };
    assert!(
        hook("allow_private = true\n").contains("error: ops did not take the message: 403 Forbidden: invalid_token")
    );
    assert!(hook("").contains("no public address"));
}
