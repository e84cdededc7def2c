//! The rights of users: the roles that are bound to them.

use super::permission_atom::PermissionAtom;
use crate::api::ApiError;
use crate::api::call::{Call, User};
use crate::api::route::Target;
use crate::api::store::Store;

/// The mode of authorization: every right, or those of roles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Authorization {
    /// Everybody who is known may do everything. If there are tokens, a client without one is not let in.
    #[default]
    AllowAll,
    /// Users have the permissions of the roles that are bound to them.
    Rbac,
}

/// The action that somebody wants to do.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// The verb, `get`.
    pub verb: &'a str,
    /// The API group, for objects.
    pub group: &'a str,
    /// The resource, with a subresource as `pods/log`; empty if a path is meant.
    pub resource: &'a str,
    /// The namespace, if there is one.
    pub namespace: Option<&'a str>,
    /// The name; empty for all.
    pub name: &'a str,
    /// The path, if no object is meant.
    pub path: &'a str,
}

impl Attributes<'_> {
    fn permission_atom(&self) -> PermissionAtom<'_> {
        let Attributes { verb, group, resource, name, path, .. } = *self;
        if resource.is_empty() {
            PermissionAtom::Path { verb, path }
        } else {
            PermissionAtom::Resource { verb, group, resource, name: Some(name) }
        }
    }
}

/// Decides permissions by the stored roles and their bindings.
#[derive(Debug)]
pub struct Authorizer {
    pub(super) store: Store,
    authorization: Authorization,
}

impl Authorizer {
    /// Returns an authorizer by the roles in a store, if they are asked at all.
    #[must_use]
    pub fn new(store: Store, authorization: Authorization) -> Authorizer {
        Authorizer { store, authorization }
    }

    /// Returns true when everybody may do everything.
    pub fn allows_all(&self) -> bool {
        self.authorization == Authorization::AllowAll
    }

    /// Refuses a request that a user may not make.
    ///
    /// # Errors
    /// 403.
    pub fn authorize(&self, call: &Call, target: &Target, verb: &str) -> Result<(), ApiError> {
        let definition = &target.resource.definition;
        let resource = match &target.subresource {
            Some(subresource) => format!("{}/{subresource}", definition.resource),
            None => definition.resource.clone(),
        };
        let name = target.name.as_deref().unwrap_or_default();
        // A namespace lies in itself.
        let itself = target.name.as_deref().filter(|_| target.resource.is("", "namespaces"));
        let namespace = target.namespace.as_deref().or(itself);
        self.demand(
            &call.user,
            &Attributes { verb, group: &definition.group, resource: &resource, namespace, name, path: "" },
        )
    }

    /// Refuses paths that a user may not see.
    ///
    /// # Errors
    /// 403.
    pub fn authorize_path(&self, call: &Call) -> Result<(), ApiError> {
        let verb = call.method.as_str().to_ascii_lowercase();
        let attributes =
            Attributes { verb: &verb, group: "", resource: "", namespace: None, name: "", path: &call.path };
        let Err(why) = self.decide(&call.user, &attributes) else { return Ok(()) };
        let message = format!("forbidden: User {:?} cannot {verb} path {:?}", call.user.name, call.path);
        Err(ApiError::generic(403, "Forbidden", because(message, &why)))
    }

    /// Refuses an access that a user may not have.
    ///
    /// # Errors
    /// 403.
    pub(super) fn demand(&self, user: &User, wanted: &Attributes<'_>) -> Result<(), ApiError> {
        let Err(why) = self.decide(user, wanted) else { return Ok(()) };
        let place = match wanted.namespace {
            Some(namespace) => format!("in the namespace {namespace:?}"),
            None => "at the cluster scope".to_owned(),
        };
        let Attributes { verb, group, resource, name, .. } = wanted;
        let message =
            format!("User {:?} cannot {verb} resource {resource:?} in API group {group:?} {place}", user.name);
        let plural = resource.split('/').next().unwrap_or_default();
        Err(ApiError::forbidden(group, plural, name, &because(message, &why)))
    }

    /// Returns true when a user may do something.
    pub fn may(&self, user: &User, wanted: &Attributes<'_>) -> bool {
        self.decide(user, wanted).is_ok()
    }

    /// Decides if a user may do something, with the reason, as far as there is more to say.
    pub(super) fn decide(&self, user: &User, wanted: &Attributes<'_>) -> Result<String, String> {
        let master = user.groups.iter().any(|group| group == "system:masters");
        if master || self.allows_all() {
            return Ok(String::new());
        }
        let grants = self.grants_of(user, wanted.namespace);
        let permission_atom = wanted.permission_atom();
        match grants.given.iter().find(|given| permission_atom.is_in(&given.rule)) {
            Some(given) => Ok(format!("RBAC: allowed by {}", given.through)),
            None => Err(grants.complaint().map(|complaint| format!("RBAC: {complaint}")).unwrap_or_default()),
        }
    }
}

fn because(message: String, why: &str) -> String {
    if why.is_empty() { message } else { format!("{message}: {why}") }
}
