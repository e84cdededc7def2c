//! `--server URL`: `status`, `history` and `show` of a daemon elsewhere, from a machine with neither its history nor its cluster.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use crate::fixture::Fixture;
use crate::program::{Ran, Running, belay, run};
use crate::support::daemon::{broken, deployment};

/// A daemon with pages, and an empty home elsewhere.
struct Elsewhere {
    fixture: Fixture,
    _daemon: Running,
    url: String,
    empty: tempfile::TempDir,
}

impl Elsewhere {
    async fn new() -> Elsewhere {
        let mut fixture = Fixture::new().await;
        fixture.repository.commit_file("web.yaml", &quick(&deployment("web", "web:1", "")), "First");
        fixture.repository.push();
        let home = fixture.home.path();
        let repository = fixture.repository.path().display();
        let config = format!(
            "[[source]]\nname = \"shop\"\nrepository = \"{repository}\"\ninterval = \"1s\"\n[web]\nlisten = \"127.0.0.1:0\"\n"
        );
        std::fs::write(home.join("belay.toml"), config).unwrap();
        let mut command = belay(home);
        command.args(["run", "--config", "belay.toml"]).args(fixture.globals());
        command.stdout(Stdio::null()).stderr(File::create(home.join("log")).unwrap());
        let daemon = Running(command.spawn().unwrap());
        let url = url_of(&fixture).await;
        Elsewhere { fixture, _daemon: daemon, url, empty: tempfile::tempdir().unwrap() }
    }

    fn push(&mut self, path: &str, content: &str, message: &str) -> String {
        let commit = self.fixture.repository.commit_file(path, content, message);
        self.fixture.repository.push();
        commit
    }

    fn ask(&self, args: &[&str]) -> Ran {
        run(self.empty.path(), &[args, &["--server", &self.url]].concat())
    }

    /// Checks that a command prints the same here and there. An age may change between two runs.
    fn is_the_same(&self, args: &[&str]) {
        let printed = |ran: Ran| (ran.code, ran.out, ran.err);
        for _ in 0..20 {
            let before = printed(self.fixture.run(args));
            let there = printed(self.ask(args));
            if before == printed(self.fixture.run(args)) {
                assert_eq!(there, before, "{args:?}");
                return;
            }
        }
        panic!("{args:?} never prints the same twice");
    }
}

/// Returns a Deployment that fails soon.
fn quick(manifest: &str) -> String {
    manifest.replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 2")
}

async fn url_of(fixture: &Fixture) -> String {
    let started = Instant::now();
    loop {
        let log = fixture.log();
        let shown = log.lines().find(|line| line.contains("showing status and metrics"));
        if let Some((_, address)) = shown.and_then(|line| line.split_once("address=")) {
            return format!("http://{}", address.split_whitespace().next().unwrap());
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{log}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_without_anything_reads_the_same() {
    let mut stage = Elsewhere::new().await;
    let first = stage.fixture.repository.tip().unwrap();
    let waited = stage.ask(&["status", "--commit", &first, "--wait"]);
    assert_eq!((waited.code, waited.out.contains("is complete: 1 object")), (0, true), "{waited:?}");
    let bad = stage.push("web.yaml", &quick(&broken("web", "never-ready")), "Broken");
    let waited = stage.ask(&["status", "--commit", &bad[..9], "--wait", "-o", "json"]);
    assert_eq!((waited.code, waited.out.contains("\"complete\": false")), (3, true), "{waited:?}");
    let other = stage.push("notes.txt", "nothing to apply", "Notes");
    let waited = stage.ask(&["status", "--commit", &other, "--wait"]);
    assert_eq!((waited.code, waited.out.contains("changes nothing here")), (0, true), "{waited:?}");
    for args in [
        &["history"][..],
        &["history", "-o", "wide"],
        &["history", "-o", "json"],
        &["history", "-o", "name"],
        &["history", "--objects", "-o", "wide"],
        &["history", "deploy/web", "--failed"],
        &["history", "--author", "nobody"],
        &["history", "--since", "2020-01-01", "--until", "2020-01-02"],
        &["history", "--limit", "1"],
        &["history", "--all", "-o", "yaml"],
        &["history", "web", "-n", "elsewhere"],
        &["history", "--source", "shap"],
        &["history", "--commit", "0123456"],
        &["history", "--stats", "--by", "workload", "--until", "2026-01-01", "-o", "json"],
        &["history", "--stats", "--since", "2020-01-01", "-o", "wide"],
        &["show", &bad],
        &["show", &bad[..8], "--steps"],
        &["show", &bad, "-o", "json"],
        &["show", &first, "-o", "name"],
        &["status", "-A", "-o", "json"],
        &["status", "-A"],
        &["status", "-n", "default"],
        &["status", "-n", "elsewhere"],
        &["status", "-A", "--state", "held", "-o", "wide"],
        &["status", "-A", "-o", "name"],
    ] {
        stage.is_the_same(args);
    }
    let unknown = stage.ask(&["show", "ffffffff"]);
    assert!(unknown.code == 1 && unknown.err.contains("belay has seen no commit that begins so"), "{unknown:?}");
    let late = stage.ask(&["status", "--commit", "0123456", "--wait", "--timeout", "1s"]);
    assert_eq!((late.code, late.err.contains("is not through after 1s")), (4, true), "{late:?}");
}

/// Answers each connection with this, after that has been asked. Returns the URL, and what was asked.
fn serve(answer: String) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, asked) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer_one(stream, &answer, &sender);
        }
    });
    (url, asked)
}

fn answer_one(mut stream: TcpStream, answer: &str, sender: &mpsc::Sender<String>) -> std::io::Result<()> {
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    while !text.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read(&mut part)? {
            0 => return Ok(()),
            read => text.extend_from_slice(&part[..read]),
        }
    }
    let _ = sender.send(String::from_utf8_lossy(&text).into_owned());
    if answer.is_empty() {
        // It says nothing, until the other side gives up.
        let _ = stream.read(&mut part)?;
    }
    stream.write_all(answer.as_bytes())
}

fn with_body(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn a_server_that_misbehaves_is_explained() {
    let home = tempfile::tempdir().unwrap();
    let token = "tok-3c7f9a1e5b";
    std::fs::write(home.path().join("token"), format!("{token}\n")).unwrap();
    let (elsewhere, never_asked) = serve(with_body("200 OK", "{}"));
    let redirect =
        format!("HTTP/1.1 302 Found\r\nLocation: {elsewhere}/\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    let huge = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{{\"records\":[{}", " ".repeat(65 << 20));
    for (answer, says) in [
        (redirect, "leads to another address (302 Found)"),
        (with_body("401 Unauthorized", ""), "refuses the token in token (401 Unauthorized)"),
        (with_body("403 Forbidden", &format!("{{\"error\":\"{token}\"}}")), "refuses the token"),
        (with_body("421 Misdirected Request", "no"), "add it to allowed_hosts"),
        (with_body("404 Not Found", "<html>"), "--server takes the URL of a daemon's pages"),
        (
            with_body("500 Oops", &format!("{{\"error\":\"{token} is wrong\"}}")),
            "has no answer now (500 Internal Server Error): …",
        ),
        (with_body("200 OK", "<html>login</html>"), "the answer is not one of belay"),
        (with_body("200 OK", "{\"records\":[{\"id\":\"x\"}],\"missing\":[]}"), "the answer is not one of belay"),
        (with_body("200 OK", &format!("{}1", "[".repeat(100_000))), "the answer is not one of belay"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\n{".to_owned(), "broke off"),
        (huge, "larger than 64 MiB"),
        (String::new(), "did not answer within 1s (--request-timeout)"),
        ("nonsense\r\n\r\n".to_owned(), "can't be reached"),
    ] {
        let (url, asked) = serve(answer);
        let args = ["history", "--server", &url, "--token-file", "token", "--request-timeout", "1s"];
        let limit = if says.contains("64 MiB") { "60s" } else { "1s" };
        let ran = run(home.path(), &[&args[..6], &[limit]].concat());
        assert_eq!(ran.code, 1, "{says}: {ran:?}");
        assert!(ran.err.contains(says) && ran.err.contains(&url), "{says}: {ran:?}");
        assert!(!ran.err.contains(token) && ran.out.is_empty(), "{says}: {ran:?}");
        let asked = asked.recv().unwrap().to_ascii_lowercase();
        assert!(asked.starts_with("get /api/v1/history?") && asked.contains(&format!("authorization: bearer {token}")));
    }
    assert!(never_asked.try_recv().is_err(), "the redirect is not followed");
}

#[test]
fn a_token_goes_nowhere_in_the_open() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("token"), "abcdefgh\n").unwrap();
    std::fs::write(home.path().join("lines"), "abcdefgh\nijklmnop\n").unwrap();
    for (args, code, says) in [
        (&["history", "--server", "http://belay.example.com", "--token-file", "token"][..], 1, "use https://"),
        (&["history", "--server", "http://127.0.0.1:1", "--token-file", "lines"], 1, "a token is one line"),
        (&["history", "--server", "http://127.0.0.1:1", "--token-file", "none"], 1, "failed to read none"),
        (&["history", "--server", "http://127.0.0.1:1", "--ca-file", "token"], 1, "there is no certificate in it"),
        (&["history", "--server", "http://127.0.0.1:1"], 1, "can't be reached"),
        (&["history", "--server", "belay.example.com"], 2, "write it with https:// or http://"),
        (&["history", "--token-file", "token"], 2, "--server <URL>"),
        (&["status", "--server", "http://127.0.0.1:1", "--watch"], 2, "cannot be used with"),
        (&["show", "HEAD", "--server", "http://127.0.0.1:1"], 1, "there is no commit \"HEAD\" in a working copy here"),
    ] {
        let ran = run(home.path(), args);
        assert_eq!(ran.code, code, "{args:?}: {ran:?}");
        assert!(ran.err.contains(says) && !ran.err.contains("abcdefgh"), "{args:?}: {ran:?}");
    }
}
