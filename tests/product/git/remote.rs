//! A repository behind HTTP: fetched, refused, cut off, redirected.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belay::git::{Credentials, Fetched, Follow, GitError, Limits, Location, Mirror};
use tokio_util::sync::CancellationToken;

use super::mirror::{fetch, id, main};
use crate::support::git_server::{GitServer, Temper, is_there};
use crate::support::repository::Repository;

const TOKEN: &str = "ghp_hunter2";

struct World {
    repository: Repository,
    server: GitServer,
}

impl World {
    fn new(temper: Temper) -> World {
        let mut repository = Repository::new();
        repository.commit_file("a.yaml", "one", "First");
        repository.push();
        let server = GitServer::start(repository.path().parent().unwrap(), temper);
        World { repository, server }
    }

    fn location(&self) -> Location {
        self.server.url("deploy.git").parse().unwrap()
    }

    fn token_file(&self, token: &str) -> PathBuf {
        let path = self.repository.beside("token");
        fs::write(&path, format!("{token}\n")).unwrap();
        path
    }

    fn mirror(&self, credentials: Credentials, limits: Limits) -> Mirror {
        Mirror::open(&self.repository.beside("mirror"), self.location(), credentials, limits).unwrap().0
    }

    fn plain(&self) -> Mirror {
        self.mirror(Credentials::default(), Limits::default())
    }
}

fn with_password() -> Temper {
    Temper { password: Some(format!("git:{TOKEN}")), ..Temper::default() }
}

#[test]
fn a_push_is_fetched_over_http() {
    if !is_there("fetching over HTTP") {
        return;
    }
    let mut world = World::new(Temper::default());
    let first = world.repository.tip().unwrap();
    let mirror = world.plain();
    assert_eq!(fetch(&mirror).unwrap(), Fetched { head: id(&first), before: None });
    let asked = world.server.seen().len();
    assert_eq!(fetch(&mirror).unwrap().before, Some(id(&first)));
    assert_eq!(world.server.seen().len(), asked + 1, "nothing has moved: one request");
    let agent = format!("git/2.0 {}", belay::user_agent::AGENT);
    assert!(world.server.seen().iter().all(|seen| seen.agent.as_ref() == Some(&agent)), "{:?}", world.server.seen());

    let second = world.repository.commit_file("a.yaml", "two", "Second");
    world.repository.tag("v1.0.0", Some("a note"));
    world.repository.push();
    assert_eq!(fetch(&mirror).unwrap().head, id(&second));
    let stop = CancellationToken::new();
    assert_eq!(mirror.fetch(&Follow::Tag("v*".to_owned()), &stop).unwrap().head, id(&second));
    assert_eq!(mirror.fetch(&Follow::DefaultBranch, &stop).unwrap().head, id(&second));
    world.repository.reset(&first);
    let other = world.repository.commit_file("a.yaml", "other", "Instead");
    world.repository.force_push();
    assert_eq!(fetch(&mirror).unwrap(), Fetched { head: id(&other), before: Some(id(&second)) });
    for commit in [&first, &second, &other] {
        assert_eq!(mirror.files(&id(commit), "").unwrap().files.len(), 1);
    }
    let error = mirror.fetch(&Follow::Branch("gone".to_owned()), &stop).unwrap_err().to_string();
    assert!(error.ends_with("has no branch gone; it has main"), "{error}");
}

#[test]
fn a_token_is_shown_to_its_server_and_never_told() {
    if !is_there("credentials over HTTP") {
        return;
    }
    let world = World::new(with_password());
    let location = world.location();
    let error = fetch(&world.plain()).unwrap_err();
    assert!(matches!(&error, GitError::Refused { message, .. } if message.contains("none are configured")), "{error}");

    let wrong = Credentials::new(&location).token_file(world.token_file("wrong-hunter3"));
    let error = fetch(&world.mirror(wrong, Limits::default())).unwrap_err();
    assert!(matches!(&error, GitError::Refused { message, .. } if message.contains("does not take")), "{error}");
    assert!(!error.to_string().contains("hunter3") && !format!("{error:?}").contains("hunter3"), "{error:?}");

    let right = Credentials::new(&location).token_file(world.token_file(TOKEN));
    assert!(!format!("{right:?}").contains("hunter2"));
    let mirror = world.mirror(right.clone(), Limits::default());
    fetch(&mirror).unwrap();
    // A token that is exchanged while belay runs is used at once.
    world.token_file("expired");
    assert!(matches!(fetch(&mirror).unwrap_err(), GitError::Refused { .. }));
    world.token_file(TOKEN);
    fetch(&mirror).unwrap();
    let config = fs::read_to_string(mirror.path().join("config")).unwrap();
    assert!(!config.contains("hunter2"), "{config}");

    let other: Location = "https://git.example.com/deploy.git".parse().unwrap();
    let refused = Mirror::open(&world.repository.beside("other"), other, right, Limits::default()).err().unwrap();
    assert!(matches!(refused, GitError::Refused { .. }), "{refused}");
}

#[test]
fn a_token_file_that_is_no_use_is_named() {
    if !is_there("credentials over HTTP") {
        return;
    }
    let world = World::new(with_password());
    let location = world.location();
    for (number, content, why) in
        [(1, None, "No such file"), (2, Some("\n"), "it is empty"), (3, Some("a\nb"), "more than one line")]
    {
        let file = world.repository.beside(&format!("token-{number}"));
        if let Some(content) = content {
            fs::write(&file, content).unwrap();
        }
        let credentials = Credentials::new(&location).token_file(&file);
        let error = fetch(&world.mirror(credentials, Limits::default())).unwrap_err();
        assert!(matches!(&error, GitError::Credential { .. }) && error.to_string().contains(why), "{error}");
    }
}

#[test]
fn credentials_do_not_follow_a_redirect() {
    if !is_there("redirects") {
        return;
    }
    let thief = World::new(with_password());
    // Another name, another port, another scheme: not even looked at.
    let elsewhere = thief.server.origin().replace("localhost", "127.0.0.1");
    for to in [elsewhere, thief.server.origin(), thief.server.origin().replace("http", "https")] {
        let world = World::new(Temper { redirect: Some(to), ..Temper::default() });
        let credentials = Credentials::new(&world.location()).token_file(world.token_file(TOKEN));
        let error = fetch(&world.mirror(credentials, Limits::default())).unwrap_err();
        assert!(matches!(&error, GitError::Refused { message, .. } if message.contains("new address")), "{error}");
        assert_eq!(thief.server.seen().len(), 0);
    }
}

#[test]
fn a_redirect_within_the_server_is_followed() {
    if !is_there("redirects") {
        return;
    }
    let mut world = World::new(Temper::default());
    let first = world.repository.tip().unwrap();
    let temper = Temper { moved: Some(("/old/".to_owned(), "/".to_owned())), ..Temper::default() };
    world.server = GitServer::start(world.repository.path().parent().unwrap(), temper);
    let location: Location = world
        .location()
        .to_string()
        .replacen(&world.server.origin(), &format!("{}/old", world.server.origin()), 1)
        .parse()
        .unwrap();
    let folder = world.repository.beside("moved-mirror");
    let mirror = Mirror::open(&folder, location, Credentials::default(), Limits::default()).unwrap().0;
    assert_eq!(fetch(&mirror).unwrap().head, id(&first));
    let paths: Vec<String> = world.server.seen().iter().map(|seen| seen.path.clone()).collect();
    assert!(paths[0].starts_with("/old/") && paths[1..].iter().all(|path| !path.starts_with("/old/")), "{paths:?}");
}

#[test]
fn a_branch_that_vanishes_in_the_middle_of_a_fetch_changes_nothing() {
    if !is_there("branches that vanish") {
        return;
    }
    let mut world = World::new(Temper::default());
    let first = world.repository.tip().unwrap();
    fetch(&world.plain()).unwrap();
    world.repository.commit_file("a.yaml", "2", "Second");
    world.repository.push();
    let healthy = world.server;
    let vanishes = Some(("deploy.git".to_owned(), "refs/heads/main".to_owned()));
    let temper = Temper { vanishes, ..Temper::default() };
    world.server = GitServer::start(world.repository.path().parent().unwrap(), temper);
    let mirror = readdressed(&world);
    let error = fetch(&mirror).unwrap_err();
    assert!(matches!(&error, GitError::Unreachable { .. } | GitError::Refused { .. }), "{error:?}");
    assert_eq!(mirror.head(&main()).unwrap(), Some(id(&first)), "what was fetched stays");
    // It comes back with another commit.
    world.server = healthy;
    let third = world.repository.commit_file("a.yaml", "3", "Third");
    world.repository.push();
    assert_eq!(fetch(&readdressed(&world)).unwrap().head, id(&third));
}

#[test]
fn a_server_that_breaks_off_or_talks_nonsense_is_an_error_and_changes_nothing() {
    if !is_there("servers that break off") {
        return;
    }
    let mut world = World::new(Temper::default());
    let first = world.repository.tip().unwrap();
    fetch(&world.plain()).unwrap();
    let noise: String = (0..20_000_u32).map(|n| format!("{:x}", n.wrapping_mul(2_654_435_761))).collect();
    let second = world.repository.commit_file("a.yaml", &noise, "Second");
    world.repository.push();
    let healthy = world.server;
    let advertised = "Content-Type: application/x-git-upload-pack-advertisement\r\n";
    let mut tempers = vec![
        Temper { answers: Some("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n".to_owned()), ..Temper::default() },
        Temper { answers: Some("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned()), ..Temper::default() },
        Temper { answers: Some("nonsense\r\n\r\n".to_owned()), ..Temper::default() },
        Temper { answers: Some(String::new()), ..Temper::default() },
        Temper {
            answers: Some(format!("HTTP/1.1 200 OK\r\n{advertised}Content-Length: 4\r\n\r\nzzzz")),
            ..Temper::default()
        },
        Temper {
            answers: Some(format!("HTTP/1.1 200 OK\r\n{advertised}Content-Length: 12\r\n\r\nffff\u{1b}[31mno")),
            ..Temper::default()
        },
    ];
    tempers.extend(
        [10, 200, 400, 600, 2000, 20_000].map(|bytes| Temper { hangs_up_after: Some(bytes), ..Temper::default() }),
    );
    for temper in tempers {
        world.server = GitServer::start(world.repository.path().parent().unwrap(), temper);
        // The mirror is of another address each time, but the same one: it is told so by its configuration.
        let mirror = readdressed(&world);
        let error = fetch(&mirror).unwrap_err();
        assert!(matches!(&error, GitError::Unreachable { .. } | GitError::Refused { .. }), "{error:?}");
        assert!(!error.to_string().contains('\u{1b}'));
        assert_eq!(mirror.head(&main()).unwrap(), Some(id(&first)));
    }
    world.server = healthy;
    assert_eq!(fetch(&readdressed(&world)).unwrap().head, id(&second));
}

/// Returns the mirror, as if it had always been one of the present server.
fn readdressed(world: &World) -> Mirror {
    let path = world.repository.beside("mirror/repository.git");
    let mut config = git2::Repository::open_bare(path).unwrap().config().unwrap();
    config.set_str("belay.repository", &world.location().to_string()).unwrap();
    world.plain()
}

#[test]
fn a_branch_whose_name_is_not_utf8_harms_nobody() {
    if !is_there("odd branches over HTTP") {
        return;
    }
    let world = World::new(Temper::default());
    let tip = world.repository.tip().unwrap();
    let odd: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"caf\xe9");
    fs::write(world.repository.path().join("refs/heads").join(odd), format!("{tip}\n")).unwrap();
    assert_eq!(fetch(&world.plain()).unwrap().head, id(&tip));
}

#[test]
fn a_fetch_has_its_limits() {
    if !is_there("limits of a fetch") {
        return;
    }
    let mut world = World::new(Temper::default());
    let noise: String = (0..50_000_u32).map(|n| format!("{:x}", n.wrapping_mul(2_654_435_761))).collect();
    world.repository.commit_file("big.yaml", &noise, "Big");
    world.repository.push();
    let small = Limits { fetch_bytes: 10_000, ..Limits::default() };
    let error = fetch(&world.mirror(Credentials::default(), small)).unwrap_err();
    assert!(matches!(error, GitError::TooLarge { limit: 10_000, .. }), "{error}");
    let short = Limits { fetch_time: Duration::ZERO, ..Limits::default() };
    let error = fetch(&world.mirror(Credentials::default(), short)).unwrap_err();
    assert!(matches!(error, GitError::TooSlow { .. }) && error.may_pass(), "{error}");
    let stop = CancellationToken::new();
    stop.cancel();
    let error = world.plain().fetch(&main(), &stop).unwrap_err();
    assert!(matches!(error, GitError::Cancelled), "{error}");
    fetch(&world.plain()).unwrap();
}

#[test]
fn a_server_that_is_not_there_may_come_back() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let folder = tempfile::tempdir().unwrap();
    let location: Location = format!("http://127.0.0.1:{port}/deploy.git").parse().unwrap();
    let (mirror, _) = Mirror::open(folder.path(), location, Credentials::default(), Limits::default()).unwrap();
    let error = fetch(&mirror).unwrap_err();
    assert!(matches!(error, GitError::Unreachable { .. }) && error.may_pass(), "{error}");
}

/// Names the address and the folder to the process that trusts the test's own certificate.
const TRUSTING: &str = "BELAY_TEST_TLS";

#[test]
fn a_certificate_is_checked() {
    if !is_there("fetching over TLS") {
        return;
    }
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let tls = Some((made.cert.der().to_vec(), made.signing_key.serialize_der()));
    let world = World::new(Temper { tls, ..Temper::default() });
    assert!(world.server.origin().starts_with("https://"));
    let error = fetch(&world.plain()).unwrap_err();
    assert!(matches!(error, GitError::Untrusted { .. }) && !error.may_pass(), "{error:?}");

    // An authority of one's own, beside the machine's; its name is checked, too.
    let file = world.repository.beside("own.pem");
    fs::write(&file, made.cert.pem()).unwrap();
    let own = Credentials::new(&world.location()).ca_file(&file);
    let folder = world.repository.beside("own");
    fetch(&Mirror::open(&folder, world.location(), own, Limits::default()).unwrap().0).unwrap();
    let misnamed: Location = world.location().to_string().replace("localhost", "127.0.0.1").parse().unwrap();
    let own = Credentials::new(&misnamed).ca_file(&file);
    let folder = world.repository.beside("misnamed");
    let error = fetch(&Mirror::open(&folder, misnamed, own, Limits::default()).unwrap().0).unwrap_err();
    assert!(matches!(error, GitError::Untrusted { .. }), "{error:?}");

    // The environment says which the machine trusts: so in a process of its own.
    let file = world.repository.beside("ca.pem");
    fs::write(&file, made.cert.pem()).unwrap();
    let mirror = world.repository.beside("trusting");
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "remote::fetches_where_it_is_trusted", "--nocapture"])
        .env("SSL_CERT_FILE", &file)
        .env(TRUSTING, format!("{} {}", world.location(), mirror.display()))
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(mirror.join("repository.git").exists());
}

/// Not a test by itself: the process that trusts the test's own certificate.
#[test]
fn fetches_where_it_is_trusted() {
    let Ok(told) = std::env::var(TRUSTING) else { return };
    let (location, folder) = told.split_once(' ').unwrap();
    let location: Location = location.parse().unwrap();
    // The certificate is for this name only.
    let misnamed: Location = location.to_string().replace("localhost", "127.0.0.1").parse().unwrap();
    let folder = Path::new(folder);
    let limits = Limits::default;
    let other = Mirror::open(&folder.join("misnamed"), misnamed, Credentials::default(), limits()).unwrap().0;
    assert!(matches!(fetch(&other).unwrap_err(), GitError::Untrusted { .. }));
    let mirror = Mirror::open(folder, location, Credentials::default(), limits()).unwrap().0;
    fetch(&mirror).unwrap();
}

/// A proxy on loopback, as `CONNECT` asks for one, and what it was asked.
fn proxy() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&asked);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let heard = Arc::clone(&heard);
            std::thread::spawn(move || {
                let mut lines = BufReader::new(client.try_clone().unwrap()).lines().map_while(Result::ok);
                let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
                let port = head[0].split([':', ' ']).nth(2).unwrap().parse::<u16>().unwrap();
                heard.lock().unwrap().extend(head);
                let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
                let mut client = client;
                client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
                let (mut up, mut down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || drop(std::io::copy(&mut up, &mut down)));
                let (mut up, mut down) = (server, client);
                drop(std::io::copy(&mut up, &mut down));
            });
        }
    });
    (port, asked)
}

/// Names the proxy, the address and the folder to the process that goes through the proxy.
const THROUGH: &str = "BELAY_TEST_PROXY";

#[test]
fn a_proxy_is_asked_for_what_it_is_for() {
    if !is_there("fetching through a proxy") {
        return;
    }
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let tls = Some((made.cert.der().to_vec(), made.signing_key.serialize_der()));
    let world = World::new(Temper { tls, ..Temper::default() });
    let file = world.repository.beside("ca.pem");
    fs::write(&file, made.cert.pem()).unwrap();
    let (port, asked) = proxy();
    let proxy = format!("http://ada:hunter2@127.0.0.1:{port}");
    let fetched = |folder: &str, variables: &[(&str, &str)]| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "remote::fetches_through_a_proxy", "--nocapture"]);
        for name in ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"] {
            command.env_remove(name);
        }
        let told = format!("{} {}", world.location(), world.repository.beside(folder).display());
        let done = command.env("SSL_CERT_FILE", &file).env(THROUGH, told).envs(variables.iter().copied()).output();
        let done = done.unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        std::mem::take(&mut *asked.lock().unwrap())
    };
    let heard = fetched("through", &[("HTTPS_PROXY", &proxy)]);
    let server = world.location().origin().unwrap().to_string().replace("https://", "");
    assert!(heard[0].starts_with(&format!("CONNECT {server} ")), "{heard:?}");
    assert!(heard.iter().any(|line| line.to_ascii_lowercase().starts_with("proxy-authorization: basic ")), "{heard:?}");
    let git = [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "http.proxy"), ("GIT_CONFIG_VALUE_0", proxy.as_str())];
    assert!(!fetched("by-git", &git).is_empty());
    assert!(fetched("around", &[("HTTPS_PROXY", &proxy), ("NO_PROXY", "localhost")]).is_empty());
}

/// Not a test by itself: the process that goes through the proxy.
#[test]
fn fetches_through_a_proxy() {
    let Ok(told) = std::env::var(THROUGH) else { return };
    let (location, folder) = told.split_once(' ').unwrap();
    let location: Location = location.parse().unwrap();
    fetch(&Mirror::open(Path::new(folder), location, Credentials::default(), Limits::default()).unwrap().0).unwrap();
}
