//! Receivers that never end their answer, that answer too late, and that repeat the request.

use std::future::Future;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

use super::{answering, file, local, tried};
use crate::notices::address::Destination;
use crate::notices::bounded_stream::RECEIVED;
use crate::notices::delivery::{Delivery, MailRoute, Post as _};
use crate::notices::encryption::encrypted;
use crate::notices::mail::converse;
use crate::notices::send::{Http, speak};
use crate::secrets::Secrets;

/// The number of bytes that may be under way when a connection is given up: in the pipe, and in the reader.
const UNDER_WAY: usize = 128 << 10;

fn delivery(target: Destination, mail: Option<MailRoute>) -> Delivery {
    Delivery {
        target,
        allow_private: true,
        headers: Vec::new(),
        method: Method::POST,
        authorities: Vec::new(),
        mail,
        secrets: Secrets::default(),
        body: b"{}".to_vec(),
    }
}

/// Returns the result of a conversation with a receiver that sends this, and then repeats that for ever; and how much
/// it got rid of.
async fn endless<T, F: Future<Output = T>>(
    begins: &str,
    repeats: &'static str,
    converse: impl FnOnce(DuplexStream) -> F,
) -> (T, usize) {
    let (ours, theirs) = tokio::io::duplex(1024);
    let (mut hears, mut says) = tokio::io::split(theirs);
    let listening = tokio::spawn(async move { while hears.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {} });
    let (said, begins) = (Arc::new(AtomicUsize::new(0)), begins.to_owned());
    let counted = Arc::clone(&said);
    let talking = tokio::spawn(async move {
        let mut next = begins.as_bytes();
        while let Ok(taken) = says.write(next).await {
            counted.fetch_add(taken, Ordering::Relaxed);
            next = if taken < next.len() { &next[taken..] } else { repeats.as_bytes() };
        }
    });
    let came = converse(ours).await;
    talking.abort();
    listening.abort();
    (came, said.load(Ordering::Relaxed))
}

#[tokio::test]
async fn a_mail_server_that_never_ends_is_given_up() {
    let route =
        || MailRoute::new(&"b@example.com".parse().unwrap(), &["a@example.com".parse().unwrap()], None).unwrap();
    for (begins, repeats) in [
        ("220 ", "x"),
        ("", "220-x\r\n"),
        ("220 ok\r\n250-ok\r\n", "250-STARTTLS\r\n"),
        ("220 ok\r\n250 ok\r\n", "x"),
        ("220 ok\r\n250 ok\r\n250 ok\r\n250 ok\r\n354 ok\r\n250 ", "queued"),
        ("220 ok\r\n250 STARTTLS\r\n220 ok\r\n", "\u{16}\u{3}\u{3}\0\u{4}\u{2}\0@\0"),
    ] {
        let delivery = delivery(Destination::of_mail_server("smtp://localhost:25").unwrap(), Some(route()));
        let http = Http::trusting(rustls::RootCertStore::empty());
        let (came, said) = endless(begins, repeats, async |stream| {
            converse(stream, &delivery, &route(), &http.connector(&[]).unwrap()).await.map(drop)
        })
        .await;
        assert!(came.is_err() && said <= RECEIVED + UNDER_WAY, "{begins:?} {repeats:?}: {said} bytes");
    }
}

#[tokio::test]
async fn a_receiver_that_never_ends_is_given_up() {
    for (begins, repeats) in [
        ("HTTP/1.1 200 ", "x"),
        ("HTTP/1.1 200 OK\r\n", "x"),
        ("HTTP/1.1 200 OK\r\n", "a: b\r\n"),
        ("HTTP/1.1 200 OK\r\na:", " "),
        ("", "HTTP/1.1 103 Early Hints\r\n\r\n"),
        ("", "\r\n"),
    ] {
        let delivery = delivery(Destination::parse("http://localhost/").unwrap(), None);
        let (came, said) = endless(begins, repeats, async |stream| {
            speak(crate::notices::bounded_stream::BoundedStream::new(stream), delivery).await
        })
        .await;
        let error = came.unwrap_err().to_string();
        assert!(error.starts_with("localhost"), "{error}");
        assert!(said <= RECEIVED + UNDER_WAY, "{begins:?} {repeats:?}: {said} bytes");
    }
    // The beginning of a body is an answer, however it goes on.
    for (begins, repeats) in [
        ("HTTP/1.1 500 No\r\n\r\n", "x"),
        ("HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n1;", "x"),
        ("HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n", "1\r\nx\r\n"),
        ("HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", "a: b\r\n"),
    ] {
        let delivery = delivery(Destination::parse("http://localhost/").unwrap(), None);
        let (came, said) = endless(begins, repeats, async |stream| {
            speak(crate::notices::bounded_stream::BoundedStream::new(stream), delivery).await
        })
        .await;
        assert_eq!(came.unwrap().status, 500, "{begins:?}");
        assert!(said <= RECEIVED + UNDER_WAY, "{begins:?} {repeats:?}: {said} bytes");
    }
}

/// Takes a mail, and closes after so many bytes of its answers.
async fn answers_a_mail(stream: DuplexStream, mut says: usize) {
    let replies = ["220 ok", "250 ok", "250 ok", "250 ok", "354 go on", "250 queued", "221 bye"];
    let mut stream = BufReader::new(stream);
    for (number, reply) in replies.into_iter().enumerate() {
        let mut line = String::new();
        while number > 0 && !line.ends_with(if number == 5 { "\r\n.\r\n" } else { "\r\n" }) {
            if stream.read_line(&mut line).await.is_ok_and(|read| read == 0) {
                return;
            }
        }
        let reply = format!("{reply}\r\n");
        let said = says.min(reply.len());
        says -= said;
        if stream.write_all(&reply.as_bytes()[..said]).await.is_err() || said < reply.len() {
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_mail_server_that_closes_in_the_middle_was_told_only_if_it_has_said_so() {
    let route =
        || MailRoute::new(&"b@example.com".parse().unwrap(), &["a@example.com".parse().unwrap()], None).unwrap();
    let queued = "220 ok\r\n250 ok\r\n250 ok\r\n250 ok\r\n354 go on\r\n250 queued\r\n".len();
    for says in 0..=queued + 9 {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let answers = tokio::spawn(answers_a_mail(theirs, says));
        let delivery = delivery(Destination::of_mail_server("smtp://localhost:25").unwrap(), Some(route()));
        let http = Http::trusting(rustls::RootCertStore::empty());
        let (route, connector) = (route(), http.connector(&[]).unwrap());
        let talking = converse(ours, &delivery, &route, &connector);
        let came = tokio::time::timeout(Duration::from_secs(30), talking).await.expect("it ends");
        assert_eq!(came.is_ok(), says >= queued, "{says} bytes of the answers");
        answers.abort();
    }
}

/// Takes a message of which it hears so many bytes, and closes after so many bytes of its answer.
async fn answers_a_message(mut stream: DuplexStream, hears: usize, answer: &[u8]) {
    let mut heard = Vec::new();
    while heard.len() < hears && !heard.ends_with(b"\r\n\r\n{}") {
        match stream.read_u8().await {
            Ok(byte) => heard.push(byte),
            Err(_) => return,
        }
    }
    // It may have gone by now.
    let _ = stream.write_all(answer).await;
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_closes_in_the_middle_was_told_only_if_its_status_came() {
    let exchanged = async |hears: usize, answer: &str| {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let answer = answer.to_owned();
        let answers = tokio::spawn(async move { answers_a_message(theirs, hears, answer.as_bytes()).await });
        let talking = speak(ours, delivery(Destination::parse("http://localhost/").unwrap(), None));
        let came = tokio::time::timeout(Duration::from_secs(30), talking).await.expect("it ends");
        answers.await.unwrap();
        came.map_err(|error| error.to_string())
    };
    for (head, body) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", "taken"),
        (
            "HTTP/1.1 503 Busy\r\nretry-after: 7\r\ntransfer-encoding: chunked\r\n\r\n",
            "5\r\nlater\r\n0\r\na: b\r\n\r\n",
        ),
        ("HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n", ""),
    ] {
        let answer = format!("{head}{body}");
        for says in 0..=answer.len() {
            let came = exchanged(usize::MAX, &answer[..says]).await;
            assert_eq!(came.is_ok(), says >= head.len(), "{says} bytes of {answer:?}: {came:?}");
            assert!(came.is_ok_and(|answer| answer.is_taken()) == (says >= head.len() && !head.contains("503")));
        }
    }
    // A message of which nothing was heard to the end was not taken.
    for hears in 0..200 {
        let error = exchanged(hears, "").await.unwrap_err();
        assert!(error.starts_with("localhost"), "{error}");
    }
}

/// Passes on what a client says, and closes after so many bytes of the answers.
async fn closes_after(client: DuplexStream, server: DuplexStream, mut says: usize) {
    let ((mut hears, mut answers), (mut from, mut to)) = (tokio::io::split(client), tokio::io::split(server));
    let there = tokio::spawn(async move { tokio::io::copy(&mut hears, &mut to).await });
    let mut part = [0; 64];
    while says > 0 {
        let room = says.min(part.len());
        let Ok(read @ 1..) = from.read(&mut part[..room]).await else { break };
        says -= read;
        if answers.write_all(&part[..read]).await.is_err() {
            break;
        }
    }
    there.abort();
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_closes_within_tls_was_told_only_if_its_status_came() {
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let (config, own) = super::tls_config();
    let own = CertificateDer::from_pem_slice(own.as_bytes()).unwrap();
    let connector = Http::trusting(rustls::RootCertStore::empty()).connector(&[own]).unwrap();
    let target = Destination::parse("https://localhost/").unwrap();
    let mut taken = Vec::new();
    for says in (0..4000).step_by(37) {
        let (ours, between) = tokio::io::duplex(64 << 10);
        let (other, theirs) = tokio::io::duplex(64 << 10);
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::clone(&config));
        let receives = tokio::spawn(async move {
            let Ok(mut stream) = acceptor.accept(theirs).await else { return };
            let mut heard = Vec::new();
            while !heard.ends_with(b"\r\n\r\n{}") {
                let Ok(byte) = stream.read_u8().await else { return };
                heard.push(byte);
            }
            let _ = stream.write_all(ANSWER).await;
            let _ = stream.shutdown().await;
        });
        let passes = tokio::spawn(closes_after(between, other, says));
        let talking =
            async { speak(encrypted(&connector, &target, ours).await?, delivery(target.clone(), None)).await };
        let came = tokio::time::timeout(Duration::from_secs(30), talking).await.expect("it ends");
        if let Err(error) = &came {
            assert!(error.to_string().contains("localhost"), "{error}");
        }
        taken.push(came.is_ok_and(|answer| answer.is_taken()));
        passes.abort();
        receives.abort();
    }
    assert!(taken.is_sorted() && !taken[0] && taken[taken.len() - 1], "{taken:?}");
}

/// A receiver that has said that it took the message is not sent it again.
#[tokio::test(start_paused = true)]
async fn an_answer_whose_body_never_ends_is_the_answer_that_its_status_says() {
    let (ours, theirs) = tokio::io::duplex(64);
    let drips = tokio::spawn(async move {
        let (mut heard, mut written) = tokio::io::split(theirs);
        let hears = async { drop(tokio::io::copy(&mut heard, &mut tokio::io::sink()).await) };
        let says = async {
            let mut said = written.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            while said.is_ok() {
                tokio::time::sleep(Duration::from_millis(500)).await;
                said = written.write_all(b"x").await;
            }
        };
        tokio::join!(hears, says);
    });
    let began = tokio::time::Instant::now();
    let answer = speak(ours, delivery(Destination::parse("http://localhost/").unwrap(), None)).await.unwrap();
    assert!(answer.status == 200 && matches!(&*answer.text, "xxx" | "xxxx"), "{answer:?}");
    assert!(began.elapsed() <= Duration::from_secs(2), "{:?}", began.elapsed());
    drips.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_answers_after_the_deadline_was_not_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for text in [format!("http://127.0.0.1:{port}/"), format!("https://127.0.0.1:{port}/")] {
        let began = tokio::time::Instant::now();
        let sent = Http::new().post(delivery(Destination::parse(&text).unwrap(), None)).await;
        assert_eq!(sent.unwrap_err().to_string(), "127.0.0.1 did not answer within 20 s");
        assert_eq!(began.elapsed(), Duration::from_secs(20));
    }
}

/// Returns a receiver that answers so when it has heard the headers of a request. Its port.
fn at_once(answer: String) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answers = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut heard = Vec::new();
        while !heard.ends_with(b"\r\n\r\n") {
            let mut byte = [0; 1];
            stream.read_exact(&mut byte).unwrap();
            heard.push(byte[0]);
        }
        stream.write_all(answer.as_bytes()).unwrap();
    });
    (port, answers)
}

#[tokio::test]
async fn what_is_repeated_of_an_address_or_a_token_is_not_shown() {
    let answer = |text: &str| format!("HTTP/1.1 403 Forbidden\r\ncontent-length: {}\r\n\r\n{text}", text.len());
    for text in
        ["no token-1 here", "no %74oken-1 here", "no /hook/token-1%3Fa=b", "no \\/hook\\/token-1", "TOKEN-1?A=B"]
    {
        let (port, received) = answering(answer(text));
        let shown = tried(&local(port)).await.unwrap().to_string();
        assert!(!shown.to_lowercase().contains("oken-1") && shown.contains('…'), "{text}: {shown}");
        received.join().unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let token = file(folder.path(), "token", "ghp_0123456789abcdef\n");
    let (port, received) = at_once(answer("bad credentials: Bearer ghp_01234567"));
    let url = format!("kind = \"github\"\nallow_private = true\nurl = \"http://127.0.0.1:{port}/repos/o/r\"\n");
    let shown = tried(&format!("{url}token_file = \"{token}\"")).await.unwrap().to_string();
    assert!(shown.contains("bad credentials: Bearer …") && !shown.contains("ghp_"), "{shown}");
    received.join().unwrap();
}

#[tokio::test]
async fn what_a_mail_server_repeats_of_a_password_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let password = file(folder.path(), "password", "correct horse battery\n");
    for repeated in [
        "correct horse battery".to_owned(),
        "horse battery".to_owned(),
        "correct%20horse%20battery".to_owned(),
        STANDARD.encode("correct horse battery"),
        STANDARD.encode("\0belay\0correct horse battery"),
    ] {
        let end = format!("535 5.7.8 \u{1b}[31m {repeated} is wrong");
        let (port, own, heard) = super::mail::mail_server(super::mail::SmtpTls::FromTheBeginning, end.leak());
        let own = file(folder.path(), "own.pem", &own);
        let mail = format!(
            "kind = \"email\"\nurl = \"smtps://localhost:{port}\"\nfrom = \"b@example.com\"\nto = [\"a@example.com\"]\nuser = \
             \"belay\"\npassword_file = \"{password}\"\nca_file = \"{own}\"\nallow_private = true"
        );
        let error = tried(&mail).await.unwrap_err().to_string();
        assert!(error.contains("5.7.8") && error.contains("… is wrong"), "{error}");
        assert!(!error.contains("battery") && !error.contains("aG9yc2U") && !error.contains('\u{1b}'), "{error}");
        drop(heard.join().unwrap());
    }
}
