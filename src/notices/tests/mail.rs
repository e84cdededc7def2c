//! Mail, to servers that speak TLS from the beginning, after STARTTLS, and not at all.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{file, now, tls_config, tried};
use crate::notices::message::{NoticeEvent, Notification};

/// When a mail server speaks TLS.
#[derive(Clone, Copy)]
pub(super) enum SmtpTls {
    Never,
    FromTheBeginning,
    AfterStartTls,
}

/// A mail server's record of a conversation, and the socket for a second connection.
pub(super) type MailServer = JoinHandle<(String, TcpListener)>;

/// Returns a mail server that takes one mail, and answers its end so: its port, its certificate, the commands that it
/// received.
pub(super) fn mail_server(tls: SmtpTls, end: &'static str) -> (u16, String, MailServer) {
    let (server, own) = tls_config();
    let listener = TcpListener::bind("localhost:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = std::thread::spawn(move || {
        let (mut tcp, _) = listener.accept().unwrap();
        let (before, greeting) = match tls {
            SmtpTls::Never => return (mail_dialogue(&mut tcp, GREETING, PLAIN_OFFER, end), listener),
            SmtpTls::FromTheBeginning => (String::new(), GREETING),
            SmtpTls::AfterStartTls => (mail_dialogue(&mut tcp, GREETING, STARTTLS_OFFER, end), ""),
        };
        let mut connection = rustls::ServerConnection::new(server).unwrap();
        let mut encrypted = rustls::Stream::new(&mut connection, &mut tcp);
        let during = mail_dialogue(&mut encrypted, greeting, PLAIN_OFFER, end);
        // After a failed handshake a client could go on in plain text: it would be answered, and heard.
        assert_eq!(mail_dialogue(&mut tcp, "", PLAIN_OFFER, end), "", "in plain text after TLS had begun");
        (format!("{before}{during}"), listener)
    });
    (port, own, heard)
}

/// Returns all that a server heard. It was connected to once: a delivery that fails over TLS is not tried again
/// without.
fn heard_by(server: MailServer) -> String {
    let (heard, listener) = server.join().unwrap();
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "connected to twice; the first time it heard {heard}");
    heard
}

/// The server's greeting, and its answer to EHLO.
const GREETING: &str = "220 localhost\r\n";
const PLAIN_OFFER: &str = "250-localhost\r\n250 AUTH PLAIN";
const STARTTLS_OFFER: &str = "250-localhost\r\n250-STARTTLS\r\n250 AUTH PLAIN";

/// Answers until the client ends, or begins TLS; returns the client's lines.
fn mail_dialogue(stream: &mut (impl Read + Write), greeting: &str, offer: &str, end: &str) -> String {
    let mut heard = String::new();
    let mut in_data = false;
    if stream.write_all(greeting.as_bytes()).is_err() {
        return heard;
    }
    loop {
        let mut line = Vec::new();
        let mut byte = [0; 1];
        while !line.ends_with(b"\r\n") {
            match stream.read(&mut byte) {
                Ok(1) => line.push(byte[0]),
                _ => return heard,
            }
        }
        let line = String::from_utf8(line).unwrap();
        heard.push_str(&line);
        let answer = match line.trim_end() {
            "." => end,
            _ if in_data => continue,
            "DATA" => "354 go on",
            line if line.starts_with("EHLO") => offer,
            "STARTTLS" => "220 go on",
            line if line.starts_with("AUTH") => "235 welcome",
            "QUIT" => "221 bye",
            _ => "250 ok",
        };
        in_data = line == "DATA\r\n";
        let is_heard = stream.write_all(format!("{answer}\r\n").as_bytes()).is_ok();
        if !is_heard || line == "STARTTLS\r\n" {
            return heard;
        }
    }
}

#[tokio::test]
async fn a_mail_is_sent_over_tls_to_whom_the_server_knows() {
    let folder = tempfile::tempdir().unwrap();
    let (port, own, heard) = mail_server(SmtpTls::FromTheBeginning, "250 queued as 7");
    let own = file(folder.path(), "own.pem", &own);
    let password = file(folder.path(), "password", "pass-1\n");
    let mail = format!(
        "kind = \"email\"\nurl = \"smtps://localhost:{port}\"\nfrom = \"belay <belay@example.com>\"\nto = [\"Ops \
         <ops@example.com>\", \"ada@example.com\"]\nuser = \"belay\"\npassword_file = \"{password}\"\nallow_private = true\n"
    );
    // To a server of an authority that nobody trusts nothing is sent.
    let (other, _, nothing) = mail_server(SmtpTls::FromTheBeginning, "250 ok");
    let error = tried(&mail.replace(&port.to_string(), &other.to_string())).await.unwrap_err().to_string();
    assert!(error.contains("certificate") && !error.contains("pass-1"), "{error}");
    assert_eq!(heard_by(nothing), "");

    let answer = tried(&format!("{mail}ca_file = \"{own}\"")).await.unwrap();
    assert!(answer.is_taken() && answer.text == "queued as 7", "{answer}");
    let heard = heard_by(heard);
    for part in [
        "AUTH PLAIN ",
        "MAIL FROM:<belay@example.com>\r\nRCPT TO:<ops@example.com>\r\nRCPT TO:<ada@example.com>\r\nDATA\r\n",
        "From: belay <belay@example.com>\r\n",
        "To: Ops <ops@example.com>, ada@example.com\r\n",
        "Subject: [belay] A test of belay: messages arrive here.\r\n",
        "Date: Fri, 02 Jan 2026 03:04:05 +0000\r\n",
        "@example.com>\r\n",
    ] {
        assert!(heard.contains(part), "{part:?} is not in {heard}");
    }
}

#[tokio::test]
async fn a_mail_is_not_sent_where_a_message_is_not_either() {
    let plain = |port: u16, more: &str| {
        format!(
            "kind = \"email\"\nurl = \"smtp://localhost:{port}\"\nfrom = \"belay@example.com\"\nto = \
             [\"ops@example.com\"]\n{more}"
        )
    };
    let listener = TcpListener::bind("localhost:0").unwrap();
    let error = tried(&plain(listener.local_addr().unwrap().port(), "")).await.unwrap_err().to_string();
    assert!(error.contains("no public address"), "{error}");
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "nobody was connected to");
    // Without TLS to a private address only, and never with a password.
    let (port, _, heard) = mail_server(SmtpTls::Never, "451 try again later");
    let error = tried(&plain(port, "allow_private = true")).await.unwrap_err().to_string();
    assert!(error.contains("451") && error.contains("try again later"), "{error}");
    assert!(heard_by(heard).contains("RCPT TO:<ops@example.com>"));
    let folder = tempfile::tempdir().unwrap();
    let password = file(folder.path(), "password", "pass-1");
    let (port, _, heard) = mail_server(SmtpTls::Never, "250 ok");
    let secret = format!("allow_private = true\nuser = \"belay\"\npassword_file = \"{password}\"");
    let error = tried(&plain(port, &secret)).await.unwrap_err().to_string();
    assert!(error.contains("TLS") && !error.contains("pass-1"), "{error}");
    assert!(!heard_by(heard).contains("AUTH"));
}

/// Returns a receiver behind a mail server that speaks TLS after STARTTLS.
fn starttls_receiver(port: u16, more: &str) -> String {
    format!(
        "kind = \"email\"\nurl = \"smtp://localhost:{port}\"\nfrom = \"belay@example.com\"\nto = \
         [\"ops@example.com\"]\nallow_private = true\n{more}"
    )
}

/// Before TLS begins the server hears nothing but that it is asked for.
#[tokio::test]
async fn after_starttls_all_of_a_mail_is_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    let password = file(folder.path(), "password", "pass-1\n");
    let (port, own, heard) = mail_server(SmtpTls::AfterStartTls, "250 queued as 7");
    let own = file(folder.path(), "own.pem", &own);
    let more = format!("user = \"belay\"\npassword_file = \"{password}\"\nca_file = \"{own}\"");
    let answer = tried(&starttls_receiver(port, &more)).await.unwrap();
    assert!(answer.is_taken() && answer.text == "queued as 7", "{answer}");
    let heard = heard_by(heard);
    let (plain, encrypted) = heard.split_once("STARTTLS\r\n").unwrap();
    assert_eq!(plain.lines().count(), 1, "{plain}");
    assert!(plain.starts_with("EHLO "), "{plain}");
    // EHLO again: offers in plain text count for nothing (RFC 3207).
    assert!(encrypted.starts_with("EHLO "), "{encrypted}");
    let credentials = STANDARD.encode("\0belay\0pass-1");
    for part in [
        &*format!("AUTH PLAIN {credentials}\r\nMAIL FROM:<belay@example.com>\r\n"),
        "RCPT TO:<ops@example.com>\r\nDATA\r\n",
        "Subject: [belay]",
        "\r\n.\r\nQUIT\r\n",
    ] {
        assert!(encrypted.contains(part), "{part:?} is not in {encrypted}");
    }
}

/// Also if belay would do without TLS: an offer of the server is used, or nothing is sent.
#[tokio::test]
async fn after_starttls_nothing_is_sent_to_whom_nobody_trusts() {
    let folder = tempfile::tempdir().unwrap();
    let password = file(folder.path(), "password", "pass-1\n");
    for more in ["", &format!("user = \"belay\"\npassword_file = \"{password}\"")] {
        let (port, _, heard) = mail_server(SmtpTls::AfterStartTls, "250 ok");
        let error = tried(&starttls_receiver(port, more)).await.unwrap_err().to_string();
        assert!(error.starts_with("localhost (") && error.contains("certificate"), "{error}");
        assert!(!error.contains("pass-1"), "{error}");
        let heard = heard_by(heard);
        assert!(heard.ends_with("STARTTLS\r\n"), "{heard}");
        assert_eq!(heard.lines().count(), 2, "{heard}");
    }
}

#[test]
fn a_mail_says_what_happened_in_plain_text() {
    let mut notification = Notification { source: Some("shop".to_owned()), ..Notification::test(now()) };
    notification.event = NoticeEvent::Commit(crate::config::NotifyEvent::RolledBack);
    notification.subject = Some("Faster\r\nBcc: everybody@example.com".to_owned());
    notification.commit = Some("1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d".parse().unwrap());
    notification.page = Some("https://belay.example.com/commits/1a2b3c4".to_owned());
    notification.delivery = "0123".to_owned();
    let address = |text: &str| text.parse().unwrap();
    let mail =
        crate::notices::mail::mail(&notification, &address("b@example.com"), &[address("a@example.com")]).unwrap();
    let mail = String::from_utf8(mail).unwrap();
    let (head, body) = mail.split_once("\r\n\r\n").unwrap();
    assert!(!head.contains("\r\nBcc") && head.contains("Message-ID: <0123@example.com>"), "{head}");
    assert!(body.contains("shop: rolled-back 1a2b3c4 Faster  Bcc: everybody@example.com"), "{body}");
    assert!(body.contains("the evidence: https://belay.example.com/commits/1a2b3c4"), "{body}");
}
