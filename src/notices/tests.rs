//! Tests of sending, of the allowed receivers, and of reading the answer: against a receiver on loopback.

use rustls::pki_types::pem::PemObject as _;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

mod hostile;
mod mail;
mod traces;

use super::address::{Destination, is_public};
use super::delivery::{HttpAnswer, SendError};
use super::links::Links;
use super::message::Notification;
use super::receiver::Receiver;
use super::send::Http;
use super::sender::IN_VAIN;
use super::signature::signature;
use super::slack;
use crate::config::{Config, NotifyConfig};
use crate::user_agent::AGENT;

/// Returns a receiver that takes one message and answers so. Its port, and the requests that it received.
fn answering(answer: impl Into<Vec<u8>>) -> (u16, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = answer.into();
    let task = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let sent = read(&mut stream);
        stream.write_all(&answer).unwrap();
        sent
    });
    (port, task)
}

fn read(stream: &mut impl std::io::Read) -> String {
    let mut sent = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&sent).into_owned();
        let length = |head: &str| -> Option<usize> {
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok())
        };
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && length(head).is_some_and(|length| body.len() >= length)
        {
            return text;
        }
        match stream.read(&mut buffer).unwrap() {
            0 => return text,
            count => sent.extend_from_slice(&buffer[..count]),
        }
    }
}

fn config(notify: &str) -> NotifyConfig {
    let text = format!("[[source]]\nrepository = \"/srv\"\n[[notify]]\nname = \"ops\"\n{notify}\n");
    Config::parse(&text, "belay.toml").unwrap().notify.remove(0)
}

/// Tries a receiver out.
async fn tried(notify: &str) -> Result<HttpAnswer, SendError> {
    Receiver::new(config(notify)).try_out(now(), &Links::default(), &Http::new()).await
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn local(port: u16) -> String {
    format!("kind = \"webhook\"\nallow_private = true\nurl = \"http://127.0.0.1:{port}/hook/token-1?a=b\"\n")
}

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn messages_are_signed_as_published() {
    // RFC 4231, test cases 1, 2 and 6, and the example of GitHub's documentation.
    let vectors: [(&[u8], &[u8], &str); 4] = [
        (&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
        (b"Jefe", b"what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
        (
            &[0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        ),
        (
            b"It's a Secret to Everybody",
            b"Hello, World!",
            "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        ),
    ];
    for (secret, body, code) in vectors {
        assert_eq!(signature(secret, body), format!("sha256={code}"));
    }
}

#[tokio::test]
async fn a_webhook_is_sent_signed_json() {
    let folder = tempfile::tempdir().unwrap();
    let secret = file(folder.path(), "secret", "It's a Secret to Everybody\n");
    let (port, received) = answering("HTTP/1.1 202 Accepted\r\ncontent-length: 5\r\n\r\nfine\n");
    let answer = tried(&format!("{}secret_file = \"{secret}\"", local(port))).await.unwrap();
    assert!(answer.is_taken());
    assert_eq!(answer.to_string(), "202 Accepted: fine");
    let received = received.join().unwrap();
    let (head, body) = received.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /hook/token-1?a=b HTTP/1.1\r\n"), "{head}");
    let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap();
    assert_eq!(header("host"), format!("127.0.0.1:{port}"));
    assert_eq!(header("user-agent"), AGENT);
    assert_eq!((header("content-type"), header("x-belay-event")), ("application/json", "test"));
    assert_eq!(header("x-belay-signature-256"), signature(b"It's a Secret to Everybody", body.as_bytes()));
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!((&body["event"], &body["receiver"], &body["commit"]), (&"test".into(), &"ops".into(), &Value::Null));
    assert_eq!(body["delivery"], header("x-belay-delivery"));
    assert_eq!(header("x-belay-delivery").len(), 32);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (elsewhere, _) = answering("HTTP/1.1 200 OK\r\n\r\n");
    let location = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:{elsewhere}/\r\ncontent-length: 0\r\n\r\n"
    );
    let (port, received) = answering(location);
    let answer = tried(&local(port)).await.unwrap();
    assert!(!answer.is_taken());
    assert_eq!(answer.to_string(), "307 Temporary Redirect (redirects are not followed)");
    received.join().unwrap();
}

#[tokio::test]
async fn what_comes_back_is_bounded_and_shows_no_address() {
    let long = "x".repeat(1 << 20);
    let (port, received) = answering(format!(
        "HTTP/1.1 503 Service Unavailable\r\nretry-after: 120\r\ncontent-length: {}\r\n\r\n\u{1b}[2J no /hook/token-1?a=b here {long}",
        long.len() + 40
    ));
    let answer = tried(&local(port)).await.unwrap();
    assert_eq!((answer.status, answer.retry_after), (503, Some(Duration::from_mins(2))));
    assert!(answer.text.starts_with("[2J no … here xxx") && answer.text.chars().count() == 200, "{}", answer.text);
    drop(received);
}

#[tokio::test]
async fn private_addresses_are_refused_also_by_name() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "10.0.0.1"] {
        let url = format!("kind = \"webhook\"\nurl = \"https://{host}:{port}/token-1\"");
        let error = tried(&url).await.unwrap_err().to_string();
        assert!(error.contains("no public address"), "{host}: {error}");
        assert!(!error.contains("token-1"), "{error}");
    }
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "nobody was connected to");
}

#[test]
fn what_is_public_is_what_the_internet_has() {
    let public = |address: &str| is_public(address.parse().unwrap());
    for address in ["1.1.1.1", "100.63.0.1", "172.32.0.1", "2606:4700::1111", "2a00:1450::1", "64:ff9b::101:101"] {
        assert!(public(address), "{address}");
    }
    for address in [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.2",
        "169.254.169.254",
        "172.16.0.1",
        "192.168.1.1",
        "198.18.0.1",
        "192.0.2.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "fd12::1",
        "ff02::1",
        "2001:db8::1",
        "::ffff:10.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "::127.0.0.1",
    ] {
        assert!(!public(address), "{address}");
    }
}

#[tokio::test]
async fn files_are_named_and_what_is_in_them_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let of = |path: &str| format!("kind = \"slack\"\nurl_file = \"{path}\"");
    let missing = tried(&of("/nowhere/slack")).await.unwrap_err().to_string();
    assert!(missing.contains("/nowhere/slack") && missing.contains("No such file"), "{missing}");
    for text in
        ["", "no address token-1", "ftp://a.example/token-1", "https://me:token-1@a.example/", "https:///token-1"]
    {
        let path = file(folder.path(), "slack", text);
        let error = tried(&of(&path)).await.unwrap_err().to_string();
        assert!(!error.contains("token-1"), "{error}");
    }
    // Without TLS only if private addresses are allowed.
    let path = file(folder.path(), "slack", "http://127.0.0.1:9/token-1");
    assert!(tried(&of(&path)).await.unwrap_err().to_string().contains("allow_private"));
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = tried(&local(closed)).await.unwrap_err().to_string();
    assert!(error.contains("127.0.0.1") && !error.contains("token-1"), "{error}");
    assert!(!format!("{:?}", Destination::parse("https://a.example/token-1").unwrap()).contains("token-1"));
}

#[tokio::test]
async fn tls_is_spoken_to_whom_the_machine_trusts() {
    for trusted in [true, false] {
        let (port, own, answers) = tls_server();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(rustls::pki_types::CertificateDer::from_pem_slice(own.as_bytes()).unwrap()).unwrap();
        let http = if trusted { Http::trusting(roots) } else { Http::new() };
        let url = format!("kind = \"webhook\"\nallow_private = true\nurl = \"https://localhost:{port}/\"");
        let answer = Receiver::new(config(&url)).try_out(now(), &Links::default(), &http).await;
        match trusted {
            true => assert_eq!(answer.unwrap().to_string(), "200 OK: ok"),
            false => assert!(answer.unwrap_err().to_string().starts_with("TLS with localhost: ")),
        }
        assert_eq!(answers.join().unwrap(), trusted);
    }
}

/// TLS for a server with a certificate of its own for `localhost`, and the certificate in PEM.
fn tls_config() -> (Arc<rustls::ServerConfig>, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let server = server.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    (Arc::new(server), made.cert.pem())
}

/// Returns a server that answers one request over TLS, with a certificate of its own for `localhost`: its port, the
/// certificate in PEM, and whether it was asked.
fn tls_server() -> (u16, String, std::thread::JoinHandle<bool>) {
    let (server, own) = tls_config();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answers = std::thread::spawn(move || {
        let (mut tcp, _) = listener.accept().unwrap();
        let mut tls = rustls::ServerConnection::new(server).unwrap();
        let mut stream = rustls::Stream::new(&mut tls, &mut tcp);
        let mut first = [0; 1];
        if stream.read(&mut first).unwrap_or_default() == 0 {
            return false;
        }
        read(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").unwrap();
        true
    });
    (port, own, answers)
}

#[tokio::test]
async fn an_authority_of_its_own_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let url = |port: u16| format!("kind = \"webhook\"\nallow_private = true\nurl = \"https://localhost:{port}/\"\n");
    let (port, own, answers) = tls_server();
    let own = file(folder.path(), "own.pem", &own);
    let answer = tried(&format!("{}ca_file = \"{own}\"", url(port))).await;
    assert_eq!(answer.unwrap().to_string(), "200 OK: ok");
    answers.join().unwrap();
    // A server of another authority is not trusted.
    let (port, _, answers) = tls_server();
    let error = tried(&format!("{}ca_file = \"{own}\"", url(port))).await.unwrap_err().to_string();
    assert!(error.starts_with("TLS with localhost: "), "{error}");
    answers.join().unwrap();
    for (text, why) in [("", "no certificate"), ("-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n", "PEM")]
    {
        let path = file(folder.path(), "odd.pem", text);
        let error = tried(&format!("{}ca_file = \"{path}\"", url(1))).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("ca_file {path}: ")) && error.contains(why), "{error}");
    }
    let error = tried(&format!("{}ca_file = \"/nowhere/ca.pem\"", url(1))).await.unwrap_err().to_string();
    assert!(error.contains("/nowhere/ca.pem") && error.contains("No such file"), "{error}");
}

#[test]
fn hostile_texts_mention_and_link_nothing() {
    for (text, shown) in [
        ("<!channel> & <https://evil.example|home>", "`&lt;!channel&gt; &amp; &lt;https://evil.example|home&gt;`"),
        ("`@here` http://evil.example", "`'@here' http://evil.example`"),
        ("one\ntwo\u{202e}three\u{200b}", "`one two three`"),
        ("`", "`'`"),
        (" \n", "`?`"),
    ] {
        assert_eq!(slack::code(text), shown);
    }
    assert_eq!(slack::code(&"é".repeat(500)), format!("`{}…`", "é".repeat(299)));
    assert_eq!(slack::body(&Notification::test(now()))["unfurl_links"], false);
}

#[test]
fn waits_become_longer_up_to_an_hour() {
    let waits: Vec<u64> = (0..11).map(|attempts| IN_VAIN.wait_number(attempts).as_secs()).collect();
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]);
    assert_eq!(IN_VAIN.wait_number(u32::MAX), Duration::from_hours(1));
}
