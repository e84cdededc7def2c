//! belay as the service of this machine: where its unit keeps the configuration, the kubeconfig and the state. Commands
//! that only read (`status`, `history`, `show`) find them there without options.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::config::{Config, read_config_text};
use crate::regular_file::open_regular;

/// The path of the service's configuration.
pub(in crate::cli) const CONFIG: &str = "/etc/belay/belay.toml";
/// The path of the kubeconfig that the unit hands over.
const KUBECONFIG: &str = "/etc/belay/kubeconfig";
/// The path of the kubeconfig that the running service has, perhaps decrypted.
const CREDENTIAL: &str = "/run/credentials/belay.service/kubeconfig";
/// The path of the state, unless the configuration says otherwise.
const STATE: &str = "/var/lib/belay";
const HISTORY: &str = "history.db";

/// The service of the machine whose root this is.
pub(in crate::cli) struct Service {
    root: PathBuf,
}

impl Service {
    pub(in crate::cli) fn of_this_machine() -> Service {
        Service { root: PathBuf::from("/") }
    }

    /// Returns the folder of its state, if there is a readable history in it.
    pub(in crate::cli) fn state(&self) -> Option<PathBuf> {
        let folder = self.config().and_then(|config| config.state.dir).unwrap_or_else(|| self.at(STATE));
        has_a_history(&folder).then_some(folder)
    }

    /// Returns its kubeconfig, if it may be read.
    pub(in crate::cli) fn kubeconfig(&self) -> Option<PathBuf> {
        [KUBECONFIG, CREDENTIAL].map(|file| self.at(file)).into_iter().find(|file| open_regular(file).is_ok())
    }

    /// Returns the context of its kubeconfig, if all its sources have the same.
    pub(in crate::cli) fn context(&self) -> Option<String> {
        let sources = self.config()?.source;
        let first = sources.first()?.context.clone();
        (!first.is_empty() && sources.iter().all(|source| source.context == first)).then_some(first)
    }

    /// Returns advice for a person who finds no history, and may not read the service's.
    pub(in crate::cli) fn hint(&self) -> &'static str {
        match self.state().is_none() && fs::symlink_metadata(self.at(STATE)).is_ok() {
            true => "; this machine's service keeps its own in /var/lib/belay, which root can read",
            false => "",
        }
    }

    fn config(&self) -> Option<Config> {
        let file = self.at(CONFIG);
        Config::parse(&read_config_text(&file).ok()?, &file.display().to_string()).ok()
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

/// Returns the state folder to read: a person's own if there is a history in it, the service's otherwise. An
/// administrator asks for the service's, whatever was once tried as root.
pub(in crate::cli) fn to_look_at(own: Option<PathBuf>, service: &Service, is_root: bool) -> Option<PathBuf> {
    let (own_history, services) = (own.clone().filter(|own| has_a_history(own)), service.state());
    match is_root {
        true => services.or(own_history),
        false => own_history.or(services),
    }
    .or(own)
}

/// Returns true when this process is root's.
pub(in crate::cli) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn has_a_history(folder: &Path) -> bool {
    fs::metadata(folder.join(HISTORY)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn an_administrator_finds_the_services_state() {
        let machine = tempfile::tempdir().unwrap();
        let service = Service { root: machine.path().to_owned() };
        let own = machine.path().join("root/.local/state/belay");
        let look = |is_root| to_look_at(Some(own.clone()), &service, is_root).unwrap();
        assert_eq!((look(true), look(false)), (own.clone(), own.clone()), "there is none at all");
        assert_eq!(service.hint(), "");
        fs::create_dir_all(machine.path().join("var/lib/belay")).unwrap();
        assert!(service.hint().contains("root can read"));
        let services = machine.path().join("var/lib/belay");
        write(services.join(HISTORY), "");
        assert_eq!((look(true), look(false)), (services.clone(), services.clone()));
        write(own.join(HISTORY), "");
        assert_eq!((look(true), look(false)), (services, own.clone()));
        let elsewhere = machine.path().join("srv/belay");
        write(elsewhere.join(HISTORY), "");
        let config = format!("[state]\ndir = {elsewhere:?}\n[[source]]\nrepository = \"/srv/shop.git\"\n");
        write(machine.path().join("etc/belay/belay.toml"), &config);
        assert_eq!((look(true), service.hint()), (elsewhere, ""));
    }

    #[test]
    fn its_kubeconfig_and_its_context_are_found() {
        let machine = tempfile::tempdir().unwrap();
        let service = Service { root: machine.path().to_owned() };
        assert_eq!((service.kubeconfig(), service.context()), (None, None));
        write(machine.path().join("etc/belay/kubeconfig"), "");
        assert_eq!(service.kubeconfig(), Some(machine.path().join("etc/belay/kubeconfig")));
        let config = |second: &str| {
            let source = |name: &str, context: &str| {
                format!("[[source]]\nname = {name:?}\nrepository = \"/srv/shop.git\"\ncontext = {context:?}\n")
            };
            write(machine.path().join("etc/belay/belay.toml"), &(source("a", "prod") + &source("b", second)));
            service.context()
        };
        assert_eq!(config("prod").as_deref(), Some("prod"));
        assert_eq!(config("test"), None);
    }
}
