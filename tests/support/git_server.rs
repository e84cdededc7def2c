//! A Git server on loopback: HTTP in front of `git http-backend`, as a forge has it, with the tempers of real ones.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use base64::Engine;

/// The behaviour of a server.
#[derive(Clone, Default)]
pub struct Temper {
    /// The reader's `user:password`; everybody may read if it is `None`.
    pub password: Option<String>,
    /// The target of its redirects: the start of an address.
    pub redirect: Option<String>,
    /// The moved paths: from below the first to below the second, on this server.
    pub moved: Option<(String, String)>,
    /// A repository in its folder, and the reference in it that is deleted, with all that it leads to, as soon as the server has
    /// said which there are.
    pub vanishes: Option<(String, String)>,
    /// The number of bytes of an answer after which it hangs up.
    pub hangs_up_after: Option<usize>,
    /// The answer instead of Git.
    pub answers: Option<String>,
    /// The certificate and key that it speaks TLS with, both in DER.
    pub tls: Option<(Vec<u8>, Vec<u8>)>,
}

/// A running server. It stops when it is dropped.
pub struct GitServer {
    port: u16,
    scheme: &'static str,
    seen: Arc<Mutex<Vec<Seen>>>,
    listener: TcpListener,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The path, with what was asked.
    pub path: String,
    /// The `Authorization` header.
    pub authorization: Option<String>,
    /// The `User-Agent` header.
    pub agent: Option<String>,
}

/// Returns true when `git http-backend` is there; if not, one line names the skipped test.
pub fn is_there(skipped: &str) -> bool {
    let path = Command::new("git").arg("--exec-path").output().ok();
    let there = path
        .map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()).join("git-http-backend"))
        .is_some_and(|program| program.exists());
    if !there {
        eprintln!("git http-backend is not installed: skipped: {skipped}");
    }
    there
}

impl GitServer {
    /// Serves the repositories in `folder`.
    pub fn start(folder: &Path, temper: Temper) -> GitServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let scheme = if temper.tls.is_some() { "https" } else { "http" };
        let server = GitServer {
            port: listener.local_addr().expect("its address").port(),
            scheme,
            seen: Arc::clone(&seen),
            listener: listener.try_clone().expect("a second handle"),
        };
        let folder = folder.to_owned();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (folder, temper, seen) = (folder.clone(), temper.clone(), Arc::clone(&seen));
                std::thread::spawn(move || match tls(&temper) {
                    // A client that goes away is not the server's trouble.
                    None => drop(serve(&stream, &stream, &folder, &temper, &seen)),
                    Some(config) => {
                        let connection = rustls::ServerConnection::new(config).expect("a TLS session");
                        let stream = Mutex::new(rustls::StreamOwned::new(connection, stream));
                        drop(serve(Shared(&stream), Shared(&stream), &folder, &temper, &seen));
                    }
                });
            }
        });
        server
    }

    /// Returns the address of a repository, by its path in the folder.
    pub fn url(&self, repository: &str) -> String {
        format!("{}://localhost:{}/{repository}", self.scheme, self.port)
    }

    /// Returns the start of every address.
    pub fn origin(&self) -> String {
        format!("{}://localhost:{}", self.scheme, self.port)
    }

    /// Returns the requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("the requests").clone()
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        // Wakes the thread that waits for the next connection, which then ends.
        self.listener.set_nonblocking(true).expect("a listener that no longer waits");
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

fn tls(temper: &Temper) -> Option<Arc<rustls::ServerConfig>> {
    let (certificate, key) = temper.tls.clone()?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("protocol versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.into()], rustls::pki_types::PrivatePkcs8KeyDer::from(key).into())
        .expect("a certificate with its key");
    Some(Arc::new(config))
}

/// One stream for reading and for writing.
struct Shared<'a, S>(&'a Mutex<S>);

impl<S: Read> Read for Shared<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.lock().expect("the stream").read(buffer)
    }
}

impl<S: Write> Write for Shared<'_, S> {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("the stream").write(buffer)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.lock().expect("the stream").flush()
    }
}

/// Answers the requests of one connection.
fn serve(
    input: impl Read,
    mut output: impl Write,
    folder: &Path,
    temper: &Temper,
    seen: &Mutex<Vec<Seen>>,
) -> std::io::Result<()> {
    let mut input = BufReader::new(input);
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut words = line.split(' ');
        let (method, target) =
            (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
        let headers = headers(&mut input)?;
        let header = |name: &str| headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        let body = body(&mut input, header("content-length"), header("transfer-encoding"))?;
        let authorization = header("authorization");
        let agent = header("user-agent");
        let request = Seen { path: target.clone(), authorization: authorization.clone(), agent };
        seen.lock().expect("the requests").push(request);
        let wanted = temper
            .password
            .as_ref()
            .map(|password| format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(password)));
        if let Some(redirect) = &temper.redirect {
            write!(output, "HTTP/1.1 302 Found\r\nLocation: {redirect}{target}\r\nContent-Length: 0\r\n\r\n")?;
        } else if let Some((_, below)) = temper.moved.as_ref().filter(|(from, _)| target.starts_with(from)) {
            let rest = target.splitn(3, '/').nth(2).unwrap_or_default();
            write!(output, "HTTP/1.1 301 Moved\r\nLocation: {below}{rest}\r\nContent-Length: 0\r\n\r\n")?;
        } else if wanted.is_some() && authorization != wanted {
            let ask = "WWW-Authenticate: Basic realm=\"git\"\r\nContent-Length: 0\r\n\r\n";
            write!(output, "HTTP/1.1 401 Unauthorized\r\n{ask}")?;
        } else if let Some(answer) = &temper.answers {
            output.write_all(answer.as_bytes())?;
            return output.flush();
        } else {
            let answer = backend(folder, &method, &target, &headers, &body)?;
            if let Some((repository, name)) = temper.vanishes.as_ref().filter(|_| target.contains("/info/refs")) {
                vanish(&folder.join(repository), name);
            }
            let cut = temper.hangs_up_after.unwrap_or(answer.len()).min(answer.len());
            output.write_all(&answer[..cut])?;
            if cut < answer.len() {
                return output.flush();
            }
        }
        output.flush()?;
    }
}

/// Deletes a reference, and what nothing else leads to.
fn vanish(repository: &Path, name: &str) {
    for args in [&["update-ref", "-d", name][..], &["gc", "--quiet", "--prune=now"]] {
        let done = Command::new("git").arg("--git-dir").arg(repository).args(args).status();
        assert!(done.is_ok_and(|status| status.success()), "{args:?}");
    }
}

fn headers(input: &mut impl BufRead) -> std::io::Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        input.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            None => return Ok(headers),
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
        }
    }
}

fn body(input: &mut impl BufRead, length: Option<String>, encoding: Option<String>) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if encoding.is_some_and(|encoding| encoding == "chunked") {
        loop {
            let mut line = String::new();
            input.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
            let mut chunk = vec![0; size + 2];
            input.read_exact(&mut chunk)?;
            if size == 0 {
                return Ok(body);
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }
    body.resize(length.and_then(|length| length.parse().ok()).unwrap_or(0), 0);
    input.read_exact(&mut body)?;
    Ok(body)
}

/// Asks `git http-backend`, which speaks CGI, and makes its answer one of HTTP.
fn backend(
    folder: &Path,
    method: &str,
    target: &str,
    headers: &[(String, String)],
    body: &[u8],
) -> std::io::Result<Vec<u8>> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let header = |name: &str| headers.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value.as_str());
    let mut child = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", folder)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REMOTE_USER", "ada")
        .env("REQUEST_METHOD", method)
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut stdin = child.stdin.take().expect("a pipe");
    let body = body.to_owned();
    let writer = std::thread::spawn(move || drop(stdin.write_all(&body)));
    let answer = child.wait_with_output()?.stdout;
    writer.join().expect("a thread that writes");
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(0);
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK");
    let content = &answer[(end + 4).min(answer.len())..];
    let kept: Vec<&str> = head.lines().filter(|line| !line.starts_with("Status: ")).collect();
    let mut whole = format!("HTTP/1.1 {status}\r\n{}\r\nContent-Length: {}\r\n\r\n", kept.join("\r\n"), content.len());
    if kept.is_empty() {
        whole = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", content.len());
    }
    Ok([whole.as_bytes(), content].concat())
}
