//! The pages as clients that behave, and that do not, come to see them.

use super::*;
use std::pin::pin;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;

async fn open(allowed: &[&str]) -> (Web, watch::Sender<Status>) {
    let (sender, status) = watch::channel(Status::default());
    let allowed: Vec<String> = allowed.iter().map(|&host| host.to_owned()).collect();
    let clock = Clock::tokio(jiff::Timestamp::UNIX_EPOCH);
    let shown = Shown {
        status,
        metrics: Metrics::default(),
        state: PathBuf::new(),
        history: HistoryLocation::in_folder(""),
        sources: ShownSources::default().shown().1,
        clock,
    };
    (Web::open("127.0.0.1:0".parse().unwrap(), &allowed, shown).await.unwrap(), sender)
}

/// Returns a connection over which this was sent.
async fn sends(web: &Web, sent: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(web.address()).await.unwrap();
    stream.write_all(sent).await.unwrap();
    stream
}

/// The request for the events of a page that stays open.
const LISTEN: &[u8] = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";

async fn first_line(web: &Web, path: &str, host: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let mut stream = sends(web, request.as_bytes()).await;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn slow_clients_keep_nobody_out() {
    let (web, _daemon) = open(&[]).await;
    let mut slow = Vec::new();
    for _ in 0..3 * CONNECTIONS {
        slow.push(sends(&web, b"GET / HTTP/1.1\r\nHost: ").await);
    }
    let asked = tokio::time::timeout(HEADER_TIMEOUT / 2, first_line(&web, "/healthz", "localhost")).await;
    assert_eq!(asked.unwrap(), "HTTP/1.1 200 OK");
}

#[tokio::test]
async fn who_listens_hears_that_nobody_is_there_any_more() {
    let (web, _daemon) = open(&[]).await;
    let mut stream = sends(&web, LISTEN).await;
    let mut answer = [0; 1024];
    assert!(stream.read(&mut answer).await.unwrap() > 0);
    drop(web);
    let rest = async { while stream.read(&mut answer).await.is_ok_and(|length| length > 0) {} };
    tokio::time::timeout(HEADER_TIMEOUT, rest).await.expect("the connection is closed");
}

#[tokio::test]
async fn pages_that_listen_keep_nobody_out() {
    let (web, _daemon) = open(&[]).await;
    let mut listening = Vec::new();
    for _ in 0..2 * CONNECTIONS {
        let mut stream = sends(&web, LISTEN).await;
        let mut line = [0; 12];
        stream.read_exact(&mut line).await.unwrap();
        listening.push((stream, String::from_utf8_lossy(&line).into_owned()));
    }
    let refused = listening.iter().filter(|(_, line)| line == "HTTP/1.1 503").count();
    assert!(refused > 0 && listening[0].1 == "HTTP/1.1 200", "{refused} were refused");
    assert_eq!(first_line(&web, "/healthz", "localhost").await, "HTTP/1.1 200 OK");
}

/// Returns a client that sends requests for as long as they are taken, and reads nothing; how many bytes were taken.
async fn never_reads(web: &Web, path: &str) -> (TcpStream, usize) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(web.address()).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut taken = 0;
    while let Ok(sent) = tokio::time::timeout(HEADER_TIMEOUT, stream.write_all(request.as_bytes())).await {
        sent.unwrap();
        taken += request.len();
        assert!(taken < 64 << 20, "what nobody reads is gathered");
    }
    (stream, taken)
}

#[tokio::test(start_paused = true)]
async fn who_never_reads_is_held_up_and_then_closed() {
    let (web, _daemon) = open(&[]).await;
    for path in ["/style.css", "/events"] {
        let began = tokio::time::Instant::now();
        let (mut stream, taken) = never_reads(&web, path).await;
        assert!(taken > 0);
        assert_eq!(first_line(&web, "/healthz", "localhost").await, "HTTP/1.1 200 OK");
        let mut closed = pin!(async { while stream.write_all(b"GET").await.is_ok() {} });
        let limit = (LONGEST + HEADER_TIMEOUT).saturating_sub(began.elapsed());
        if tokio::time::timeout(limit, &mut closed).await.is_err() {
            // It is closed by now. On a busy machine the kernel takes a moment to deliver that, which is no time of this clock.
            tokio::time::resume();
            tokio::time::timeout(HEADER_TIMEOUT, closed).await.unwrap_or_else(|_| panic!("{path} is still open"));
            tokio::time::pause();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn listeners_that_never_read_give_their_room_back() {
    let (web, daemon) = open(&[]).await;
    let mut silent = Vec::new();
    for _ in 0..CONNECTIONS / 2 {
        let stream = sends(&web, LISTEN).await;
        stream.readable().await.unwrap();
        silent.push(stream);
    }
    assert_eq!(first_line(&web, "/events", "localhost").await, "HTTP/1.1 503 Service Unavailable");
    for _ in 0..LONGEST.as_secs() {
        daemon.send_replace(Status::default());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    tokio::time::sleep(HEADER_TIMEOUT).await;
    let (told, _) = until_closed(&web, LISTEN).await;
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
}

/// Returns the answer to this, until the connection is closed, and after how long that is.
async fn until_closed(web: &Web, sent: &[u8]) -> (String, Duration) {
    let began = tokio::time::Instant::now();
    let mut stream = sends(web, sent).await;
    let mut answer = Vec::new();
    // An end in the middle of an answer is an end, too.
    let _ = stream.read_to_end(&mut answer).await;
    (String::from_utf8_lossy(&answer).into_owned(), began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn headers_that_do_not_end_close_the_connection() {
    let (web, _daemon) = open(&[]).await;
    let (_, took) = until_closed(&web, b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await;
    assert!(took >= HEADER_TIMEOUT && took < 2 * HEADER_TIMEOUT, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn no_connection_lasts_for_longer_than_five_minutes() {
    let (web, _daemon) = open(&[]).await;
    let (told, took) = until_closed(&web, LISTEN).await;
    assert!(told.contains("event: hello") && took >= LONGEST && took < LONGEST + HEADER_TIMEOUT, "{took:?}: {told}");
    // Nor one on which nothing is asked any more.
    let (told, took) = until_closed(&web, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(told.starts_with("HTTP/1.1 200") && took <= LONGEST, "{took:?}: {told}");
}

#[tokio::test]
async fn headers_that_are_too_large_are_refused() {
    let (web, _daemon) = open(&[]).await;
    let get = |bytes: usize| {
        format!(
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Large: {}\r\n\r\n",
            "x".repeat(bytes)
        )
    };
    let (answer, _) = until_closed(&web, get(HEADER_BYTES / 2).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let (answer, _) = until_closed(&web, get(2 * HEADER_BYTES).as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn it_answers_to_its_own_names() {
    let (web, _daemon) = open(&["Belay.example.com"]).await;
    let own = web.address().to_string();
    for host in ["localhost", "localhost:9750", &own, "[::1]:80", "belay.example.com:443"] {
        assert_eq!(first_line(&web, "/healthz", host).await, "HTTP/1.1 200 OK", "{host}");
    }
    for host in ["attacker.example", "attacker.example:80", "127.0.0.1.attacker.example", "10.1.2.3"] {
        assert_eq!(first_line(&web, "/healthz", host).await, "HTTP/1.1 421 Misdirected Request", "{host}");
    }
    for host in ["", "[::1]attacker.example", "localhöst", "localhost\r\nHost: localhost", "localhost:80:80"] {
        assert_eq!(first_line(&web, "/healthz", host).await, "HTTP/1.1 400 Bad Request", "{host}");
    }
}

/// A browser always says whom it asks. A proxy that asks in HTTP/1.0 may leave it out, whoever has asked the proxy.
#[tokio::test]
async fn who_does_not_say_whom_he_asks_is_told_nothing() {
    let (web, _daemon) = open(&[]).await;
    for (request, status) in [
        ("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", "400"),
        ("GET / HTTP/1.0\r\n\r\n", "400"),
        ("GET http://localhost/api/v1/status HTTP/1.0\r\n\r\n", "400"),
        ("HEAD /healthz HTTP/1.0\r\n\r\n", "400"),
        ("GET /healthz HTTP/1.0\r\nHost: evil.example\r\n\r\n", "421"),
        ("GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n", "200"),
    ] {
        let mut stream = sends(&web, request.as_bytes()).await;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer.split(' ').nth(1), Some(status), "{request:?}: {answer}");
    }
}

/// As `nc -N` and `socat` do.
#[tokio::test]
async fn who_says_no_more_after_his_request_is_answered() {
    let (web, _daemon) = open(&[]).await;
    for path in ["/healthz", "/api/v1/sources", "/"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        for apart in [false, true] {
            let mut stream = sends(&web, request.as_bytes()).await;
            if apart {
                tokio::task::yield_now().await;
            }
            stream.shutdown().await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            let answer = String::from_utf8_lossy(&answer);
            assert!(answer.starts_with("HTTP/1.1 ") && answer.contains("\r\n\r\n"), "{path}: {answer:?}");
        }
    }
}
