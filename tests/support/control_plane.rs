//! The real control plane: etcd, kube-apiserver and kube-controller-manager from `KUBEBUILDER_ASSETS`, on loopback, on
//! free ports, in a temporary folder, stopped when dropped.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kube::config::AuthInfo;
use kube::{Client, Config};
use serde_json::{Value, json};

const CONTROLLERS: &str = "deployment,replicaset,replicationcontroller,daemonset,statefulset,garbagecollector,\
                           namespace,disruption,job,cronjob,serviceaccount,root-ca-cert-publisher,podgc,resourcequota,\
                           ttl-after-finished,pvc-protection,endpoint,endpointslice,clusterrole-aggregation";

/// The parts to start beside etcd and the API server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Controllers {
    /// kube-controller-manager runs.
    Real,
    /// kube-controller-manager runs with these of its controllers only, by their names and commas.
    Only(&'static str),
    /// No controllers: the test brings its own.
    None,
}

/// The options of a kube-controller-manager.
#[derive(Clone, Copy)]
pub struct Manager {
    /// The names of its controllers that run, with commas.
    pub controllers: &'static str,
    /// The media type that it speaks.
    pub media_type: &'static str,
}

impl Manager {
    /// All controllers that tests need, speaking JSON.
    pub const JSON: Manager = Manager { controllers: CONTROLLERS, media_type: "application/json" };
}

/// A running control plane. Dropping it stops every process.
pub struct ControlPlane {
    processes: Vec<Process>,
    server: String,
    etcd: String,
    /// The options of each program that was started.
    options: BTreeMap<&'static str, Vec<(&'static str, String)>>,
    folder: tempfile::TempDir,
    assets: PathBuf,
}

/// A running kube-controller-manager for any API server. Dropping it stops it.
pub struct ControllerManager {
    _process: Process,
    folder: tempfile::TempDir,
}

impl ControllerManager {
    /// Starts one with a kubeconfig's text. `root` is the certificate, as PEM, that it publishes.
    pub fn start(assets: &Path, kubeconfig: &str, root: &str, how: Manager) -> ControllerManager {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name).display().to_string();
        let key = rcgen::KeyPair::generate().expect("a key for service accounts");
        fs::write(at("sa.key"), key.serialize_pem()).expect("write the key");
        fs::write(at("root.crt"), root).expect("write the certificate");
        fs::write(at("kubeconfig"), kubeconfig).expect("write the kubeconfig");
        let [port] = free_ports();
        let mut options = manager_options(&at("kubeconfig"), &at(""), &at("sa.key"), &at("root.crt"), port);
        options.push(("--controllers", how.controllers.to_owned()));
        options.push(("--kube-api-content-type", how.media_type.to_owned()));
        let process = spawn(&assets.join("kube-controller-manager"), folder.path(), &options, &[]);
        ControllerManager { _process: process, folder }
    }

    /// Returns its log until now.
    pub fn log(&self) -> String {
        log_of("kube-controller-manager", self.folder.path())
    }
}

struct Process {
    name: String,
    child: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended by itself; either way it must be reaped.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns the folder of the reference binaries, or `None` with one line on stderr that says what is skipped.
pub fn assets(skipped: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from).filter(|folder| folder.is_dir());
    if folder.is_none() {
        eprintln!("KUBEBUILDER_ASSETS is not set: skipped: {skipped}");
    }
    folder
}

impl ControlPlane {
    /// Starts etcd and the API server, and the controller manager if asked to; returns when the API server is ready.
    /// `assets` is what [`assets`] returned.
    pub async fn start(assets: &Path, controllers: Controllers) -> ControlPlane {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name).display().to_string();
        let key = rcgen::KeyPair::generate().expect("a key for service accounts");
        fs::write(at("sa.key"), key.serialize_pem()).expect("write the key");
        fs::write(at("sa.pub"), key.public_key_pem()).expect("write the public key");
        fs::write(at("tokens"), "admin,admin,admin,\"system:masters\"\nviewer,viewer,viewer\n").expect("write tokens");
        let [client_port, peer_port, secure_port, manager_port] = free_ports();
        let etcd_url = format!("http://127.0.0.1:{client_port}");
        let peer_url = format!("http://127.0.0.1:{peer_port}");
        let server = format!("https://127.0.0.1:{secure_port}");
        let (processes, options, assets) = (Vec::new(), BTreeMap::new(), assets.to_owned());
        let mut plane = ControlPlane { processes, server, etcd: etcd_url.clone(), options, assets, folder };
        let at = |plane: &ControlPlane, name: &str| plane.folder.path().join(name).display().to_string();
        let etcd = vec![
            ("--data-dir", at(&plane, "etcd")),
            ("--listen-client-urls", etcd_url.clone()),
            ("--advertise-client-urls", etcd_url.clone()),
            ("--listen-peer-urls", peer_url.clone()),
            ("--initial-advertise-peer-urls", peer_url.clone()),
            ("--initial-cluster", format!("default={peer_url}")),
            ("--log-level", "error".to_owned()),
        ];
        plane.options.insert("etcd", etcd);
        plane.spawn("etcd");
        let api_server = vec![
            ("--etcd-servers", etcd_url),
            ("--secure-port", secure_port.to_string()),
            ("--bind-address", "127.0.0.1".to_owned()),
            ("--cert-dir", at(&plane, "certs")),
            ("--service-account-issuer", "https://kubernetes.default.svc".to_owned()),
            ("--service-account-signing-key-file", at(&plane, "sa.key")),
            ("--service-account-key-file", at(&plane, "sa.pub")),
            ("--token-auth-file", at(&plane, "tokens")),
            ("--authorization-mode", "RBAC".to_owned()),
            ("--service-cluster-ip-range", "10.0.0.0/24".to_owned()),
            ("--endpoint-reconciler-type", "none".to_owned()),
            ("--kubelet-preferred-address-types", "InternalIP".to_owned()),
        ];
        plane.options.insert("kube-apiserver", api_server);
        fs::write(plane.kubeconfig(), kubeconfig(&plane.server, "admin")).expect("write the kubeconfig");
        plane.serve().await;
        let controllers = match controllers {
            Controllers::Real => Some(CONTROLLERS),
            Controllers::Only(some) => Some(some),
            Controllers::None => None,
        };
        if let Some(controllers) = controllers {
            let config = plane.kubeconfig().display().to_string();
            let (key, root) = (at(&plane, "sa.key"), at(&plane, "certs/apiserver.crt"));
            let mut manager = manager_options(&config, &at(&plane, "certs"), &key, &root, manager_port);
            manager.push(("--controllers", controllers.to_owned()));
            plane.options.insert("kube-controller-manager", manager);
            plane.spawn("kube-controller-manager");
        }
        plane
    }

    /// The names and the numbers of its processes.
    pub fn processes(&self) -> Vec<(String, u32)> {
        self.processes.iter().map(|process| (process.name.clone(), process.child.id())).collect()
    }

    /// Ends kube-controller-manager, as a crash would.
    pub fn kill_controllers(&mut self) {
        self.kill("kube-controller-manager");
    }

    fn kill(&mut self, name: &str) {
        self.processes.retain(|process| process.name != name);
    }

    /// Takes a snapshot of etcd's data, for which etcd and the API server are away for a moment.
    pub async fn back_up(&mut self) -> tempfile::TempDir {
        self.kill("kube-apiserver");
        self.kill("etcd");
        let snapshot = tempfile::tempdir().expect("a temporary folder");
        copy_folder(&self.folder.path().join("etcd"), snapshot.path());
        self.spawn("etcd");
        self.serve().await;
        snapshot
    }

    /// Sets etcd back to a snapshot, and starts everything anew, as the documentation of Kubernetes says.
    pub async fn restore(&mut self, snapshot: &Path) {
        ["kube-controller-manager", "kube-apiserver", "etcd"].into_iter().for_each(|name| self.kill(name));
        let data = self.folder.path().join("etcd");
        fs::remove_dir_all(&data).expect("etcd's folder goes");
        copy_folder(snapshot, &data);
        self.spawn("etcd");
        self.serve().await;
        if self.options.contains_key("kube-controller-manager") {
            self.spawn("kube-controller-manager");
        }
    }

    /// Returns kube-controller-manager's log until now; nothing if there is none.
    pub fn manager_log(&self) -> String {
        log_of("kube-controller-manager", self.folder.path())
    }

    /// Lets etcd forget everything before its newest revision. The API server's caches don't: it is started anew.
    pub async fn compact(&mut self) {
        self.kill("kube-apiserver");
        let head = self.ask_etcd("range", &json!({ "key": "AA==" })).await;
        let newest = head["header"]["revision"].clone();
        self.ask_etcd("compaction", &json!({ "revision": newest, "physical": true })).await;
        self.serve().await;
    }

    /// Returns one request to etcd's own API, whose numbers are texts.
    async fn ask_etcd(&self, method: &str, body: &Value) -> Value {
        let etcd = Client::try_from(Config::new(self.etcd.parse().expect("an address"))).expect("a client for etcd");
        let request = http::Request::post(format!("/v3/kv/{method}")).header("content-type", "application/json");
        let request = request.body(body.to_string().into_bytes()).expect("a request");
        etcd.request(request).await.unwrap_or_else(|error| panic!("etcd: {method}: {error}"))
    }

    /// Starts the API server, and waits until it is ready.
    async fn serve(&mut self) {
        self.spawn("kube-apiserver");
        self.wait_until_ready().await;
    }

    /// Returns a client with every right.
    pub fn client(&self) -> Client {
        Client::try_from(self.config()).expect("a client for the reference API server")
    }

    /// Returns the configuration behind [`ControlPlane::client`].
    pub fn config(&self) -> Config {
        let mut config = Config::new(self.server.parse().expect("a server address"));
        config.accept_invalid_certs = true;
        config.default_retry = false;
        config.auth_info = AuthInfo { token: Some("admin".to_owned().into()), ..AuthInfo::default() };
        config
    }

    /// Returns a client that shows nothing of its own.
    pub fn client_of_nobody(&self) -> Client {
        let mut config = self.config();
        config.auth_info = AuthInfo::default();
        Client::try_from(config).expect("a client for the reference API server")
    }

    /// A client with the rights of whoever has this token.
    pub fn client_with(&self, token: &str) -> Client {
        let mut config = self.config();
        config.auth_info.token = Some(token.to_owned().into());
        Client::try_from(config).expect("a client for the reference API server")
    }

    /// Returns the path of a kubeconfig with every right.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Returns the path of one of the reference's programs.
    pub fn program(&self, name: &str) -> PathBuf {
        self.assets.join(name)
    }

    /// Returns the address of the API server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns the real kubectl, pointed at this control plane.
    pub fn kubectl(&self) -> Command {
        let mut kubectl = Command::new(self.assets.join("kubectl"));
        kubectl.arg("--kubeconfig").arg(self.kubeconfig()).env("HOME", self.folder.path());
        kubectl
    }

    fn spawn(&mut self, name: &str) {
        let flags: &[&str] = match name {
            "etcd" => &["--unsafe-no-fsync"],
            // Privileged containers are allowed, as in every real cluster.
            "kube-apiserver" => &["--allow-privileged"],
            _ => &[],
        };
        self.processes.push(spawn(&self.assets.join(name), self.folder.path(), &self.options[name], flags));
    }

    async fn wait_until_ready(&self) {
        let client = self.client();
        for _ in 0..600 {
            let request = http::Request::get("/readyz").body(Vec::new()).expect("a request");
            if client.request_text(request).await.is_ok_and(|answer| answer == "ok") {
                return;
            }
            // Real time: these are real processes.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let log = log_of("kube-apiserver", self.folder.path());
        panic!("the API server did not become ready within 60 s:\n{log}");
    }
}

/// Returns the output of a program that was started in `folder`.
fn log_of(name: &str, folder: &Path) -> String {
    fs::read_to_string(folder.join(format!("{name}.log"))).unwrap_or_default()
}

/// Copies a folder with all that is in it.
fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).expect("a folder of its own");
    for entry in fs::read_dir(from).expect("a folder to read") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("its type").is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

/// Starts a program; what it says goes to a file of its name in `folder`.
fn spawn(program: &Path, folder: &Path, options: &[(&str, String)], flags: &[&str]) -> Process {
    let name = program.file_name().and_then(|name| name.to_str()).expect("a program's name");
    let log = fs::File::create(folder.join(format!("{name}.log"))).expect("a log file");
    // setpriv lets the process die with the test, even with one that is killed.
    let mut command = if Path::new("/usr/bin/setpriv").exists() {
        let mut command = Command::new("/usr/bin/setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    // With `=`, since a flag such as `--leader-elect` takes its value in no other way.
    command.args(options.iter().map(|(option, value)| format!("{option}={value}"))).args(flags);
    command.stdin(Stdio::null()).stdout(log.try_clone().expect("a second handle")).stderr(log);
    let child = command.spawn().unwrap_or_else(|error| panic!("failed to start {name}: {error}"));
    Process { name: name.to_owned(), child }
}

fn manager_options(
    kubeconfig: &str,
    certificates: &str,
    key: &str,
    root: &str,
    port: u16,
) -> Vec<(&'static str, String)> {
    vec![
        ("--kubeconfig", kubeconfig.to_owned()),
        ("--authentication-kubeconfig", kubeconfig.to_owned()),
        ("--authorization-kubeconfig", kubeconfig.to_owned()),
        ("--secure-port", port.to_string()),
        ("--bind-address", "127.0.0.1".to_owned()),
        ("--cert-dir", certificates.to_owned()),
        ("--leader-elect", "false".to_owned()),
        ("--service-account-private-key-file", key.to_owned()),
        ("--root-ca-file", root.to_owned()),
        ("--kube-api-qps", "1000".to_owned()),
        ("--kube-api-burst", "2000".to_owned()),
    ]
}

/// Returns a kubeconfig for `server` with a bearer token.
pub fn kubeconfig(server: &str, token: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: reference\ncontexts:\n- name: reference\n  context: {{cluster: \
         reference, user: {token}}}\nclusters:\n- name: reference\n  cluster: {{server: \"{server}\", \
         insecure-skip-tls-verify: true}}\nusers:\n- name: {token}\n  user: {{token: {token}}}\n"
    )
}

fn free_ports<const N: usize>() -> [u16; N] {
    // All are held at once, so that they differ.
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    listeners.map(|listener| listener.local_addr().expect("its address").port())
}
