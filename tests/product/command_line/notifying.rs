//! `belay notify test`: one message, and what came back.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;

use crate::program::run;

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
