//! The cluster, and the state folder: from the global options and the environment.

use std::error::Error as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use hyper_timeout::TimeoutConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::ConfigExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder, ServiceExt as _};

use super::service::{self, Service};
use crate::cli::Globals;
use crate::cli::output::progress;
use crate::clock::Clock;
use crate::cluster::{Cluster, Connector, connect, without_credentials};
use crate::config::Span;
use crate::daemon::ask_daemon;
use crate::history::HistoryLocation;
use crate::regular_file::open_regular;
use crate::systemd_unit::is_credential;

/// The longest time until a connection is made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The time after which an unused connection is closed.
const IDLE_CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// The most unused connections that are kept. While a server is slow, each request that finds none begins a new one.
const MAX_IDLE_CONNECTIONS: usize = 32;

/// The file in a state folder with the kubeconfig of the embedded cluster that a daemon has brought along.
pub(in crate::cli) const EMBEDDED_KUBECONFIG: &str = "embedded.kubeconfig";

/// The authority of the cluster that belay runs in.
const IN_CLUSTER_CA: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// The treatment of a program that a kubeconfig names to log in with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Programs {
    /// It is run, as kubectl does.
    Run,
    /// Such a kubeconfig is refused.
    Refused,
}

/// Returns kube's client with a timer for its pool. Without one it never closes a connection: thousands of rollouts leave
/// hundreds, with 50 KB each.
fn client_of(config: Config) -> kube::Result<Client> {
    if config.proxy_url.is_some() {
        // kube is built without proxies, and its error says so.
        return Client::try_from(config);
    }
    let mut connector = TimeoutConnector::new(config.rustls_https_connector()?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let connections = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_CONNECTION_TIMEOUT)
        .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .service(connections.map_err(BoxError::from));
    Ok(Client::new(service, config.default_namespace))
}

/// Returns a number that changes when one of these files does.
fn stamp_of(files: &[PathBuf]) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let mut hasher = DefaultHasher::new();
    for file in files {
        let seen = std::fs::metadata(file).ok();
        seen.map(|seen| (seen.ino(), seen.size(), seen.mtime(), seen.mtime_nsec())).hash(&mut hasher);
    }
    hasher.finish()
}

/// Reads `10s`, `1m`, or a number of seconds as kubectl takes it.
pub(in crate::cli) fn request_timeout(text: &str) -> Result<Duration, String> {
    let limit = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => text.parse::<Span>().map_err(|error| error.to_string())?.0,
    };
    if limit.is_zero() {
        return Err("a request must have a limit; leave it out for 30s".to_owned());
    }
    Ok(limit)
}

/// Returns the fault of a kubeconfig, without the lines of it that its reader would show: there are tokens in them.
fn said(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::Parse(error) => {
            let at = error.location().map(|at| format!(" at line {}, column {}", at.line(), at.column()));
            format!("it is no kubeconfig: something can't be read{}", at.unwrap_or_default())
        }
        KubeconfigError::ReadConfig(error, _) if error.kind() == ErrorKind::InvalidData => {
            "it is no kubeconfig: it is not UTF-8 text".to_owned()
        }
        // The path is in the message around it.
        KubeconfigError::ReadConfig(error, _) => error.to_string(),
        other => other.to_string(),
    }
}

/// Checks that a file can be opened without waiting for somebody. The reader of a missing file reports that.
fn is_readable(path: &Path) -> std::io::Result<()> {
    match open_regular(path) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => Err(error),
        _ => Ok(()),
    }
}

fn read_kubeconfig(path: &Path) -> Option<Kubeconfig> {
    is_readable(path).ok()?;
    Kubeconfig::read_from(path).ok()
}

/// Returns the files with certificates and keys that a kubeconfig names.
fn certificate_files(kubeconfig: &Kubeconfig) -> Vec<PathBuf> {
    let users = kubeconfig.auth_infos.iter().filter_map(|user| user.auth_info.as_ref());
    let of_users = users.flat_map(|user| [&user.client_certificate, &user.client_key]);
    let of_clusters = kubeconfig.clusters.iter().filter_map(|one| Some(&one.cluster.as_ref()?.certificate_authority));
    of_users.chain(of_clusters).flatten().map(PathBuf::from).collect()
}

/// Checks that a kubeconfig, and each file that it names, is a regular file: a pipe would keep belay waiting for ever.
fn check_connection_files(kubeconfig: &Path) -> anyhow::Result<()> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error| anyhow!("failed to read {path}: {error}")
    };
    is_readable(kubeconfig).map_err(failed(kubeconfig))?;
    let Ok(read) = Kubeconfig::read_from(kubeconfig) else { return Ok(()) };
    if read.clusters.is_empty() && is_credential(kubeconfig) {
        bail!(
            "the service's kubeconfig is missing, or names no cluster: put one at /etc/belay/kubeconfig, readable by root \
             alone, or where the unit loads the credential kubeconfig from (systemctl cat belay)"
        );
    }
    let users = read.auth_infos.iter().filter_map(|user| user.auth_info.as_ref());
    let tokens = users.filter_map(|user| user.token_file.as_ref()).map(PathBuf::from);
    for file in certificate_files(&read).into_iter().chain(tokens) {
        is_readable(&file).map_err(failed(&file))?;
    }
    Ok(())
}

impl Globals {
    /// Returns the cluster of the kubeconfig, or the one that belay runs in. `context` is asked for unless the command
    /// line says otherwise.
    pub async fn cluster(&self, context: &str) -> anyhow::Result<Cluster> {
        self.cluster_of(context, Programs::Run).await
    }

    /// Returns the same, with a policy for programs that the kubeconfig names for logging in.
    pub(in crate::cli) async fn cluster_of(&self, context: &str, programs: Programs) -> anyhow::Result<Cluster> {
        let server = self.config(context).await?.cluster_url.to_string();
        let client = self.client_of(context, programs).await?;
        let cluster = Cluster::new(client, Clock::system()).of_server(server.trim_end_matches('/'));
        Ok(match self.request_timeout {
            Some(limit) => cluster.with_request_timeout(limit),
            None => cluster,
        })
    }

    /// Returns a client of it.
    pub async fn client(&self, context: &str) -> anyhow::Result<Client> {
        self.client_of(context, Programs::Run).await
    }

    async fn client_of(&self, context: &str, programs: Programs) -> anyhow::Result<Client> {
        let server = self.config(context).await?.cluster_url.to_string();
        let (globals, context) = (self.clone(), context.to_owned());
        let files = self.connection_files();
        let connector = Connector {
            server: server.trim_end_matches('/').to_owned(),
            stamp: Box::new(move || stamp_of(&files)),
            connect: Box::new(move || {
                let (globals, context) = (globals.clone(), context.clone());
                Box::pin(
                    async move { globals.client_once(&context, programs).await.map_err(|error| format!("{error:#}")) },
                )
            }),
        };
        connect(connector).await.map_err(|error| anyhow!(error))
    }

    /// Returns the kubeconfigs, and the files that they name.
    fn connection_files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = vec![IN_CLUSTER_CA.into()];
        for path in self.kubeconfigs() {
            files.extend(read_kubeconfig(&path).map(|read| certificate_files(&read)).unwrap_or_default());
            files.push(path);
        }
        files
    }

    /// Returns the kubeconfigs that kubectl would read.
    fn kubeconfigs(&self) -> Vec<PathBuf> {
        match (&self.kubeconfig, var("KUBECONFIG")) {
            (Some(path), _) => vec![path.clone()],
            (None, Some(paths)) => std::env::split_paths(&paths).collect(),
            (None, None) => var("HOME").map(|home| home.join(".kube/config")).into_iter().collect(),
        }
    }

    /// Reads the kubeconfig as kubectl would, only to look into it. `None` if it can't be read.
    pub(in crate::cli) fn kubeconfig_as_read(&self) -> Option<Kubeconfig> {
        self.kubeconfigs().iter().all(|path| is_readable(path).is_ok()).then_some(())?;
        match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        }
        .ok()
    }

    async fn client_once(&self, context: &str, programs: Programs) -> anyhow::Result<Client> {
        let mut config = self.config(context).await?;
        if programs == Programs::Refused
            && (config.auth_info.exec.is_some() || config.auth_info.auth_provider.is_some())
        {
            bail!(
                "the kubeconfig names a program to log in with (exec or auth-provider), and the configuration forbids \
                 it: [cluster] allow_exec = false; give belay a token, a token file or a certificate instead"
            );
        }
        if let Some(namespace) = &self.namespace {
            config.default_namespace.clone_from(namespace);
        }
        if let Some(user) = &self.as_user {
            config.auth_info.impersonate = Some(user.clone());
            config.auth_info.impersonate_groups = (!self.as_group.is_empty()).then(|| self.as_group.clone());
        }
        config.connect_timeout = Some(self.request_timeout.map_or(CONNECT_TIMEOUT, |limit| limit.min(CONNECT_TIMEOUT)));
        if config.accept_invalid_certs || config.cluster_url.scheme_str() == Some("http") {
            // Nothing is verified, so that a machine without certificates of authorities needs none.
            config.root_cert.get_or_insert_default();
        }
        // belay keeps its own back-off, and says so while it waits.
        config.default_retry = false;
        client_of(config).map_err(|error| anyhow!("failed to connect to the cluster: {}", without_credentials(&error)))
    }

    async fn config(&self, context: &str) -> anyhow::Result<Config> {
        let mut context = self.context.clone().or_else(|| (!context.is_empty()).then(|| context.to_owned()));
        let mut kubeconfig = self.kubeconfig.clone();
        if kubeconfig.is_none() && context.is_none() && var("KUBECONFIG").is_none() {
            kubeconfig = self.embedded_of_the_state_folder().await;
        }
        if kubeconfig.is_none() && !has_a_cluster() {
            let service = Service::of_this_machine();
            kubeconfig = service.kubeconfig();
            if let Some(file) = &kubeconfig {
                progress(format!("note: with the kubeconfig of this machine's service, {}", file.display()));
                context = context.or_else(|| service.context());
            }
        }
        let named = kubeconfig.clone().map_or_else(|| self.kubeconfigs(), |path| vec![path]);
        named.iter().try_for_each(|path| check_connection_files(path))?;
        let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
        if let Some(path) = &kubeconfig {
            let name = path.display();
            let text =
                Kubeconfig::read_from(path).map_err(|error| anyhow!("failed to read {name}: {}", said(&error)))?;
            let config = Config::from_custom_kubeconfig(text, &options).await;
            return config.map_err(|error| anyhow!("failed to use {name}: {}", said(&error)));
        }
        if options.context.is_none() {
            let inferred = Config::infer().await;
            let embedded = if inferred.is_err() { self.embedded_without_daemon().await } else { None };
            return inferred.map_err(|error| {
                let why = error.source().and_then(|source| source.downcast_ref()).map(said).unwrap_or_default();
                let embedded = embedded.unwrap_or_default();
                if let Some(file) = named.iter().find(|file| file.exists()) {
                    return anyhow!("failed to use {}: {why}{embedded}", file.display());
                }
                // One that is named and missing is no file of the home folder that was never made.
                if let Some(file) = named.first().filter(|_| std::env::var_os("KUBECONFIG").is_some()) {
                    let advice = crate::systemd_unit::advice(file, std::io::ErrorKind::NotFound);
                    let advice = advice.map(|advice| format!("; {advice}")).unwrap_or_default();
                    return anyhow!("there is no file {}, which KUBECONFIG names{advice}{embedded}", file.display());
                }
                anyhow!(
                    "failed to find a cluster: no kubeconfig, and not in a pod; say --kubeconfig FILE: {why}{embedded}"
                )
            });
        }
        let config = Config::from_kubeconfig(&options).await;
        config.map_err(|error| anyhow!("failed to use the kubeconfig: {}", said(&error)))
    }

    /// Returns the kubeconfig of the embedded cluster that the daemon of the state folder brought along, if one answers
    /// there and says that it is for that cluster.
    async fn embedded_of_the_state_folder(&self) -> Option<PathBuf> {
        let folder = self.state_to_look_at().ok()?;
        let file = folder.join(EMBEDDED_KUBECONFIG);
        let kubeconfig = read_kubeconfig(&file)?;
        let named = kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref()?.server.clone());
        let servers: Vec<String> = named.map(|server| server.trim_end_matches('/').to_owned()).collect();
        let published = ask_daemon(&folder).await?;
        let clusters = published.values().filter_map(|source| source.standing.follower.cluster.as_deref());
        let is_its = clusters
            .map(|cluster| cluster.trim_end_matches('/'))
            .any(|cluster| servers.iter().any(|server| server == cluster));
        is_its.then_some(file)
    }

    /// Says that the embedded cluster of the state folder ended with its daemon, if there was one, or that nobody but the
    /// daemon's user may look there.
    async fn embedded_without_daemon(&self) -> Option<String> {
        let folder = self.state_to_look_at().ok()?;
        let file = folder.join(EMBEDDED_KUBECONFIG);
        if file.try_exists().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied) {
            let folder = folder.display();
            return Some(format!("; the state folder {folder} is another user's: ask as that user or as root"));
        }
        let ended = file.exists() && ask_daemon(&folder).await.is_none();
        ended.then(|| {
            let folder = folder.display();
            format!(
                "; no daemon answers in {folder}, and its embedded cluster ended with it: belay run --embedded starts \
                 another one, belay history shows what was rolled out"
            )
        })
    }

    /// Returns the namespace that belay itself runs in, if the cluster of `context` is the one that it runs in.
    pub async fn own_namespace(&self, context: &str) -> Option<String> {
        if self.kubeconfig.is_some() || self.context.is_some() || !context.is_empty() {
            return None;
        }
        let inside = Config::incluster().ok()?;
        // A kubeconfig goes before the pod's own account, and may be for another cluster.
        if Config::from_kubeconfig(&KubeConfigOptions::default()).await.is_ok() {
            return None;
        }
        let named = std::env::var("POD_NAMESPACE").ok().filter(|namespace| !namespace.is_empty());
        Some(named.unwrap_or(inside.default_namespace))
    }

    /// Returns the folder with the mirrors and the history, for who writes them.
    pub fn state_folder(&self, configured: Option<&PathBuf>) -> anyhow::Result<PathBuf> {
        let named = self.state_dir.clone().or_else(|| configured.cloned()).or_else(named_by_systemd);
        named.or_else(own_state).context("failed to find a state folder: say --state-dir DIR")
    }

    /// Returns the folder with the mirrors and the history, for commands that only read: also that of this machine's
    /// service.
    pub fn state_to_look_at(&self) -> anyhow::Result<PathBuf> {
        let named = self.state_dir.clone().or_else(named_by_systemd);
        let found = || service::to_look_at(own_state(), &Service::of_this_machine(), service::is_root());
        named.or_else(found).context("failed to find a state folder: say --state-dir DIR")
    }

    /// Returns the place of the history for commands that only read.
    pub fn history_to_look_at(&self) -> anyhow::Result<HistoryLocation> {
        Ok(HistoryLocation::in_folder(&self.state_to_look_at()?))
    }
}

/// Returns true when a kubeconfig is found as kubectl finds it, or this is a pod.
fn has_a_cluster() -> bool {
    let default = || var("HOME").is_some_and(|home| home.join(".kube/config").exists());
    var("KUBECONFIG").is_some() || var("KUBERNETES_SERVICE_HOST").is_some() || default()
}

/// Returns the folder that systemd gave to the service.
fn named_by_systemd() -> Option<PathBuf> {
    // It names several with colons between them; the first is belay's.
    let folders = var("STATE_DIRECTORY")?;
    Some(PathBuf::from(folders.to_string_lossy().split(':').next().unwrap_or_default()))
}

/// Returns the folder of a person's own.
fn own_state() -> Option<PathBuf> {
    let base = var("XDG_STATE_HOME").or_else(|| var("HOME").map(|home| home.join(".local/state")));
    base.map(|base| base.join("belay"))
}

/// Returns the value of an environment variable that is not empty.
fn var(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_has_another_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let (path, next) = (folder.path().join("config"), folder.path().join("next"));
        let stamp = || stamp_of(std::slice::from_ref(&path));
        let none = stamp();
        std::fs::write(&path, "a").unwrap();
        let one = stamp();
        std::fs::write(&next, "b").unwrap();
        std::fs::rename(&next, &path).unwrap();
        assert!(none != one && one != stamp() && stamp() == stamp());
    }

    /// A kubeconfig that names a program is refused where that is forbidden, the first time and when it is read again; the
    /// program is not run.
    #[tokio::test]
    async fn a_program_of_a_kubeconfig_is_not_run_where_that_is_forbidden() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (program, ran) = (at("program"), at("ran"));
        let says =
            r#"{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "t"}}"#;
        std::fs::write(&program, format!("#!/bin/sh\ntouch {}\necho '{says}'\n", ran.display())).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let write = |user: &str| {
            let text = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n\
                clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n";
            std::fs::write(at("config"), format!("{text}users: [{{name: a, user: {user}}}]\n")).unwrap();
        };
        let globals = Globals {
            kubeconfig: Some(at("config")),
            context: None,
            namespace: None,
            state_dir: None,
            as_user: None,
            as_group: Vec::new(),
            request_timeout: None,
            verbose: 0,
        };
        write("{token: t}");
        globals.client_once("", Programs::Refused).await.unwrap();
        for login in [
            format!(
                "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {}, interactiveMode: Never}}}}",
                program.display()
            ),
            format!(
                "{{auth-provider: {{name: gcp, config: {{cmd-path: {}, token-key: '{{.token}}'}}}}}}",
                program.display()
            ),
        ] {
            write(&login);
            for refused in [
                globals.client_once("", Programs::Refused).await.map(drop),
                globals.client_of("", Programs::Refused).await.map(drop),
            ] {
                assert!(refused.unwrap_err().to_string().contains("allow_exec = false"), "{login}");
            }
            assert!(!ran.exists(), "{login}");
        }
        write(&format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {}, interactiveMode: Never}}}}",
            program.display()
        ));
        globals.client_once("", Programs::Run).await.unwrap();
        assert!(ran.exists(), "it is run elsewhere");
    }
}
