//! The Debian package, on a Debian that is booted: installed, started, reloaded, killed, hung, stopped, purged.
//!
//! `BELAY_DEBIAN` names the root of a Debian with systemd (`debootstrap --variant=minbase --include=systemd-sysv,dbus trixie`),
//! which stays as it is, and `BELAY_DEB` the package. `.ci/run` makes both.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::Instant;

use crate::fixture::{Fixture, all_are};
use crate::program::{Ran, can_try, finish};
use crate::support::daemon::{broken, config_map, deployment};

/// A Debian that runs in a container, on this machine's network. Its changes are gone afterwards.
struct BootedDebian {
    container: Child,
    /// The process of its systemd, once there is one.
    init: Option<u32>,
}

impl Drop for BootedDebian {
    fn drop(&mut self) {
        // All of the container ends with its first process.
        match self.init {
            Some(init) => drop(Command::new("kill").args(["-9", &init.to_string()]).status()),
            None => drop(self.container.kill()),
        }
        drop(self.container.wait());
    }
}

impl BootedDebian {
    /// Boots it, with this folder of the machine at `/fixture` and this repository at `/srv/shop.git`. Returns the reason if
    /// this machine can't.
    async fn boot(root: &Path, fixture: &Path, repository: &Path) -> Result<BootedDebian, String> {
        let mut command = Command::new("systemd-nspawn");
        command.args(["--quiet", "--register=no", "--keep-unit", "--volatile=overlay", "--boot", "--console=pipe"]);
        command.arg(format!("--machine=belay-{}", std::process::id())).arg("--directory").arg(root);
        command.arg(format!("--bind-ro={}:/fixture", fixture.display()));
        command.arg(format!("--bind-ro={}:/srv/shop.git", repository.display()));
        // The controllers of memory may all be in use by control groups of the first version.
        command.env("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", "1");
        let log = fixture.join("console");
        let output = || fs::File::create(&log).unwrap();
        let spawned = command.stdin(Stdio::null()).stdout(output()).stderr(output()).spawn();
        let mut machine = BootedDebian { container: spawned.map_err(|error| error.to_string())?, init: None };
        let began = Instant::now();
        while !machine.is_up() {
            let has_ended = machine.container.try_wait().unwrap().is_some();
            if has_ended || began.elapsed() > Duration::from_secs(60) {
                return Err(fs::read_to_string(&log).unwrap_or_default());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(machine)
    }

    /// Returns true once everything that starts at boot has started, or failed.
    fn is_up(&mut self) -> bool {
        let children = format!("/proc/{0}/task/{0}/children", self.container.id());
        self.init = fs::read_to_string(children).ok().and_then(|init| init.trim().parse().ok());
        self.init.is_some() && {
            let ran = self.run(&["systemctl", "is-system-running", "--wait"]);
            ["running", "degraded"].contains(&ran.out.trim())
        }
    }

    /// Runs a command in it, as root.
    fn run(&self, args: &[&str]) -> Ran {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.init.unwrap_or_default().to_string(), "--all", "--root", "--wd"]);
        command.args(["/usr/bin/env", "-i", "HOME=/root", "PATH=/usr/sbin:/usr/bin", "NO_COLOR=1", "LC_ALL=C"]);
        command.args(args);
        finish(command, "")
    }

    /// Runs a command in it, which ends well; returns its output.
    fn does(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}\n{}", self.journal());
        ran.out
    }

    /// Runs a line of a shell in it.
    fn shell(&self, line: &str) -> String {
        self.does(&["sh", "-ec", line])
    }

    /// Returns belay's part of the journal.
    fn journal(&self) -> String {
        self.run(&["journalctl", "--unit=belay", "--output=cat", "--no-pager"]).out
    }

    /// Returns a property of the service.
    fn shown(&self, property: &str) -> String {
        self.does(&["systemctl", "show", "--value", "--property", property, "belay"]).trim().to_owned()
    }

    /// Waits until this is so.
    async fn until(&self, what: &str, is_so: impl Fn(&BootedDebian) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < Duration::from_secs(90), "{what}\n{}", self.journal());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until the history says so of a commit, as an administrator asks it.
    async fn until_outcome(&self, commit: &str, outcome: &str) {
        let says_so = |machine: &BootedDebian| {
            all_are(&machine.run(&["belay", "history", "--commit", commit, "-o", "json"]), outcome)
        };
        self.until(&format!("{commit} is {outcome}"), says_so).await;
    }
}

/// Returns the root of a Debian and belay's package; `None`, and a line that says so, if they or what boots are not there.
fn given() -> Option<(PathBuf, PathBuf)> {
    let named = |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.exists());
    let (Some(root), Some(package)) = (named("BELAY_DEBIAN"), named("BELAY_DEB")) else {
        eprintln!(
            "not tried: the package on a Debian that is booted: BELAY_DEBIAN and BELAY_DEB name no root and no package"
        );
        return None;
    };
    can_try("the package on a Debian that is booted", &["systemd-nspawn", "nsenter"]).then_some((root, package))
}

const CONFIG: &str =
    "[[source]]\nname = \"shop\"\nrepository = \"/srv/shop.git\"\npath = \"shop\"\ninterval = \"1s\"\n";
const SECOND: &str =
    "[[source]]\nname = \"tools\"\nrepository = \"/srv/shop.git\"\npath = \"tools\"\ninterval = \"1s\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn the_package_on_a_debian_that_is_booted() {
    let Some((root, package)) = given() else { return };
    let mut stage = Fixture::new().await;
    fs::copy(package, stage.home.path().join("belay.deb")).unwrap();
    stage.repository.write("tools/settings.yaml", config_map("tools", "1"));
    let first = stage.repository.commit_file("shop/web.yaml", &deployment("web", "web:1", ""), "First version");
    stage.repository.push();
    let machine = match BootedDebian::boot(&root, stage.home.path(), stage.repository.path()).await {
        Ok(machine) => machine,
        Err(why) => {
            eprintln!("not tried: the package on a Debian that is booted: it does not boot here: {why}");
            return;
        }
    };
    installing_starts_nothing(&machine);
    it_says_what_is_missing(&machine).await;
    it_starts_and_is_ready(&machine).await;
    machine.until_outcome(&first, "complete").await;
    a_missing_credential_names_its_line(&machine);
    it_is_confined(&machine);
    let slow = stage.repository.commit_file("shop/web.yaml", &broken("web", "ready-after=8s"), "A slow version");
    stage.repository.push();
    machine.until_outcome(&slow, "progressing").await;
    a_reload_leaves_the_rollout_alone(&machine).await;
    a_crash_leaves_it_alone_too(&machine).await;
    machine.until_outcome(&slow, "complete").await;
    let bad = stage.repository.commit_file("shop/web.yaml", &broken("web", "image-pull-error"), "A bad version");
    stage.repository.push();
    machine.until_outcome(&bad, "rolled-back").await;
    one_that_hangs_is_started_again(&machine).await;
    it_stops_in_time(&machine);
    credentials_may_be_encrypted(&machine).await;
    an_upgrade_starts_it_again(&machine).await;
    purging_leaves_nothing(&machine);
}

fn installing_starts_nothing(machine: &BootedDebian) {
    machine.shell("printf '[safe]\\n\\tdirectory = /srv/shop.git\\n' > /etc/gitconfig");
    machine.does(&["dpkg", "--install", "/fixture/belay.deb"]);
    assert_eq!(machine.shown("ActiveState"), "inactive");
    let files = machine.does(&["dpkg", "--listfiles", "belay"]);
    for file in ["/usr/bin/belay", "/etc/belay/belay.toml", "/usr/share/man/man1/belay-history.1.gz"] {
        assert!(files.lines().any(|line| line == file), "{file}: {files}");
    }
    assert_eq!(machine.does(&["belay", "version"]).lines().next(), Some(concat!("belay ", env!("CARGO_PKG_VERSION"))));
}

/// Starts the service, which ends at once; its journal says so.
async fn fails_and_says(machine: &BootedDebian, words: &[&str]) {
    machine.run(&["systemctl", "start", "belay"]);
    let says = |machine: &BootedDebian| words.iter().all(|word| machine.journal().contains(word));
    machine.until(&format!("the journal says {words:?}"), says).await;
    machine.run(&["systemctl", "stop", "belay"]);
    // It is not loaded any more if nothing enables it.
    machine.run(&["systemctl", "reset-failed", "belay"]);
}

async fn it_says_what_is_missing(machine: &BootedDebian) {
    fails_and_says(machine, &["/etc/belay/belay.toml", "[[source]]"]).await;
    write(machine, CONFIG);
    fails_and_says(machine, &["/etc/belay/kubeconfig"]).await;
    let by_https = CONFIG.replace("/srv/shop.git", "https://git.example.com/shop.git");
    let token = "[source.credentials]\ntoken_file = \"/run/credentials/belay.service/token\"\n";
    write(machine, &(by_https + token));
    let ran = machine.run(&["belay", "run", "--config", "/etc/belay/belay.toml", "--check-config"]);
    assert!(ran.code == 0 && ran.err.contains("puts credentials there while belay.service runs"), "{ran:?}");
    write(machine, CONFIG);
}

/// Replaces the configuration.
fn write(machine: &BootedDebian, text: &str) {
    machine.shell(&format!("cat > /etc/belay/belay.toml << 'END'\n{text}END\n"));
}

async fn it_starts_and_is_ready(machine: &BootedDebian) {
    machine.does(&["install", "-m", "600", "/fixture/kubeconfig", "/etc/belay/kubeconfig"]);
    // It returns once belay is ready.
    machine.does(&["systemctl", "enable", "--now", "belay"]);
    assert_eq!(machine.shown("ActiveState"), "active");
    machine
        .until("the status line tells of the source", |machine| machine.shown("StatusText").contains("synced"))
        .await;
}

fn a_missing_credential_names_its_line(machine: &BootedDebian) {
    let token =
        CONFIG.replace("interval", "credentials = { token_file = \"/run/credentials/belay.service/token\" }\ninterval");
    machine.shell(&format!("cat > /tmp/belay.toml << 'END'\n{token}END\n"));
    let ran = machine.run(&["belay", "run", "--config", "/tmp/belay.toml", "--check-config"]);
    assert!(ran.code == 1 && ran.err.contains("LoadCredential=token:/etc/belay/token"), "{ran:?}");
    machine.does(&["rm", "/tmp/belay.toml"]);
}

fn it_is_confined(machine: &BootedDebian) {
    // Tenths: 1.1.
    let ran = machine.run(&["systemd-analyze", "security", "--threshold=11", "--no-pager", "belay"]);
    assert_eq!(ran.code, 0, "{}", ran.out.lines().last().unwrap_or_default());
    // A user of its own, which has a name only where libnss-systemd is installed.
    let owner = machine.shell("stat -c '%u %a' /var/lib/private/belay");
    assert!(owner.trim().ends_with(" 700") && !owner.starts_with("0 "), "{owner}");
    let lines = machine.does(&["journalctl", "--unit=belay", "--output=json", "--no-pager", "--priority=info"]);
    let ours = |line: &str| {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        entry["SYSLOG_IDENTIFIER"] == "belay" && entry["PRIORITY"].is_string()
    };
    assert!(lines.lines().any(ours), "{lines}");
    let secret = machine.shell("sed -n 's/.*token: //p' /etc/belay/kubeconfig");
    assert!(!secret.trim().is_empty() && !machine.journal().contains(secret.trim()));
}

async fn a_reload_leaves_the_rollout_alone(machine: &BootedDebian) {
    let before = machine.shown("MainPID");
    write(machine, &format!("{CONFIG}{SECOND}"));
    machine.does(&["systemctl", "reload", "belay"]);
    machine
        .until("the second source is synced", |machine| machine.run(&["belay", "status"]).out.contains("tools is at"))
        .await;
    assert_eq!(machine.shown("MainPID"), before);
    write(machine, "[[source]]\nrepositry = \"/srv/shop.git\"\n");
    machine.run(&["systemctl", "reload", "belay"]);
    machine.until("the broken file is told", |machine| machine.journal().contains("unknown key")).await;
    machine.until("so does the status line", |machine| machine.shown("StatusText").contains("unknown key")).await;
    write(machine, &format!("{CONFIG}{SECOND}"));
    machine.does(&["systemctl", "reload", "belay"]);
    assert_eq!((machine.shown("MainPID"), machine.shown("ActiveState")), (before, "active".to_owned()));
}

async fn a_crash_leaves_it_alone_too(machine: &BootedDebian) {
    let before = machine.shown("MainPID");
    machine.does(&["systemctl", "kill", "--signal=KILL", "belay"]);
    machine.until("it runs again", |machine| is_another(machine, &before)).await;
    assert_eq!(machine.shown("NRestarts"), "1");
}

fn is_another(machine: &BootedDebian, before: &str) -> bool {
    machine.shown("ActiveState") == "active" && ![before, "0"].contains(&machine.shown("MainPID").as_str())
}

async fn one_that_hangs_is_started_again(machine: &BootedDebian) {
    drop_in(machine, "watchdog", "WatchdogSec=3s");
    machine.does(&["systemctl", "restart", "belay"]);
    let before = machine.shown("MainPID");
    machine.does(&["systemctl", "kill", "--signal=STOP", "belay"]);
    machine.until("it runs again", |machine| is_another(machine, &before)).await;
    let said = machine.does(&["journalctl", "--unit=belay", "--no-pager"]);
    assert!(said.contains("Watchdog timeout"), "{said}");
}

/// Adds a setting to the unit.
fn drop_in(machine: &BootedDebian, name: &str, settings: &str) {
    machine.shell(&format!(
        "mkdir -p /etc/systemd/system/belay.service.d; printf '[Service]\\n{settings}\\n' > \
         /etc/systemd/system/belay.service.d/{name}.conf; systemctl daemon-reload"
    ));
}

fn it_stops_in_time(machine: &BootedDebian) {
    drop_in(machine, "stop", "TimeoutStopSec=5s");
    machine.does(&["systemctl", "stop", "belay"]);
    // After 5 s systemd would have killed it, and said "timeout".
    assert_eq!((machine.shown("ActiveState"), machine.shown("Result")), ("inactive".to_owned(), "success".to_owned()));
}

async fn credentials_may_be_encrypted(machine: &BootedDebian) {
    machine.shell("systemd-creds encrypt --name=kubeconfig /etc/belay/kubeconfig /etc/belay/kubeconfig.cred");
    machine.does(&["rm", "/etc/belay/kubeconfig"]);
    drop_in(machine, "encrypted", "LoadCredential=\\nLoadCredentialEncrypted=kubeconfig:/etc/belay/kubeconfig.cred");
    machine.does(&["systemctl", "start", "belay"]);
    machine.until("the sources are synced", |machine| machine.shown("StatusText").contains("synced")).await;
    // Root has no kubeconfig of its own: the service's is used.
    let ran = machine.run(&["belay", "status"]);
    assert!(ran.out.contains("shop is at"), "{ran:?}");
}

async fn an_upgrade_starts_it_again(machine: &BootedDebian) {
    let before = machine.shown("MainPID");
    let configured = machine.does(&["cat", "/etc/belay/belay.toml"]);
    machine.does(&["dpkg", "--install", "/fixture/belay.deb"]);
    machine.until("it runs again", |machine| is_another(machine, &before)).await;
    assert_eq!(machine.does(&["cat", "/etc/belay/belay.toml"]), configured, "the configuration is the administrator's");
}

fn purging_leaves_nothing(machine: &BootedDebian) {
    machine.does(&["rm", "-r", "/etc/systemd/system/belay.service.d"]);
    machine.does(&["dpkg", "--purge", "belay"]);
    let left = machine.shell(
        "find / -xdev -path /proc -prune -o -path /sys -prune -o -path /run/log -prune -o -path /var/log -prune -o -path /fixture \
         -prune -o -name '*belay*' -print",
    );
    assert_eq!(left, "");
    assert_eq!(machine.run(&["systemctl", "cat", "belay"]).code, 1);
}
