//! A Git server that speaks the protocol and means no good. Each fetch from it runs in a process of its own, whose memory is
//! measured; nothing of what it sends is taken, little of it is kept, and the error names the server.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use belay::git::{Credentials, Follow, Limits, Location, Mirror};
use tokio_util::sync::CancellationToken;

use super::bombs::high_water;
use crate::support::repository::Repository;

/// Names the repository, the mirror's folder and the keys to the process that is measured.
const WHERE: &str = "BELAY_TEST_HOSTILE";
/// The most memory that a process may take.
const PEAK: u64 = 256 << 20;
/// The most bytes of one fetch, here.
const BROUGHT: u64 = 32 << 20;
/// The longest time of one fetch, here; a server that never ends is ended by it.
const TIME: Duration = Duration::from_secs(5);
/// The most bytes that a failed fetch leaves beside the mirror's own files.
const KEPT: u64 = 1 << 20;
/// The most that is sent without end, in bytes: behind that the server hangs up, and the test has failed.
const ENDLESS: u64 = 4 << 30;

/// The body of an answer: this, and then that, again and again.
#[derive(Clone, Default)]
pub struct Body {
    pub begins: Vec<u8>,
    pub repeats: Vec<u8>,
}

impl Body {
    pub fn of(bytes: impl Into<Vec<u8>>) -> Body {
        Body { begins: bytes.into(), repeats: Vec::new() }
    }
}

/// The answers of the server.
#[derive(Clone)]
pub struct Says {
    /// The headers of both answers, beside the usual.
    pub headers: String,
    pub references: Body,
    pub pack: Body,
}

pub fn pkt(data: &[u8]) -> Vec<u8> {
    [format!("{:04x}", data.len() + 4).as_bytes(), data].concat()
}

pub const CAPABILITIES: &str = "side-band-64k ofs-delta agent=hostile";
const SERVICE: &[u8] = b"001e# service=git-upload-pack\n0000";

/// References as a server names them: the first with what it can.
pub fn named(references: &[(&str, &str)], capabilities: &str) -> Vec<u8> {
    let mut said = SERVICE.to_vec();
    for (number, (id, name)) in references.iter().enumerate() {
        let can = if number == 0 { format!("\0{capabilities}") } else { String::new() };
        said.extend(pkt(format!("{id} {name}{can}\n").as_bytes()));
    }
    said.extend(b"0000");
    said
}

/// A server that says so over each connection, its port, and how many bytes it has sent.
fn server(says: Says) -> (u16, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let sent = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (says, counted) = (says.clone(), Arc::clone(&counted));
            std::thread::spawn(move || drop(answer(stream, &says, &counted)));
        }
    });
    (port, sent)
}

fn answer(mut stream: TcpStream, says: &Says, sent: &AtomicU64) -> std::io::Result<()> {
    let mut input = BufReader::new(stream.try_clone()?);
    loop {
        let (mut first, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if input.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if first.is_empty() {
                first.clone_from(&line);
            }
            if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = bytes.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        input.read_exact(&mut vec![0; length])?;
        let (kind, body) = match first.starts_with("GET") {
            true => ("advertisement", &says.references),
            false => ("result", &says.pack),
        };
        let first = if says.headers.starts_with("HTTP/") { "" } else { "HTTP/1.1 200 OK\r\n" };
        let kind = format!("Content-Type: application/x-git-upload-pack-{kind}\r\nTransfer-Encoding: chunked\r\n");
        write!(stream, "{first}{}{kind}\r\n", says.headers)?;
        chunk(&mut stream, &body.begins, sent)?;
        while !body.repeats.is_empty() && sent.load(Ordering::Relaxed) < ENDLESS {
            chunk(&mut stream, &body.repeats, sent)?;
        }
        stream.write_all(b"0\r\n\r\n")?;
    }
}

fn chunk(stream: &mut TcpStream, bytes: &[u8], sent: &AtomicU64) -> std::io::Result<()> {
    for bytes in bytes.chunks(1 << 16) {
        write!(stream, "{:x}\r\n", bytes.len())?;
        stream.write_all(bytes)?;
        stream.write_all(b"\r\n")?;
        sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// Not a test by itself: the process that is measured.
#[test]
fn fetches_and_is_measured() {
    let Ok(told) = std::env::var(WHERE) else { return };
    let told: Vec<&str> = told.split(' ').collect();
    let [repository, folder, keys @ ..] = &told[..] else { panic!("{told:?}") };
    let limits = Limits { fetch_bytes: BROUGHT, fetch_time: TIME, ..Limits::default() };
    let location: Location = repository.parse().unwrap();
    let credentials = match keys {
        [key, known_hosts] => Credentials::new(&location).key_file(key).known_hosts(known_hosts),
        _ => Credentials::default(),
    };
    let (mirror, _) = Mirror::open(Path::new(folder), location, credentials, limits).unwrap();
    let follow = Follow::Branch("main".to_owned());
    let said = match mirror.fetch(&follow, &CancellationToken::new()) {
        Ok(fetched) => format!("took {}", fetched.head),
        Err(error) => format!("{error}"),
    };
    println!("\nsaid: {}", said.replace('\n', "\\n"));
    println!("head: {:?}", mirror.head(&follow).unwrap().map(|head| head.to_string()));
    println!("peak: {}", high_water(&fs::read_to_string("/proc/self/status").unwrap()).unwrap());
}

/// The result of a fetch.
pub struct Came {
    pub said: String,
    pub head: String,
}

/// Fetches `main` from a hostile server into a mirror of its own, with a key and known hosts where it wants them.
pub fn fetched(url: &str, folder: &Path, keys: &[PathBuf]) -> Came {
    let mut told = vec![url.to_owned(), folder.display().to_string()];
    told.extend(keys.iter().map(|key| key.display().to_string()));
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hostile_answers::fetches_and_is_measured", "--nocapture", "--test-threads", "1"])
        .env(WHERE, told.join(" "))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&child.stdout).into_owned();
    let told = |what: &str| out.lines().find_map(|line| line.strip_prefix(what)).map(str::to_owned);
    let said = told("said: ").unwrap_or_else(|| panic!("{}: {out}", child.status));
    let (peak, kept): (u64, u64) = (told("peak: ").unwrap().parse().unwrap(), size_of(folder));
    eprintln!("peak {} MiB, {kept} bytes kept: {said}", peak >> 20);
    assert!(peak < PEAK, "{} MiB: {said}", peak >> 20);
    let took = said.starts_with("took");
    assert!(kept < KEPT || took, "{kept} bytes are kept: {said}");
    assert!(took || said.contains(url.split('/').nth(2).unwrap()), "the server is not named: {said}");
    assert!(!said.contains(belay_core::manifest::is_hidden) && said.len() < 1500, "{said:?}");
    Came { said, head: told("head: ").unwrap() }
}

/// Fetches from a server that says so. The second is how many bytes it has sent.
pub fn fetched_from(repository: &Repository, says: Says) -> (Came, u64) {
    let (port, sent) = server(says);
    let folder = repository.beside(&format!("mirror-{port}"));
    let came = fetched(&format!("http://127.0.0.1:{port}/deploy.git"), &folder, &[]);
    let sent = sent.load(Ordering::Relaxed);
    assert!(sent < ENDLESS, "it was heard to the end: {}", came.said);
    (came, sent)
}

fn size_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| if entry.path().is_dir() { size_of(&entry.path()) } else { entry.metadata().unwrap().len() })
        .sum()
}

/// All of these are refused with one of the words that stand beside them, and nothing of them is taken.
pub fn all_are_refused(attacks: Vec<(&str, Says, &[&str])>) {
    let repository = Repository::new();
    for (what, says, words) in attacks {
        let (came, sent) = fetched_from(&repository, says);
        eprintln!("{what}: {} MiB sent", sent >> 20);
        assert!(words.iter().any(|word| came.said.contains(word)), "{what}: {}", came.said);
        assert_eq!(came.head, "None", "{what}: {}", came.said);
    }
}

const ID: &str = "0123456789012345678901234567890123456789";

/// A server with one branch, and this for a pack.
pub fn sends(pack: Body) -> Says {
    let main = [(ID, "HEAD"), (ID, "refs/heads/main")];
    Says { headers: String::new(), references: Body::of(named(&main, CAPABILITIES)), pack }
}

/// A server that names this.
fn names(references: Body) -> Says {
    Says { headers: String::new(), references, pack: Body::default() }
}

#[test]
fn references_that_are_too_many_too_long_or_none() {
    let main = named(&[(ID, "refs/heads/main")], CAPABILITIES);
    let open = main[..main.len() - 4].to_vec();
    let long = |number: usize| pkt(format!("{ID} refs/heads/{number}{}\n", "x".repeat(60_000)).as_bytes());
    let many = |count: usize| [open.clone(), (0..count).flat_map(long).collect(), b"0000".to_vec()].concat();
    let one = pkt(format!("{ID} refs/heads/again\n").as_bytes()).repeat(1000);
    let odd = ["refs/heads/\u{1b}[31mred", "refs/heads/../../../up", "refs/heads/\u{202e}turned", "refs/heads/a b"];
    let odd: Vec<(&str, &str)> = odd.into_iter().map(|name| (ID, name)).collect();
    let sha256 = "1".repeat(64);
    let endless = Body { begins: open.clone(), repeats: one };
    all_are_refused(vec![
        ("without end", names(endless), &["the limit is 33554432"]),
        ("long names", names(Body::of(many(1500))), &["the limit is 33554432"]),
        ("more long names", names(Body::of(many(4000))), &["the limit is 33554432"]),
        (
            "nothing but lines",
            names(Body { begins: SERVICE.to_vec(), repeats: b"0004".repeat(1000) }),
            &["failed to fetch", "the limit is"],
        ),
        (
            "flushes",
            names(Body { begins: SERVICE.to_vec(), repeats: b"0000".repeat(1000) }),
            &["failed", "longer", "is empty", "the limit is"],
        ),
        ("an error with colours", names(Body::of([SERVICE, &pkt(b"ERR \x1b[31mno\r\nlines")].concat())), &["no"]),
        ("odd names", names(Body::of(named(&odd, CAPABILITIES))), &["has no branch main"]),
        ("lengths that are none", names(Body::of([SERVICE, b"zzzz"].concat())), &["failed to fetch"]),
        ("a length without its line", names(Body::of([SERVICE, b"ffff0123"].concat())), &["failed to fetch"]),
        (
            "another object format",
            names(Body::of(named(&[(&sha256, "refs/heads/main")], &format!("{CAPABILITIES} object-format=sha256")))),
            &["SHA-256"],
        ),
    ]);
}

#[test]
fn http_that_leads_nowhere() {
    let with = |headers: &str| Says { headers: headers.to_owned(), ..sends(Body::default()) };
    let gzip = Says { references: Body::of(vec![0x1f; 4096]), ..with("Content-Encoding: gzip\r\n") };
    let elsewhere = "HTTP/1.1 302 Found\r\nLocation: /deploy.git/info/refs?service=git-upload-pack\r\n";
    all_are_refused(vec![
        ("a redirect to itself", with(elsewhere), &["redirect"]),
        ("packed answers", gzip, &["failed to fetch"]),
        ("another kind", with("Content-Type: text/html\r\n"), &["failed to fetch", "Content-Type"]),
    ]);
}

#[test]
fn talk_instead_of_a_pack() {
    let band = |number: u8, data: &[u8]| pkt(&[&[number], data].concat());
    let after = |begins: &[u8], repeats: Vec<u8>| sends(Body { begins: begins.to_vec(), repeats });
    let nak: &[u8] = b"0008NAK\n";
    let ack = pkt(format!("ACK {ID} common\n").as_bytes());
    all_are_refused(vec![
        ("a side-band without end", after(nak, band(2, &[b'x'; 60_000])), &["the limit is 33554432"]),
        (
            "acknowledgements without end",
            after(b"", ack.repeat(1000)),
            &["took longer", "failed to fetch", "the limit is 33554432"],
        ),
        ("refusals without end", after(b"", nak.repeat(1000)), &["took longer", "failed to fetch", "the limit is"]),
        (
            "an error with colours",
            after(nak, band(3, b"\x1b[31mno\r\nlines")),
            &["failed to fetch", "took longer", "the limit is"],
        ),
        ("a band that is none", after(nak, band(9, b"x")), &["failed to fetch", "took longer", "the limit is"]),
        (
            "empty bands without end",
            after(nak, pkt(&[1]).repeat(1000)),
            &["took longer", "failed to fetch", "the limit is"],
        ),
        (
            "a reference that has vanished",
            sends(Body::of(pkt(b"ERR upload-pack: not our ref 0123"))),
            &["failed to fetch"],
        ),
        ("nothing", sends(Body::default()), &["failed to fetch"]),
        ("a pack without end", after(nak, band(1, &[b'P'; 60_000])), &["failed to fetch", "the limit is"]),
    ]);
}
