//! The server: its store, its settings, and the parts that know the rules of its cluster.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::access::{Access, AccountTokens, Authenticator, Authorizer};
use super::admission::Admission;
use super::registry::Registry;
use super::route::Target;
use super::store::{Backup, KeepError, Store, Stored, path};
use super::{ApiError, convert};
use crate::Clock;
use crate::{PodLogs, Random};

/// The settings of an API server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Tells the time.
    pub clock: Clock,
    /// Gives uids, generated names, addresses.
    pub random: Random,
    /// The logs of containers.
    pub logs: PodLogs,
    /// The users and their rights.
    pub access: Access,
    /// The name, in its version and in kubeconfigs.
    pub name: String,
    /// True when pods need an existing ServiceAccount, and get its token mounted.
    pub service_accounts: bool,
    /// The former state, and the folder for it; none, and nowhere, if `None`.
    pub kept: Option<Kept>,
    /// The key that signs tokens; drawn from `random` if `None`: anybody who knows the seed can guess that.
    pub signing_key: Option<[u8; 32]>,
}

/// State that outlives its server.
#[derive(Clone, Debug)]
pub struct Kept(Store);

impl Kept {
    /// Opens the state in a folder, which is made if there is none. Only one server at a time can have it.
    ///
    /// # Errors
    /// As [`KeepError`] says.
    pub fn open(folder: &Path) -> Result<Kept, KeepError> {
        Store::open(folder).map(Kept)
    }

    /// Returns the revision of the latest write; 0 before the first.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.0.revision()
    }
}

/// The API server. Cheap to clone; all clones are one server.
#[derive(Clone)]
pub struct ApiServer(Arc<ServerInner>);

struct ServerInner {
    store: Store,
    registry: Mutex<Arc<Registry>>,
    settings: Settings,
    admission: Admission,
    authenticator: Authenticator,
    authorizer: Authorizer,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "ApiServer(revision {})", self.0.store.revision())
    }
}

impl ApiServer {
    /// Returns a server with only the objects of every new cluster.
    #[must_use]
    pub fn new(settings: Settings) -> ApiServer {
        let registry = Mutex::new(Registry::built_in());
        let mut key = [0; 32];
        key.fill_with(|| u8::try_from(settings.random.below(256)).unwrap_or_default());
        let key = settings.signing_key.unwrap_or(key);
        let store = settings.kept.as_ref().map(|kept| kept.0.clone()).unwrap_or_default();
        let Settings { clock, random, service_accounts, access, .. } = &settings;
        let admission = Admission::new(store.clone(), clock.clone(), random.clone(), *service_accounts);
        let tokens = AccountTokens::new(store.clone(), clock.clone(), key);
        let authenticator = Authenticator::new(access.tokens.clone(), tokens);
        let authorizer = Authorizer::new(store.clone(), access.authorization);
        let inner = ServerInner { store, registry, settings, admission, authenticator, authorizer };
        let server = ApiServer(Arc::new(inner));
        server.serve_definitions();
        server
    }

    /// Returns the token that is cancelled when a write could not be kept; never, if nothing is kept.
    #[must_use]
    pub fn lost(&self) -> CancellationToken {
        self.store().failed()
    }

    /// Returns when everything that is written by now is on the disk, or can't be kept: at once, if nothing is kept.
    pub async fn saved(&self) {
        self.store().saved().await;
    }

    /// Ends every watch, now and from now on.
    pub fn close(&self) {
        self.0.store.close();
    }

    /// Returns everything that is stored now, as a snapshot of etcd's keeps it.
    #[must_use]
    pub fn back_up(&self) -> Backup {
        self.0.store.back_up()
    }

    /// Puts back what was stored at a backup, as after a restore of etcd. Resource versions count on from there, every
    /// watch ends, and one from a later version is silent until that is reached again, as at the real server.
    pub fn restore(&self, backup: &Backup) {
        self.0.store.restore(backup);
        self.admission().count_ports_again();
        self.serve_definitions_again();
    }

    /// Forgets all events so far: watches and lists that need them are answered with 410, as after the real server's
    /// compaction.
    pub fn compact(&self) {
        self.0.store.compact();
    }

    /// Returns the revision of the latest write.
    #[must_use]
    pub fn store_revision(&self) -> u64 {
        self.0.store.revision()
    }

    pub(super) fn store(&self) -> &Store {
        &self.0.store
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.0.settings.clock
    }

    pub(super) fn now(&self) -> Timestamp {
        self.0.settings.clock.now()
    }

    pub(super) fn random(&self) -> &Random {
        &self.0.settings.random
    }

    /// Returns the cluster's rules for new and changed objects.
    pub(super) fn admission(&self) -> &Admission {
        &self.0.admission
    }

    /// Returns the authenticator.
    pub(super) fn authenticator(&self) -> &Authenticator {
        &self.0.authenticator
    }

    /// Returns the authorizer.
    pub(super) fn authorizer(&self) -> &Authorizer {
        &self.0.authorizer
    }

    /// Returns its name.
    pub(crate) fn own_name(&self) -> &str {
        &self.0.settings.name
    }

    pub(super) fn logs(&self) -> &PodLogs {
        &self.0.settings.logs
    }

    pub(super) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.0.registry.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set_registry(&self, registry: Registry) {
        *self.0.registry.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(registry);
    }

    /// Returns the object that a path names.
    ///
    /// # Errors
    /// 404.
    pub(super) fn find(&self, target: &Target) -> Result<Arc<Stored>, ApiError> {
        let definition = &target.resource.definition;
        let name = target.name.as_deref().unwrap_or_default();
        let problems = kube_rules::path_segment_problems(name);
        if !problems.is_empty() {
            let why = format!("Name parameter invalid: {name:?}: {}", problems.join(";"));
            return Err(ApiError::bad_request(why));
        }
        let found = self.store().get(&target.resource.group_resource, &path(target.namespace.as_deref(), name));
        found.ok_or_else(|| ApiError::not_found(&definition.group, &definition.resource, name))
    }

    /// Returns a stored object as a resource serves it.
    pub(super) fn served(target: &Target, stored: &Stored) -> serde_json::Value {
        convert::from_storage(&target.resource, stored.value())
    }
}
