//! Servers that never end what they say, in whatever part of the talk: each is given up when time is over, and told.
#![allow(clippy::disallowed_methods, reason = "real servers are waited for")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use belay::git::{Credentials, Follow, GitError, Limits, Location, Mirror};
use tokio_util::sync::CancellationToken;

/// The time that a test gives to a fetch; and the longest time on a machine that has much else to do.
const LIMIT: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(30);

/// The data of a server over each connection: this, and then that for ever, after so long each time.
#[derive(Clone, Copy)]
struct Endless {
    begins: &'static [u8],
    repeats: &'static [u8],
    every: Duration,
}

/// Returns a server that says it, and its port.
fn server(says: Endless) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut hears = stream.try_clone().unwrap();
                std::thread::spawn(move || while hears.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {});
                drop(says_so(&mut stream, says));
            });
        }
    });
    port
}

fn says_so(stream: &mut TcpStream, says: Endless) -> std::io::Result<()> {
    stream.write_all(says.begins)?;
    loop {
        stream.write_all(says.repeats)?;
        std::thread::sleep(says.every);
    }
}

/// Returns the result of fetching from it, and how long that took.
fn fetched(url: &str, limits: Limits, stop: &CancellationToken) -> (GitError, Duration) {
    let folder = tempfile::tempdir().unwrap();
    let location: Location = url.parse().unwrap();
    let known_hosts = folder.path().join("known_hosts");
    std::fs::write(&known_hosts, "").unwrap();
    let credentials = Credentials::new(&location).known_hosts(known_hosts);
    let mirror = Mirror::open(&folder.path().join("mirror"), location, credentials, limits).unwrap().0;
    let began = Instant::now();
    let error = mirror.fetch(&Follow::Branch("main".to_owned()), stop).unwrap_err();
    (error, began.elapsed())
}

/// All of these end, and none is taken for an answer.
fn all_end(scheme: &str, says: &[Endless]) {
    for says in says {
        let url = format!("{scheme}://127.0.0.1:{}/deploy.git", server(*says));
        let limits = Limits { fetch_time: LIMIT, ..Limits::default() };
        let (error, took) = fetched(&url, limits, &CancellationToken::new());
        let shown = String::from_utf8_lossy(says.begins);
        let ended =
            matches!(&error, GitError::TooSlow { .. } | GitError::Unreachable { .. } | GitError::Untrusted { .. });
        assert!(ended && took < LONG, "{shown:?}: {error} after {took:?}");
        assert!(!error.to_string().contains('\u{1b}'), "{error}");
    }
}

const AT_ONCE: Duration = Duration::ZERO;
const NOW_AND_THEN: Duration = Duration::from_millis(50);

#[test]
fn an_ssh_server_that_never_ends_is_given_up() {
    let says = |begins, repeats, every| Endless { begins, repeats, every };
    all_end(
        "ssh",
        &[
            // Lines before the banner, which ssh passes over.
            says(b"", b"welcome \x1b[31m\r\n", AT_ONCE),
            says(b"", b"\n", AT_ONCE),
            says(b"", b"welcome\r\n", NOW_AND_THEN),
            // A banner without an end.
            says(b"SSH-2.0-", b"x", AT_ONCE),
            // Packets of any length, and of none.
            says(b"SSH-2.0-x\r\n", &[0; 64], AT_ONCE),
            says(b"SSH-2.0-x\r\n\x7f\xff\xff\xff", &[0xff; 64], AT_ONCE),
            // Messages that mean nothing (SSH_MSG_IGNORE), one after the other.
            says(b"SSH-2.0-x\r\n", &[0, 0, 0, 12, 6, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], AT_ONCE),
        ],
    );
}

#[test]
fn a_web_server_that_never_ends_is_given_up() {
    let says = |begins, repeats, every| Endless { begins, repeats, every };
    all_end("http", &[
        says(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x", NOW_AND_THEN),
        says(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n", NOW_AND_THEN),
        says(b"", b"HTTP/1.1 100 Continue\r\n\r\n", NOW_AND_THEN),
        says(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n\r\n001e# service=git-upload-pack\n0000",
            b"003d0123456789012345678901234567890123456789 refs/heads/main\n",
            NOW_AND_THEN,
        ),
    ]);
}

#[test]
fn a_talk_ends_when_belay_stops() {
    let port = server(Endless { begins: b"", repeats: b"welcome\r\n", every: NOW_AND_THEN });
    let stop = CancellationToken::new();
    let stops = stop.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        stops.cancel();
    });
    let (error, took) = fetched(&format!("ssh://127.0.0.1:{port}/deploy.git"), Limits::default(), &stop);
    assert!(matches!(error, GitError::Cancelled) && took < LONG, "{error} after {took:?}");
}

/// A server that sends interim answers as fast as it can: it is given up at once, and not when time is over.
#[test]
fn interim_answers_without_end_are_no_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        while stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").is_ok() {}
    });
    let url = format!("http://127.0.0.1:{port}/deploy.git");
    let (error, took) = fetched(&url, Limits::default(), &CancellationToken::new());
    assert!(matches!(error, GitError::Unreachable { .. }) && took < LONG, "{error} after {took:?}");
    assert!(error.to_string().contains("interim answers"), "{error}");
}
